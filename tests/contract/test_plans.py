"""How SQLite does the work: through indexes, in steps that do not grow with what has finished."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from rota.domain.job import Beat
from rota.store.base import JobType
from rota.store.migrate import read_migrations
from rota.store.sql import parse
from rota.store.sqlite.claims import serve
from rota.store.sqlite.connection import immediate, open_writer
from rota.store.sqlite.jobs import beat, enqueue, finish
from rota.store.sqlite.migrate import migrate
from rota.store.sqlite.sweeps import sweep
from rota.store.sqlite.transaction import QUERIES, ROWS_AT_ONCE, Transaction
from tests.contract.factories import WORK, claim_of, ending, new_job

NOW = 1_780_000_000_000
HOT_FILES = ("claims.sql", "jobs.sql", "sweeps.sql")
STEPS = (
    *("job_states_by_ids", "delete_jobs", "change_pending", "read_queue", "count_ready", "ready_since"),
    *("unfinished_of", "oldest_jobs", "oldest_failed", "oldest_cancelled"),
)
"""Steps of bulk work, retention and counts, which must not grow with the table either."""
HARMLESS_SCANS = re.compile(
    r"SCAN (\(subquery-1\)|(\d+ )?CONSTANT ROWS?|head|holder|pick|ending|sqlite_sequence"
    r"|\S+ VIRTUAL TABLE .*"
    # The claim's first step: the head of the first lane, one entry.
    r"|rota_jobs USING INDEX rota_jobs_ready)"
)
FILL = """
WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT ?3)
INSERT INTO rota_jobs (queue, type, status, priority, producer, payload, max_retries, due_at, owner,
    lease_token, lease_seconds, lease_expires_at, claimed_at, created_at, updated_at, finished_at)
SELECT 'default', 'work', ?1, 10, 't-old', x'7b7d', 3, ?2, 't-old', x'00', 30, ?4, 1, 1, 1, 1 FROM n
"""


def hot_queries() -> list[str]:
    folder = resources.files("rota.store.sqlite").joinpath("sql")
    return [name for file in HOT_FILES for name in parse(folder.joinpath(file).read_text(), source=file)]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_writer(tmp_path / "rota.db")
    migrate(connection, read_migrations("rota.store.sqlite"), NOW)
    yield connection
    connection.close()


def plan(connection: sqlite3.Connection, text: str) -> list[str]:
    numbered = {int(number) for number in re.findall(r"\?(\d+)", text)}
    values = [None] * (max(numbered) if numbered else text.count("?"))
    return [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + text, values)]


@pytest.mark.parametrize("name", [*hot_queries(), *STEPS])
def test_no_statement_of_a_write_transaction_scans_a_table(connection: sqlite3.Connection, name: str) -> None:
    texts = [QUERIES[name]]
    if name in ("insert_jobs", "complete_jobs", "claim_jobs"):
        texts += [QUERIES.rows(name, rows) for rows in ROWS_AT_ONCE]
    for text in texts:
        steps = plan(connection, text)
        scans = [step for step in steps if step.startswith("SCAN") and not HARMLESS_SCANS.fullmatch(step)]
        assert scans == []
        assert [step for step in steps if "TEMP B-TREE" in step or "AUTOMATIC" in step] == []


def test_a_scan_would_be_noticed(connection: sqlite3.Connection) -> None:
    (step,) = plan(connection, "SELECT id FROM rota_jobs WHERE producer LIKE ?")
    assert step.startswith("SCAN")
    assert not HARMLESS_SCANS.fullmatch(step)


def transaction(connection: sqlite3.Connection) -> Transaction:
    return Transaction(connection, NOW, lambda: {WORK.name: WORK, "more": JobType(name="more")}, lambda: 0.0)


def steps_of(connection: sqlite3.Connection, work: Callable[[Transaction], object]) -> int:
    """How many steps SQLite's virtual machine takes for this work; it is undone."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    immediate(connection)
    connection.set_progress_handler(count, 1)
    work(transaction(connection))
    connection.set_progress_handler(None, 0)
    connection.rollback()
    return steps


def test_no_verb_takes_more_steps_for_what_has_finished(connection: sqlite3.Connection) -> None:
    immediate(connection)
    enqueue(transaction(connection), [new_job() for _ in range(40)] + [new_job("more") for _ in range(40)])
    (held,) = serve(transaction(connection), [claim_of(10, types=frozenset({"work"}))])
    connection.commit()
    assert isinstance(held, list)

    verbs: dict[str, Callable[[Transaction], object]] = {
        "claim of one lane": lambda within: serve(within, [claim_of(5, types=frozenset({"work"}))]),
        "claim of all lanes": lambda within: serve(within, [claim_of(5), claim_of(20)]),
        "claim that finds nothing": lambda within: serve(within, [claim_of(types=frozenset({"none"}))]),
        "enqueue": lambda within: enqueue(within, [new_job(idempotency_key=str(n)) for n in range(70)]),
        "complete": lambda within: finish(within, [ending(job) for job in held], answer=False),
        "fail": lambda within: finish(within, [ending(job, "fail") for job in held], answer=True),
        "heartbeat": lambda within: beat(
            within, [Beat(job.id, job.owner or "", job.lease_token or b"", log="x") for job in held]
        ),
        "sweep": sweep,
    }
    empty = {name: steps_of(connection, work) for name, work in verbs.items()}
    assert min(empty.values()) > 20
    for status in ("completed", "failed", "cancelled"):
        connection.execute(FILL, (status, None, 10_000, None))
    assert connection.execute("SELECT count(*) FROM rota_jobs").fetchone() == (30_080,)
    assert {name: steps_of(connection, work) for name, work in verbs.items()} == empty

    # Nor does a claim for what is delayed or runs elsewhere.
    connection.execute(FILL, ("pending", NOW + 1_000, 3_000, None))
    connection.execute(FILL, ("running", None, 3_000, NOW + 30_000))
    for name in ("claim of one lane", "claim of all lanes", "enqueue", "complete"):
        assert steps_of(connection, verbs[name]) == empty[name]


def test_a_sweep_takes_no_more_steps_for_leases_that_are_alive(connection: sqlite3.Connection) -> None:
    connection.execute(FILL, ("running", None, 1, NOW + 30_000))
    one = steps_of(connection, sweep)
    connection.execute(FILL, ("running", None, 3_000, NOW + 30_000))
    connection.execute(FILL, ("pending", NOW + 1_000, 3_000, None))
    assert steps_of(connection, sweep) <= one + 10
