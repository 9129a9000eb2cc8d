"""The claim beside many finished jobs: its time, its steps in SQLite's machine, its plan.

No HTTP and no batcher here: the claim's transaction alone, so that nothing hides a difference.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import random
from statistics import median
from typing import Final

from benchmarks.figures import Figure, figure
from benchmarks.scenario import Place, Scale, alternating
from benchmarks.scripts import TYPE
from rota.clock import SystemClock
from rota.domain.job import Claim, Job
from rota.store.migrate import read_migrations
from rota.store.sqlite.claims import serve
from rota.store.sqlite.connection import immediate, open_writer
from rota.store.sqlite.migrate import migrate
from rota.store.sqlite.transaction import QUERIES, Transaction

FINISHED = (0, 100_000, 5_000_000)
QUICK_FINISHED = (0, 10_000, 200_000)
ROUNDS = 200
QUICK_ROUNDS = 30
LIMIT = 100

# As a server that ran for a while leaves them: every column that completion leaves set, a request_uid.
FILL: Final = """
WITH RECURSIVE counter (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < ?)
INSERT INTO rota_jobs (
    queue, type, status, priority, producer, payload, result, max_retries, request_uid, claimed_at,
    started_at, worker_id, owner, lease_token, lease_seconds, last_outcome, created_at, updated_at,
    finished_at
)
SELECT
    'default', 'bench.noop', 'completed', 0, '0123456789abcdef0123456789abcdef', CAST('{"n":123456}' AS BLOB),
    CAST('null' AS BLOB), 3, CAST(printf('%016d', n) AS BLOB), 1780000000000 + n, 1780000000000 + n,
    'worker/host-1', 'fedcba9876543210fedcba9876543210', randomblob(16), 30.0, 'complete',
    1780000000000 + n, 1780000000001 + n, 1780000000001 + n
FROM counter
"""
READY: Final = """
WITH RECURSIVE counter (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < ?)
INSERT INTO rota_jobs (
    queue, type, priority, producer, payload, max_retries, request_uid, created_at, updated_at
)
SELECT
    'default', 'bench.noop', 0, '0123456789abcdef0123456789abcdef', CAST('{"n":123456}' AS BLOB), 3,
    CAST(printf('r%015d', n) AS BLOB), 1790000000000 + n, 1790000000000 + n
FROM counter
"""
CLAIM_QUERIES: Final = ("count_held", "held_under_claim", "lane_heads", "lane_top", "lane_tops", "claim_jobs")


class Database:
    """A database with so many finished jobs, and enough ready ones."""

    def __init__(self, folder: Path, finished: int, ready: int) -> None:
        self.finished = finished
        self._clock = SystemClock()
        self._claims = 0
        path = folder / f"{finished}.db"
        shutil.copyfile(folder / "empty.db", path)
        self.connection = open_writer(path)
        _quickly(self.connection, FILL, finished)
        _quickly(self.connection, READY, ready)
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def claim(self) -> float:
        """Claim 100 jobs and commit; returns the milliseconds it took."""
        began = time.perf_counter()
        self._serve()
        self.connection.commit()
        return (time.perf_counter() - began) * 1000

    def steps(self) -> int:
        """How many instructions of SQLite's virtual machine one such claim takes; it is rolled back."""
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        self.connection.set_progress_handler(step, 1)
        self._serve()
        self.connection.set_progress_handler(None, 0)
        self.connection.rollback()
        return steps

    def scans(self) -> list[str]:
        """Lines of the claim's query plans that walk through the table of jobs or a whole index of it.

        The first step to the head of the ready index reads one row of it and does not count.
        """
        found = []
        for name in CLAIM_QUERIES:
            text = QUERIES[name]
            plan = self.connection.execute(f"EXPLAIN QUERY PLAN {text}", _values(text)).fetchall()
            for *_, line in plan:
                walks = line.startswith("SCAN") and line.split()[1] in {"rota_jobs", "next", "ready", "lane"}
                if walks and "VIRTUAL TABLE" not in line and "rota_jobs_ready" not in line:
                    found.append(f"{name}: {line}")
        return found

    def _serve(self) -> None:
        self._claims += 1
        claim = Claim(f"owner-{self._claims // 40}", "worker/host-1", LIMIT, types=frozenset({TYPE}))
        immediate(self.connection)
        within = Transaction(self.connection, self._clock.now(), dict, random)
        (jobs,) = serve(within, [claim])
        assert isinstance(jobs, list)
        assert len(jobs) == LIMIT, "the database was filled with too few ready jobs"
        assert isinstance(jobs[0], Job)


def measure(scale: Scale, place: Place) -> Iterator[Figure]:
    """Claims of 100 in turns on databases with 0, 100,000 and 5,000,000 finished jobs."""
    rounds = QUICK_ROUNDS if scale.quick else ROUNDS
    folder = place.sub("finished")
    folder.mkdir()
    with closing(open_writer(folder / "empty.db")) as empty:
        migrate(empty, read_migrations("rota.store.sqlite"), 0)
    databases = [
        Database(folder, n, (rounds + 10) * LIMIT) for n in (QUICK_FINISHED if scale.quick else FINISHED)
    ]
    for database in databases:
        for _ in range(5):
            database.claim()
    steps = [database.steps() for database in databases]
    times = alternating([database.claim for database in databases], rounds)
    scans = sorted({line for database in databases for line in database.scans()})
    for database in databases:
        database.connection.close()
    base = median(times[0])
    for database, taken, taken_steps in zip(databases, times, steps, strict=True):
        n = database.finished
        rows = f"{n:,} finished jobs"
        yield figure(f"finished.{n}.time", f"Claim of {LIMIT} beside {rows}", median(taken), "ms")
        if n:
            yield figure(f"finished.{n}.ratio", "… ratio to none", median(taken) / base)
            yield figure(f"finished.{n}.steps", "… ratio of VM steps", taken_steps / steps[0])
    yield figure("finished.scans", "Scans of jobs in the claim's plans", len(scans))
    for line in scans:
        print(f"  scan: {line}")


def _quickly(connection: sqlite3.Connection, query: str, n: int) -> None:
    """Run a filling query without waiting for the disk."""
    if not n:
        return
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -400000")
    connection.execute(query, (n,))
    connection.execute("PRAGMA cache_size = -32768")
    connection.execute("PRAGMA synchronous = FULL")


def _values(query: str) -> tuple[object, ...]:
    """Something to bind to each parameter of a query."""
    numbered = {"?1", "?2"} & {query[i : i + 2] for i in range(len(query)) if query[i] == "?"}
    count = len(numbered) or query.count("?")
    return ("[]", 1)[:count] if numbered else ("1",) * count
