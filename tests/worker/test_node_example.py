"""The worker in another language that the documentation shows, run as it stands against a real server."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live_server import Api, LiveServer, created

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "worker.mjs"
TYPES = ("word.count", "nap.take")
POLL_SECONDS = 0.05


def start(url: str, token: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["node", str(PROGRAM)],
        env=os.environ | {"ROTA_URL": url, "ROTA_TOKEN": token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def token(server: LiveServer) -> str:
    """Of a worker that may run the example's types, with a lease so short that it must beat."""
    for type in TYPES:
        created(server.admin.put(f"/types/{type}", {"lease_seconds": 2, "max_retries": 0}))
    made: str = server.token("worker", types=list(TYPES)).token or ""
    return made


@pytest.fixture
def worker(server: LiveServer, token: str) -> Iterator[subprocess.Popen[str]]:
    with start(server.url, token) as process:
        yield process
        process.kill()


def ended(admin: Api, job: dict[str, Any]) -> dict[str, Any]:
    return until(admin, job, "completed", "failed", "cancelled")


def until(admin: Api, job: dict[str, Any], *statuses: str) -> dict[str, Any]:
    """The job once it has one of the statuses; the test's own time limit bounds the wait."""
    while (found := admin.job(job["id"]))["status"] not in statuses:
        time.sleep(POLL_SECONDS)
    return found


def test_documented_worker_is_short() -> None:
    assert len(PROGRAM.read_text(encoding="utf-8").splitlines()) < 80


def test_job_is_completed_with_its_result(server: LiveServer, worker: subprocess.Popen[str]) -> None:
    job = server.admin.enqueue("word.count", payload={"text": "to be or not to be"})
    done = ended(server.admin, job)
    assert done["result"] == {"words": 6}
    assert done["worker_id"].endswith(f"/node.{worker.pid}")


def test_handler_that_throws_fails_the_attempt(server: LiveServer, worker: subprocess.Popen[str]) -> None:
    job = ended(server.admin, server.admin.enqueue("word.count", payload={}))
    assert job["status"] == "failed"
    assert job["error"].startswith("TypeError")


def test_heartbeats_keep_a_job_longer_than_its_lease(
    server: LiveServer, worker: subprocess.Popen[str]
) -> None:
    job = ended(server.admin, server.admin.enqueue("nap.take", payload={"seconds": 5}))
    assert (job["status"], job["result"]) == ("completed", {"slept": 5})
    assert job["started_at"] is not None


def test_cancellation_reaches_the_handler(server: LiveServer, worker: subprocess.Popen[str]) -> None:
    job = server.admin.enqueue("nap.take", payload={"seconds": 600})
    until(server.admin, job, "running")
    assert server.admin.post(f"/jobs/{job['id']}/cancel").status_code == 200
    assert ended(server.admin, job)["status"] == "cancelled"


def test_handler_beyond_its_timeout_is_stopped(server: LiveServer, worker: subprocess.Popen[str]) -> None:
    job = server.admin.enqueue("nap.take", payload={"seconds": 600}, timeout_seconds=0.5)
    assert "timeout" in ended(server.admin, job)["error"]


def test_sigterm_lets_the_running_job_end(server: LiveServer, worker: subprocess.Popen[str]) -> None:
    job = server.admin.enqueue("nap.take", payload={"seconds": 1})
    until(server.admin, job, "running")
    worker.send_signal(signal.SIGTERM)
    _, told = worker.communicate(timeout=20)
    assert (worker.returncode, told) == (0, "")
    assert server.admin.job(job["id"])["status"] == "completed"


def test_wrong_token_ends_the_worker_and_says_why(server: LiveServer) -> None:
    with start(server.url, f"rota_{'a' * 12}_{'b' * 43}") as worker:
        _, told = worker.communicate(timeout=20)
    assert worker.returncode == 1
    assert "unauthenticated" in told


def test_token_is_not_sent_in_the_clear_to_another_machine() -> None:
    with start("http://jobs.example.org", "rota_secret") as worker:
        _, told = worker.communicate(timeout=20)
    assert worker.returncode == 1
    assert "use https" in told
