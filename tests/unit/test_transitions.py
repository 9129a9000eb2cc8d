"""The law of a job's life: every state and every event, and what each step sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec.structs import replace

from rota.domain import transitions
from rota.domain.job import STATUSES, TERMINAL, WORKER_LOST, Beat, Finish, Job, Status
from rota.domain.transitions import TRANSITIONS, Event
from rota.errors import Conflict, JobEnded, JobNotHeld, JobRunning, NotReplayable

NOW: Final = 1_780_000_000_000
TOKEN: Final = b"0123456789abcdef"

LAW: Final[dict[Status, dict[Event, Status]]] = {
    "pending": {
        Event.PROMOTE: "pending",
        Event.CLAIM: "running",
        Event.CANCEL: "cancelled",
        Event.CHANGE: "pending",
    },
    "blocked": {Event.CANCEL: "cancelled"},
    "running": {
        Event.BEAT: "running",
        Event.COMPLETE: "completed",
        Event.RETRY: "pending",
        Event.FAIL: "failed",
        Event.STOP: "cancelled",
        Event.RELEASE: "pending",
        Event.CANCEL: "running",
    },
    "completed": {},
    "failed": {Event.REPLAY: "pending"},
    "cancelled": {Event.REPLAY: "pending"},
    "skipped": {},
}
REFUSALS: Final[dict[Event, type[Conflict]]] = {
    Event.PROMOTE: Conflict,
    Event.CLAIM: Conflict,
    Event.CANCEL: JobEnded,
    Event.CHANGE: JobEnded,
    Event.REPLAY: NotReplayable,
}
"""With which error an event is refused; all others: JobNotHeld."""
UNCHANGED: Final[dict[Status, type[Conflict]]] = {"running": JobRunning, "blocked": Conflict}
"""With which error a change of jobs that have not ended is refused."""


def job(status: Status, **fields: object) -> Job:
    held = {"owner": "t-1", "lease_token": TOKEN, "lease_seconds": 30.0, "claimed_at": NOW - 5_000}
    given: dict[str, object] = {"max_retries": 1, "lease_expires_at": NOW + 25_000} | held
    return Job(7, "default", "work", status, 10, **(given | fields))  # type: ignore[arg-type]


def failure(**fields: object) -> Finish:
    return Finish(7, "t-1", TOKEN, "fail", error="broken", **fields)  # type: ignore[arg-type]


def claimed(before: Job) -> Job:
    return transitions.claim(
        before, owner="t-2", worker_id="w", lease_token=b"new", lease_seconds=2, claim_id=None, now=NOW
    )


STEPS: Final[dict[tuple[Event, str], Callable[[Status], Job]]] = {
    (Event.PROMOTE, "promote"): lambda status: transitions.promote(job(status, due_at=NOW), NOW),
    (Event.CLAIM, "claim"): lambda status: claimed(job(status)),
    (Event.BEAT, "beat"): lambda status: transitions.beat(job(status), Beat(7, "t-1", TOKEN), 30, NOW),
    (Event.COMPLETE, "complete"): lambda status: transitions.complete(job(status), b"1", NOW),
    (Event.RETRY, "fail"): lambda status: transitions.fail(job(status), failure(), 2_000, NOW),
    (Event.RETRY, "lapse"): lambda status: transitions.lapse(job(status), NOW),
    (Event.FAIL, "fail"): lambda status: transitions.fail(job(status, retry_count=1), failure(), 0, NOW),
    (Event.FAIL, "fail for good"): lambda status: transitions.fail(
        job(status), failure(retryable=False), 0, NOW
    ),
    (Event.FAIL, "lapse"): lambda status: transitions.lapse(job(status, retry_count=1), NOW),
    (Event.STOP, "fail"): lambda status: transitions.fail(job(status, cancel_requested=1), failure(), 0, NOW),
    (Event.STOP, "release"): lambda status: transitions.release(job(status, cancel_requested=1), 5, NOW),
    (Event.STOP, "lapse"): lambda status: transitions.lapse(job(status, cancel_requested=1), NOW),
    (Event.RELEASE, "release"): lambda status: transitions.release(job(status), None, NOW),
    (Event.RELEASE, "snooze"): lambda status: transitions.release(job(status), 5, NOW),
    (Event.CANCEL, "cancel"): lambda status: transitions.cancel(job(status), NOW),
    (Event.CHANGE, "priority"): lambda status: transitions.change(
        job(status, due_at=NOW + 1), priority=20, run_at=None, reschedule=False, now=NOW
    ),
    (Event.CHANGE, "time"): lambda status: transitions.change(
        job(status), priority=None, run_at=NOW + 1, reschedule=True, now=NOW
    ),
    (Event.REPLAY, "replay"): lambda status: transitions.replay(job(status), NOW),
}


def test_the_table_is_the_law() -> None:
    steps = {(status, event): after for status, events in LAW.items() for event, after in events.items()}
    assert steps == TRANSITIONS


def test_every_event_is_tried() -> None:
    assert {event for event, _ in STEPS} == set(Event)
    assert set(LAW) == set(STATUSES)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0]} by {step[1]}")
def test_a_step_leads_where_the_law_says_or_is_refused(status: Status, step: tuple[Event, str]) -> None:
    event = step[0]
    if event in LAW[status]:
        assert STEPS[step](status).status == LAW[status][event]
        assert transitions.refusal(status, event) is None
    else:
        with pytest.raises(Conflict) as refused:
            STEPS[step](status)
        expected = REFUSALS.get(event, JobNotHeld)
        assert type(refused.value) is (UNCHANGED.get(status, expected) if event is Event.CHANGE else expected)
        assert type(transitions.refusal(status, event)) is type(refused.value)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0]} by {step[1]}")
def test_what_a_step_leaves_behind_fits_the_state(step: tuple[Event, str]) -> None:
    for status in STATUSES:
        if step[0] not in LAW[status]:
            continue
        after = STEPS[step](status)
        assert after.updated_at == NOW
        assert (after.finished_at is not None) == (after.status in TERMINAL)
        assert (after.lease_expires_at is not None) == (after.status == "running") or status == "pending"
        if after.status == "pending" and status != "pending":
            assert (after.worker_id, after.claimed_at, after.cancel_requested) == (None, None, 0)
        if after.status in TERMINAL:
            assert after.due_at is None


def test_a_step_never_changes_the_job_it_is_given() -> None:
    for (event, _), step in STEPS.items():
        for status in (status for status in STATUSES if event in LAW[status]):
            before = job(status)
            step(status)
            assert before == job(status)


def test_a_failure_counts_and_a_release_does_not() -> None:
    failed = transitions.fail(job("running"), failure(), 2_000, NOW)
    assert (failed.retry_count, failed.failures, failed.due_at) == (1, 1, NOW + 2_000)
    released = transitions.release(job("running"), None, NOW)
    assert (released.retry_count, released.failures, released.due_at) == (0, 0, None)


def test_a_lapse_ends_the_lease_token_and_waits_for_nothing() -> None:
    lost = transitions.lapse(job("running"), NOW)
    assert (lost.error, lost.owner, lost.lease_token, lost.due_at) == (WORKER_LOST, None, None, None)
    assert not transitions.repeated(lost, failure())


@pytest.mark.parametrize(
    ("seconds", "due"), [(None, 2_000), (0, None), (1.5, 1_500), (10**9, 30 * 86_400_000)]
)
def test_the_workers_delay_takes_the_back_offs_place_up_to_thirty_days(
    seconds: float | None, due: int | None
) -> None:
    failed = transitions.fail(job("running"), failure(delay_seconds=seconds), 2_000, NOW)
    assert failed.due_at == (None if due is None else NOW + due)


def test_forty_thousand_snoozes_and_releases_overflow_nothing() -> None:
    snoozed = released = job("running")
    for _ in range(40_000):
        snoozed = replace(transitions.release(snoozed, 1, NOW), status="running")
        released = replace(transitions.release(released, None, NOW), status="running")
    assert (snoozed.releases, snoozed.due_at) == (0, NOW + 1_000)
    assert released.due_at == NOW + 60_000


def test_completing_clears_error_and_wish_to_stop() -> None:
    done = transitions.complete(job("running", error="old", has_error=1, cancel_requested=1), b"1", NOW)
    assert (done.error, done.has_error, done.cancel_requested, done.result) == (None, 0, 0, b"1")
    assert (done.started_at, done.worker_id) == (NOW - 5_000, None)


def test_a_replay_keeps_id_place_and_history() -> None:
    before = job("failed", retry_count=1, failures=2, error="old", finished_at=NOW - 1, run_at=5)
    again = transitions.replay(before, NOW)
    assert (again.id, again.priority, again.max_retries, again.failures, again.error) == (7, 10, 1, 2, "old")
    assert (again.retry_count, again.finished_at, again.result, again.due_at) == (0, None, None, None)


@pytest.mark.parametrize(
    ("writable_since", "now", "is_lapsed"),
    [
        (0, NOW + 25_000, False),
        (0, NOW + 25_001, True),
        (NOW + 20_000, NOW + 32_000, False),
        (NOW + 20_000, NOW + 32_001, True),
    ],
)
def test_a_lease_has_lapsed_after_its_end_and_a_heartbeat_and_two_seconds_after_an_outage(
    writable_since: int, now: int, is_lapsed: bool
) -> None:
    assert transitions.lapsed(job("running"), writable_since, now) is is_lapsed


def test_only_running_jobs_lapse() -> None:
    assert [status for status in STATUSES if transitions.lapsed(job(status), 0, NOW * 2)] == ["running"]


def test_only_owner_and_lease_token_together_hold_a_job() -> None:
    assert transitions.held(job("running"), "t-1", TOKEN)
    assert not transitions.held(job("running"), "t-2", TOKEN)
    assert not transitions.held(job("running"), "t-1", b"else")
    assert not any(transitions.held(job(status), "t-1", TOKEN) for status in STATUSES if status != "running")


def test_a_change_of_priority_leaves_a_back_off_and_a_change_of_time_ends_it() -> None:
    waiting = job("pending", due_at=NOW + 5_000, run_at=NOW - 9_000)

    def changed(**fields: Any) -> tuple[int, int | None, int | None]:
        given: dict[str, Any] = {"priority": None, "run_at": None, "reschedule": False, "now": NOW}
        after = transitions.change(waiting, **given | fields)
        return after.priority, after.run_at, after.due_at

    assert changed(priority=30) == (30, NOW - 9_000, NOW + 5_000)
    assert changed(run_at=NOW + 7_000, reschedule=True) == (10, NOW + 7_000, NOW + 7_000)
    assert changed(run_at=NOW, reschedule=True) == (10, NOW, None)
    assert changed(reschedule=True) == (10, None, None)
