"""What `import rota` promises. A name leaves or enters this list together with a line in CHANGELOG.md."""

import subprocess
import sys

import rota

PUBLIC_NAMES = [
    "AsyncClient",
    "ClaimedJob",
    "Client",
    "CurrentJob",
    "Fail",
    "JobCancelled",
    "JobInfo",
    "JobSpec",
    "Local",
    "Retry",
    "RotaError",
    "Snooze",
    "Task",
    "Tasks",
    "Worker",
    "current_job",
    "task",
]


def test_public_names_are_exactly_these() -> None:
    assert sorted(rota.__all__) == PUBLIC_NAMES


def test_every_public_name_exists() -> None:
    assert [name for name in rota.__all__ if not hasattr(rota, name)] == []


def test_importing_rota_loads_neither_server_nor_transport() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", "import rota, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout.split()
    assert {"asyncio", "httpx2", "msgspec", "sqlite3", "structlog", "uvicorn"}.isdisjoint(loaded)


def test_the_client_and_worker_load_no_server() -> None:
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import rota, sys; rota.AsyncClient, rota.Client, rota.Worker; print(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout.split()
    assert {"httptools", "sqlite3", "uvicorn"}.isdisjoint(loaded)
    assert not [name for name in loaded if name.startswith(("rota.store", "rota.services", "rota.web"))]
