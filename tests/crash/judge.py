"""Compares the driver's ledger with what the server holds in the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from rota.domain.job import TERMINAL
from tests.crash.ledger import Entry


class FinalJob(msgspec.Struct, frozen=True):
    """A job as the server tells of it when all is over."""

    id: int
    uid: str
    """What the producer wrote into the payload: the request_uid it sent."""
    status: str
    retry_count: int = 0
    lost: int = 0
    """How many of its attempts were counted as "worker lost"."""


def judge(ledger: Sequence[Entry], final_jobs: Iterable[FinalJob]) -> list[str]:
    """Every promise that was broken, one sentence each; empty when all were kept."""
    jobs = {job.id: job for job in final_jobs}
    return [
        *_vanished(ledger, jobs),
        *_doubled(ledger, jobs),
        *_ended_wrongly(ledger, jobs),
        *_run_too_often(ledger, jobs),
    ]


def _vanished(ledger: Sequence[Entry], jobs: dict[int, FinalJob]) -> Iterable[str]:
    for id in sorted({entry.id for entry in ledger if entry.kind == "stored"}):
        if id not in jobs:
            yield f"job {id} was stored and is not there"
        elif jobs[id].status not in TERMINAL:
            yield f"job {id} was stored and has not ended: it is {jobs[id].status}"


def _doubled(ledger: Sequence[Entry], jobs: dict[int, FinalJob]) -> Iterable[str]:
    ids: defaultdict[str, set[int]] = defaultdict(set)
    for entry in ledger:
        if entry.kind == "stored":
            ids[entry.uid].add(entry.id)
    for job in jobs.values():
        ids[job.uid].add(job.id)
    for uid, several in ids.items():
        if len(several) > 1:
            yield f"request {uid} was stored as more than one job: {sorted(several)}"


def _ended_wrongly(ledger: Sequence[Entry], jobs: dict[int, FinalJob]) -> Iterable[str]:
    completes: Counter[int] = Counter()
    for entry in ledger:
        if entry.kind == "finished" and entry.outcome == "complete":
            completes[entry.id] += 1
        elif entry.kind == "started" and completes[entry.id]:
            yield f"job {entry.id} was started after its complete had been accepted"
    for id, times in completes.items():
        if times > 1:
            yield f"job {id} was completed {times} times"
        if id in jobs and jobs[id].status != "completed":
            yield f"job {id} is {jobs[id].status} although its complete had been accepted"
    for job in jobs.values():
        if job.status == "completed" and not completes[job.id]:
            yield f"job {job.id} is completed although nobody's complete was accepted"


def _run_too_often(ledger: Sequence[Entry], jobs: dict[int, FinalJob]) -> Iterable[str]:
    starts: Counter[int] = Counter()
    releases: Counter[int] = Counter()
    failures: Counter[int] = Counter()
    for entry in ledger:
        if entry.kind == "started":
            starts[entry.id] += 1
        elif entry.outcome == "release":
            releases[entry.id] += 1
        elif entry.outcome == "fail":
            failures[entry.id] += 1
    for id, times in starts.items():
        retries = jobs[id].retry_count if id in jobs else 0
        if times > 1 + retries + releases[id]:
            yield (
                f"job {id} was started {times} times with {retries} counted retries "
                f"and {releases[id]} releases"
            )
    for job in jobs.values():
        if job.retry_count > failures[job.id] + job.lost:
            yield (
                f"job {job.id} counts {job.retry_count} retries, but {failures[job.id]} failures were "
                f"reported and {job.lost} workers lost"
            )
