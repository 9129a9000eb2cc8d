"""The check at the end: what the server tells against what was planned and counted. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from rota.demo.files import Measure
from rota.domain.job import WORKER_LOST

MOST_SHOWN: Final = 10


class Plan(msgspec.Struct, frozen=True):
    """What shall happen: every file is measured, some after a stumble; those missing end as dead letters."""

    files: frozenset[str]
    stumbling: frozenset[str]
    missing: frozenset[str]
    missing_retries: int


class Outcome(msgspec.Struct, frozen=True):
    """One job as the server tells of it at the end; ``errors`` are those of its failed attempts."""

    id: int
    path: str
    status: str
    result: Measure | None = None
    errors: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """What came out. ``problems`` is empty when all agrees; ``retried`` counts jobs that failed at all."""

    problems: tuple[str, ...]
    files: int
    words: int
    bytes: int
    retried: int
    stumbled: int
    taken_over: int
    dead_letters: int


def verify(
    plan: Plan, outcomes: Sequence[Outcome], counted: Mapping[str, Measure], orphans: Iterable[int] = ()
) -> Verdict:
    """Compare the server's jobs with the plan and with a direct count of every file.

    ``orphans`` are the jobs that the killed worker held: each must have been taken over.
    """
    problems = [*_lost_or_doubled(plan, outcomes)]
    for one in outcomes:
        if one.path in plan.files:
            problems += _faults_of_file(one, counted.get(one.path), one.path in plan.stumbling)
        elif one.path in plan.missing:
            problems += _faults_of_missing(one, plan.missing_retries)
        else:
            problems.append(f"job {one.id} was never enqueued by the demo")
    by_id = {one.id: one for one in outcomes}
    for id in orphans:
        if id not in by_id or WORKER_LOST not in by_id[id].errors:
            problems.append(
                f"job {id} was held by the killed worker, but its attempt was not counted as lost"
            )

    results = [one.result for one in outcomes if one.status == "completed" and one.result is not None]
    words, expected = sum(one.words for one in results), sum(one.words for one in counted.values())
    if words != expected:
        problems.append(f"the results add up to {words:,} words, the files hold {expected:,}")
    return Verdict(
        problems=_shortened(problems),
        files=len(results),
        words=words,
        bytes=sum(one.bytes for one in results),
        retried=sum(bool(one.errors) for one in outcomes),
        stumbled=sum(one.path in plan.stumbling and one.status == "completed" for one in outcomes),
        taken_over=sum(WORKER_LOST in one.errors for one in outcomes),
        dead_letters=sum(one.status == "failed" for one in outcomes),
    )


def _lost_or_doubled(plan: Plan, outcomes: Sequence[Outcome]) -> Iterable[str]:
    jobs = Counter(one.path for one in outcomes)
    for path in sorted(plan.files | plan.missing):
        if jobs[path] == 0:
            yield f"{path}: its job is lost"
        elif jobs[path] > 1:
            yield f"{path}: counted {jobs[path]} times"


def _faults_of_file(one: Outcome, counted: Measure | None, stumbles: bool) -> Iterable[str]:
    if one.status != "completed":
        yield f"{one.path}: job {one.id} is {one.status} instead of completed"
    elif one.result != counted:
        yield f"{one.path}: job {one.id} says {_told(one.result)}, the file holds {_told(counted)}"
    if stumbles and not one.errors:
        yield f"{one.path}: job {one.id} was to fail once and did not"
    unplanned = [error for error in one.errors if error != WORKER_LOST]
    if len(unplanned) > stumbles:
        yield f"{one.path}: job {one.id} failed unexpectedly: {unplanned[-1]}"


def _faults_of_missing(one: Outcome, retries: int) -> Iterable[str]:
    if one.status != "failed":
        yield f"{one.path}: job {one.id} is {one.status}, but the file does not exist"
    if len(one.errors) != retries + 1:
        yield f"{one.path}: job {one.id} was tried {len(one.errors)} times instead of {retries + 1}"


def _told(measure: Measure | None) -> str:
    return "nothing" if measure is None else f"{measure.words:,} words, sha256 {measure.sha256[:12]}…"


def _shortened(problems: Sequence[str]) -> tuple[str, ...]:
    rest = len(problems) - MOST_SHOWN
    return tuple(problems) if rest <= 0 else (*problems[:MOST_SHOWN], f"and {rest:,} more")
