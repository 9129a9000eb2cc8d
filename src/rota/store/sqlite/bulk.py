"""Deleting, changing and bulk actions on SQLite: what operators do to jobs that nobody holds.

The writing functions run inside a transaction that the writer opened; the reading one on a connection that
can only read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

import structlog
from msgspec import json

from rota.domain import transitions
from rota.domain.access import Visibility
from rota.domain.job import KEY_LIFE_MS, Job
from rota.errors import Conflict, JobRunning, NotFound, RotaError
from rota.store.base import JobFilter, JobJudge
from rota.store.records import Action, Candidates
from rota.store.sqlite.connection import describe
from rota.store.sqlite.jobs import load_job, save_job
from rota.store.sqlite.readers import interrupted
from rota.store.sqlite.transaction import QUERIES, Transaction

ANY_TIME: Final = 2**63 - 1
FIRST_WINDOW: Final = 500
MAX_LOOKED_AT: Final = 20_000
SOURCES: Final = {
    frozenset({"failed"}): "ids_of_failed",
    frozenset({"cancelled"}): "ids_of_cancelled",
    frozenset({"running"}): "ids_of_running",
    frozenset({"failed", "cancelled"}): "ids_to_replay",
}
STEPS: Final = {"replay": transitions.replay, "cancel": transitions.cancel}

log = structlog.get_logger("rota.store")


# --- one job --------------------------------------------------------------------------------------


def delete(within: Transaction, id: int, visibility: Visibility, judge: JobJudge | None) -> None:
    """Delete a job that has ended. Raises NotFound, JobRunning, Conflict, and what ``judge`` raises."""
    job = _visible(within, id, visibility)
    if judge is not None:
        judge(job)
    if job.status == "running":
        raise JobRunning("the job is running: cancel it, then delete it when it has ended")
    if not job.terminal:
        raise Conflict(f"the job is {job.status}: cancel it, then delete it")
    if not _delete_jobs(within, [id], ANY_TIME):
        raise Conflict(
            "the job's idempotency key still guards it against being made twice: it can be deleted 24 hours "
            "after it was created"
        )


def change(
    within: Transaction,
    id: int,
    visibility: Visibility,
    *,
    priority: int | None,
    run_at: int | None,
    reschedule: bool,
) -> Job:
    """Change a pending job. Raises NotFound, JobRunning, JobEnded."""
    job = _visible(within, id, visibility)
    changed = transitions.change(job, priority=priority, run_at=run_at, reschedule=reschedule, now=within.now)
    within.execute("change_pending", changed.priority, changed.run_at, changed.due_at, within.now, id)
    if changed.due_at is None:
        within.announced.add((changed.queue, changed.type))
    return changed


def _visible(within: Transaction, id: int, visibility: Visibility) -> Job:
    job = load_job(within, id)
    if job is None or not visibility.sees(job):
        raise NotFound("there is no job with this id that this token may see")
    return job


# --- many jobs ------------------------------------------------------------------------------------


def act(
    within: Transaction, action: Action, ids: Sequence[int], statuses: frozenset[str], visibility: Visibility
) -> list[int]:
    """Do ``action`` to those of these jobs whose status is still one of ``statuses``; returns which.

    What the law refuses by now is left out. A row that cannot be written is logged and left.
    """
    rows = within.execute("job_states_by_ids", json.encode(ids).decode())
    jobs = [job for row in rows if (job := Job(*row)).status in statuses and visibility.sees(job)]
    if action == "delete":
        return _delete_jobs(within, [job.id for job in jobs], ANY_TIME)
    step = STEPS[action]
    done: list[int] = []
    for job in jobs:
        within.connection.execute("SAVEPOINT step")
        try:
            changed = step(job, within.now)
            save_job(within, changed)
            done.append(job.id)
            if changed.status != "running":
                within.count("replayed" if action == "replay" else "cancelled", changed)
        except RotaError:
            within.connection.execute("ROLLBACK TO step")
        except sqlite3.IntegrityError as error:
            within.connection.execute("ROLLBACK TO step")
            log.error("job_not_changed", action=action, job=job.id, error=describe(error))
        within.connection.execute("RELEASE step")
    return done


def purge(within: Transaction, ids: Sequence[int], finished_before: int) -> int:
    """Delete those of these jobs that ended by then and are guarded by nothing; returns how many."""
    return len(_delete_jobs(within, ids, finished_before))


def _delete_jobs(within: Transaction, ids: Sequence[int], finished_before: int) -> list[int]:
    """The guarded delete; where one row makes it fail, row by row, and the guilty one is logged and left."""
    keys_before = within.now - KEY_LIFE_MS
    deleted: list[int] = []
    waiting: list[Sequence[int]] = [ids]
    while waiting:
        part = waiting.pop()
        within.connection.execute("SAVEPOINT deletion")
        try:
            rows = within.execute("delete_jobs", json.encode(part).decode(), keys_before, finished_before)
            deleted += [id for (id,) in rows.fetchall()]
        except sqlite3.IntegrityError as error:
            within.connection.execute("ROLLBACK TO deletion")
            if len(part) == 1:
                log.error("job_not_deleted", job=part[0], error=describe(error))
            else:
                waiting += [[id] for id in part]
        within.connection.execute("RELEASE deletion")
    return deleted


# --- selection ------------------------------------------------------------------------------------


def candidates(
    connection: sqlite3.Connection,
    action: Action,
    wanted: JobFilter,
    visibility: Visibility,
    *,
    scheduled: bool,
    before: int,
    now: int,
) -> Candidates:
    """The matching jobs among the next 20,000 below ``before``, newest first."""
    statuses = wanted.statuses or frozenset()
    source = QUERIES[SOURCES.get(statuses, "ids_of_all")]
    values: dict[str, Any] = {
        "action": action,
        "keys_before": now - KEY_LIFE_MS,
        "statuses": _names(statuses),
        "type": wanted.type,
        "queue": wanted.queue,
        "schedule_id": wanted.schedule_id,
        "text": wanted.text,
        "created_after": wanted.created_after,
        "created_before": wanted.created_before,
        "types": _names(visibility.types),
        "queues": _names(visibility.queues),
        "reads_all": visibility.reads_all,
        "producer": visibility.producer,
        "holder": visibility.holder,
        "scheduled": scheduled,
    }
    found: list[int] = []
    matched, looked_at, window = 0, 0, FIRST_WINDOW
    while looked_at < MAX_LOOKED_AT:
        most = min(window, MAX_LOOKED_AT - looked_at)
        try:
            ids = [id for (id,) in connection.execute(source, (before, most))]
            values["ids"] = json.encode(ids).decode()
            rows = connection.execute(QUERIES["narrow_candidates"], values).fetchall() if ids else []
        except sqlite3.OperationalError as error:
            if looked_at and interrupted(error):
                break
            raise
        if not ids:
            return Candidates(found, matched, None, looked_at)
        matched += len(rows)
        found += [id for id, able in rows if able]
        looked_at += len(ids)
        before = ids[-1]
        window *= 4
    return Candidates(found, matched, before, looked_at)


def _names(names: Iterable[str] | None) -> str | None:
    return None if names is None else json.encode(sorted(names)).decode()
