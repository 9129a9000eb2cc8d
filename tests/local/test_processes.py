"""Processes that share a data folder without a server, and what is left when one of them is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rota import Client, JobSpec, Local

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def process(folder: Path, notes: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """``tests.local.process``, killed at the end unless it has ended."""
    running = subprocess.Popen(
        [sys.executable, "-m", "tests.local.process", str(folder), str(notes), *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("ROTA_")},
    )
    assert running.stdout is not None
    try:
        assert running.stdout.readline(), "the process did not start"
        yield running
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def wait_for_all(client: Client, *, seconds: float = 40) -> None:
    """Return when no job waits or runs."""
    until = time.monotonic() + seconds
    while next(client.list(status="pending,running", page_size=1), None) is not None:
        assert time.monotonic() < until, "jobs are left"
        time.sleep(0.05)  # other processes end the jobs, and nothing tells this one


def test_two_processes_share_the_work_and_do_none_of_it_twice(tmp_path: Path) -> None:
    folder, notes = tmp_path / "data", tmp_path / "notes"
    with Local(folder) as client:
        client.types.put("note")
        with process(folder, notes) as one, process(folder, notes) as other:
            client.enqueue_many([JobSpec("note", {"n": n}) for n in range(500)])
            wait_for_all(client)
            for each in (one, other):
                each.send_signal(signal.SIGTERM)
                assert each.wait(timeout=20) == 0
    assert sorted(map(int, notes.read_text().split())) == list(range(500))


def test_a_killed_worker_loses_no_job(tmp_path: Path) -> None:
    folder, notes = tmp_path / "data", tmp_path / "notes"
    with Local(folder) as client:
        client.types.put("note", lease_seconds=2)
        client.enqueue_many([JobSpec("note", {"n": n}) for n in range(3_000)])
        with process(folder, notes) as worker:
            while not notes.exists() or len(notes.read_text().split()) < 200:
                time.sleep(0.005)  # a file cannot signal
            worker.kill()
        assert next(client.list(status="pending,running"), None) is not None, "it was killed too late"
        with process(folder, notes):
            wait_for_all(client)
        assert {job.status for job in client.list()} == {"completed"}
    ran = Counter(map(int, notes.read_text().split()))
    assert set(ran) == set(range(3_000))
    assert sum(ran.values()) < 3_000 + 500, "only what was held when it died may run again"


def test_a_killed_producer_leaves_every_job_it_was_told_of(tmp_path: Path) -> None:
    folder, notes = tmp_path / "data", tmp_path / "notes"
    with Local(folder) as client:
        client.types.put("note")
        with process(folder, notes, "enqueue") as producer:
            assert producer.stdout is not None
            first = [int(producer.stdout.readline()) for _ in range(100)]
            producer.kill()
            told = [0, *first, *map(int, producer.stdout.read().split())]
        stored = {job.payload["n"] for job in client.list(page_size=200)}
    assert stored >= set(told)
    assert len(stored) <= len(told) + 1
