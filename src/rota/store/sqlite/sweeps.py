"""Promotion of delayed jobs and recovery of lapsed leases on SQLite."""

from __future__ import annotations

import sqlite3
from typing import Final

import structlog

from rota.domain import transitions
from rota.store.base import Swept
from rota.store.sqlite.connection import describe
from rota.store.sqlite.jobs import load_jobs, record_failure, save_job
from rota.store.sqlite.transaction import Transaction

MAX_SWEPT: Final = 1_000
"""Rows promoted and rows recovered by one sweep."""

log = structlog.get_logger("rota.store")


def sweep(within: Transaction) -> Swept:
    """Promote what is due, then recover what has lapsed; repeating it changes nothing."""
    (writable_since,) = within.execute("pulse", within.now).fetchone()
    promoted = within.execute("promote", within.now, MAX_SWEPT).fetchall()
    within.announced.update(promoted)
    recovered = recover(within, writable_since)
    return Swept(len(promoted), recovered, more=MAX_SWEPT in (len(promoted), recovered))


def recover(within: Transaction, writable_since: int) -> int:
    """Count a lapsed lease as a failed attempt "worker lost"; with retries left the job is ready at once.

    Time in which no node could write is not held against a worker: ``writable_since`` is when the
    database became writable again. A row that cannot be written is logged and left.
    """
    ids = [id for (id,) in within.execute("lapsed_jobs", within.now, writable_since, MAX_SWEPT)]
    recovered = 0
    for job in load_jobs(within, ids).values() if ids else ():
        if not transitions.lapsed(job, writable_since, within.now):
            continue
        within.connection.execute("SAVEPOINT lapse")
        try:
            changed = transitions.lapse(job, within.now)
            record_failure(within, job, changed)
            save_job(within, changed)
            recovered += 1
            within.leases_lost[job.queue, job.type] += 1
            within.count("retried" if changed.status == "pending" else changed.status, changed)
        except sqlite3.IntegrityError as error:
            within.connection.execute("ROLLBACK TO lapse")
            log.error("job_not_recovered", job=job.id, error=describe(error))
        within.connection.execute("RELEASE lapse")
    return recovered
