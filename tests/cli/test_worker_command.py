"""``rota worker`` runs a module's tasks until it is told to stop."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import Rota, environment

TASKS = """
import rota

@rota.task(name="{name}.add")
def add(a: int, b: int) -> int:
    return a + b

extra = rota.Tasks()

@extra.task(name="{name}.twice")
async def twice(a: int) -> int:
    return 2 * a
"""


@pytest.fixture
def module(rota: Rota, request: pytest.FixtureRequest) -> str:
    """The name of a module of tasks, and of the types it serves."""
    name = f"tasks_{abs(hash(request.node.name)) % 10**8}"
    (rota.folder / f"{name}.py").write_text(TASKS.format(name=name))
    for task in ("add", "twice"):
        rota.done("types", "put", f"{name}.{task}")
    return name


def start(rota: Rota, *arguments: str) -> subprocess.Popen[str]:
    token = rota.folder / "worker.token"
    rota.done("tokens", "create", f"worker-{rota.folder.name}", "--preset", "worker", "--out", str(token))
    return subprocess.Popen(
        [sys.executable, "-m", "rota", "worker", *arguments, "--token-file", str(token)],
        cwd=rota.folder,
        env=environment(**rota.variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result_of(rota: Rota, number: int) -> object:
    """The job's result, once it has one; the test's own time limit bounds the wait."""
    while True:
        job = rota.done("jobs", "show", str(number), "--json").json()
        if job["status"] == "completed":
            assert job["worker_id"] == f"worker-{rota.folder.name}/here"
            return job["result"]
        assert job["status"] in {"pending", "running"}, job


def test_worker_runs_jobs_and_stops_in_order(rota: Rota, module: str) -> None:
    job = rota.done("enqueue", f"{module}.add", '{"a": 2, "b": 3}', "--json").json()
    with start(rota, module, "--instance", "here", "--concurrency", "2") as worker:
        assert result_of(rota, job["id"]) == 5
        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate(timeout=20)
    assert worker.returncode == 0, err
    assert out == ""
    assert f"asking for jobs of type {module}.add, {module}.twice" in err


def test_name_after_the_colon_narrows_what_is_served(rota: Rota, module: str) -> None:
    other = rota.done("enqueue", f"{module}.add", '{"a": 2, "b": 3}', "--json").json()
    job = rota.done("enqueue", f"{module}.twice", '{"a": 4}', "--json").json()
    with start(rota, f"{module}:extra", "--instance", "here", "--json") as worker:
        assert result_of(rota, job["id"]) == 8
        worker.send_signal(signal.SIGINT)
        _, err = worker.communicate(timeout=20)
    assert worker.returncode == 0, err
    assert f'"event":"asking for jobs of type {module}.twice at' in err.splitlines()[0]
    assert rota.done("jobs", "show", str(other["id"]), "--json").json()["status"] == "pending"


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        (None, ("There is no module",)),
        ("", ("Did you mean mine?",)),
        ("x = 1", ("holds no tasks",)),
        ("import no_such_library_here", ("ModuleNotFoundError", "no_such_library_here", "line 1")),
        ("\nraise ValueError('on purpose')", ("ValueError: on purpose", "line 2")),
        ("def (", ("SyntaxError",)),
    ],
    ids=["missing", "file", "empty", "library", "raises", "syntax"],
)
def test_module_that_is_of_no_use_is_refused(
    rota: Rota, tmp_path: Path, source: str | None, parts: tuple[str, ...]
) -> None:
    if source is not None:
        (tmp_path / "mine.py").write_text(source)
    ended = rota.process("worker", "mine.py" if source == "" else "mine")
    assert ended.code == 1
    assert ended.err.startswith("error: ")
    for part in parts:
        assert part in ended.err


def test_worker_with_a_wrong_token_ends_and_says_why(rota: Rota, module: str) -> None:
    wrong = Rota(rota.folder, {**rota.variables, "ROTA_TOKEN": "rota_aaaaaaaaaaaa_" + "b" * 43})
    ended = wrong.process("worker", module)
    assert ended.code == 1
    assert "--token-file" in ended.err


def test_worker_never_takes_the_admin_token(rota: Rota, module: str) -> None:
    ended = rota.process("worker", f"{module}:extra")
    assert ended.code == 1
    assert "A worker needs a token of its own" in ended.err
    assert f"rota tokens create NAME --preset worker --types {module}.twice --out" in ended.err


def test_type_that_the_server_does_not_know_is_reported(rota: Rota, module: str) -> None:
    rota.done("types", "delete", f"{module}.add")
    with start(rota, module) as worker:
        _, err = worker.communicate(timeout=20)
    assert worker.returncode == 1
    assert f"{module}.add" in err
