"""The real store and a model made of nothing but the law of transitions live the same lives."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rota.clock import FakeClock
from rota.domain import transitions
from rota.domain.access import EVERYTHING, Actor
from rota.domain.job import KEY_LIFE_MS, STATUSES, Beat, Claim, Finish, Job, NewJob, Progress, granted_lease
from rota.domain.retry import Backoff, delay_ms
from rota.errors import Conflict, JobEnded, JobNotHeld, NotReplayable, RotaError
from rota.store.base import JobFilter, JobType, Swept
from rota.store.records import Action
from rota.store.sqlite.store import SqliteStore

ACTOR = Actor("test", "machine")
LEASE, BACKOFF = 8.0, Backoff(base_seconds=1.5, cap_seconds=5, jitter=0)
TYPES, OWNERS = ("a", "b", "c"), ("t-1", "t-2", "t-3")

T = TypeVar("T")
number = st.integers(0, 1_000_000)
"""Picks one of what there is by its remainder."""


def _agree(_: JobType) -> None: ...


class Model:
    """What the law says the store must hold."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.keys: dict[str, int] = {}
        self.paused: set[str] = set()
        self.pulse_at = 0
        self.writable_since = 0

    def ready(self, claim: Claim) -> list[int]:
        found = [
            job
            for job in self.jobs.values()
            if job.status == "pending"
            and job.due_at is None
            and job.type not in self.paused
            and (claim.types is None or job.type in claim.types)
        ]
        return [job.id for job in sorted(found, key=lambda job: (-job.priority, job.id))[: claim.limit]]

    def end(self, ending: Finish, now: int) -> Job | None:
        """The job afterwards; None where the law refuses."""
        job = self.jobs[ending.id]
        if transitions.repeated(job, ending):
            return job
        if not transitions.held(job, ending.owner, ending.lease_token):
            return None
        if ending.outcome == "complete":
            ended = transitions.complete(job, ending.result, now)
        elif ending.outcome == "release":
            ended = transitions.release(job, ending.delay_seconds, now)
        else:
            ended = transitions.fail(job, ending, delay_ms(BACKOFF, job.retry_count, 0), now)
        self.jobs[job.id] = ended
        return ended

    def beat(self, sign: Beat, now: int) -> Job | None:
        job = self.jobs[sign.id]
        if not transitions.held(job, sign.owner, sign.lease_token):
            return None
        lease = granted_lease(sign.lease_seconds or job.lease_seconds, LEASE)
        self.jobs[job.id] = transitions.beat(job, sign, lease, now)
        return self.jobs[job.id]

    def sweep(self, now: int) -> Swept:
        if now - self.pulse_at > 2_000:
            self.writable_since = now
        self.pulse_at = now
        due = [job for job in self.jobs.values() if job.status == "pending" and job.due_at is not None]
        due = [job for job in due if job.due_at is not None and job.due_at <= now]
        self.jobs |= {job.id: transitions.promote(job, now) for job in due}
        lost = [job for job in self.jobs.values() if transitions.lapsed(job, self.writable_since, now)]
        self.jobs |= {job.id: transitions.lapse(job, now) for job in lost}
        return Swept(promoted=len(due), recovered=len(lost))


class Machine(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rota-machine-"))
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.model = Model()
        self.claims: list[tuple[int, str, bytes]] = []
        self.store = self.run(SqliteStore.open(self.folder / "rota.db", self.clock))
        for name in TYPES:
            wanted = JobType(name=name, lease_seconds=LEASE, backoff=BACKOFF)
            self.run(self.store.put_type(wanted, ACTOR, _agree))

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        for job in self.model.jobs.values():
            attempts = self.run(self.store.reader.attempts(job.id, EVERYTHING))
            assert [each.attempt for each in attempts or []] == list(range(1, job.failures + 1))
        self.run(self.store.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def run(self, verb: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(verb)

    def pick(self, at: int) -> Job:
        """One of the jobs, the newer the likelier met by small numbers."""
        ordered = sorted(self.model.jobs)
        return self.model.jobs[ordered[-1 - at % len(ordered)]]

    @invariant()
    def the_store_holds_what_the_law_says(self) -> None:
        if hasattr(self, "store"):
            page = self.run(self.store.reader.jobs(JobFilter(), EVERYTHING, limit=10_000))
            assert {job.id: job for job in page.jobs} == self.model.jobs

    # --- producers --------------------------------------------------------------------------------

    @rule(
        asked=st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(TYPES),
                    "queue": st.sampled_from(("default", "other")),
                    "priority": st.sampled_from((0, 10, 20, 30)),
                    "max_retries": st.integers(0, 2),
                    "delay_seconds": st.sampled_from((None, None, None, 0, 1, 4)),
                    "idempotency_key": st.sampled_from((None, None, "k", "l")),
                    "timeout_seconds": st.sampled_from((None, 1, 20)),
                    "payload": st.sampled_from((b"1", b'{"a":[]}')),
                }
            ),
            min_size=1,
            max_size=5,
        )
    )
    def enqueue(self, asked: list[dict[str, Any]]) -> None:
        new = [NewJob(producer="t-p", request_uid=uuid.uuid4().bytes, **fields) for fields in asked]
        for job, verdict in zip(new, self.run(self.store.enqueue(new)), strict=True):
            known = self.model.keys.get(job.idempotency_key or "")
            assert verdict.created == (known is None)
            if known is None:
                assert verdict.job.id not in self.model.jobs
                self.model.jobs[verdict.job.id] = verdict.job
                if job.idempotency_key is not None:
                    self.model.keys[job.idempotency_key] = verdict.job.id
            else:
                stored = self.model.jobs[known]
                assert verdict.job == stored
                assert verdict.mismatch == (job.type != stored.type or job.payload != stored.payload)

    # --- workers ----------------------------------------------------------------------------------

    @rule(
        owner=st.sampled_from(OWNERS),
        limit=st.integers(1, 4),
        types=st.sampled_from((None, None, frozenset({"a"}), frozenset({"b", "c"}))),
        lease=st.sampled_from((None, 2, 30)),
    )
    def claim(self, owner: str, limit: int, types: frozenset[str] | None, lease: float | None) -> None:
        asked = Claim(owner, f"{owner}/1", limit, types=types, lease_seconds=lease)
        got = self.run(self.store.claim(asked))
        assert [job.id for job in got] == self.model.ready(asked)
        for job in got:
            assert job.lease_token is not None
            self.model.jobs[job.id] = transitions.claim(
                self.model.jobs[job.id],
                owner=owner,
                worker_id=asked.worker_id,
                lease_token=job.lease_token,
                lease_seconds=granted_lease(lease, LEASE),
                claim_id=None,
                now=self.clock.now(),
            )
            assert job == self.model.jobs[job.id]
            self.claims.append((job.id, owner, job.lease_token))

    def _held(self, at: int, odd: int) -> tuple[int, str, bytes]:
        """A claim made some time ago, mostly a recent one; seldom with another's owner or token."""
        id, owner, lease_token = self.claims[-1 - at % len(self.claims)]
        if odd == 1:
            owner = OWNERS[(OWNERS.index(owner) + 1) % len(OWNERS)]
        return id, owner, secrets.token_bytes(16) if odd == 2 else lease_token

    @precondition(lambda self: self.claims)
    @rule(
        asked=st.lists(
            st.tuples(
                st.one_of(st.integers(0, 4), number),
                st.integers(0, 12),
                st.sampled_from(("complete", "fail", "release")),
                st.booleans(),
                st.sampled_from((None, None, 0, 3)),
            ),
            min_size=1,
            max_size=5,
            unique_by=lambda each: each[0],
        ),
        answer=st.booleans(),
    )
    def finish(self, asked: list[tuple[int, int, Any, bool, float | None]], answer: bool) -> None:
        endings: dict[int, Finish] = {}
        for at, odd, outcome, retryable, delay in asked:
            held = self._held(at, odd)
            result, error = (b"true", None) if outcome == "complete" else (None, f"error {at}")
            endings[held[0]] = Finish(
                *held, outcome, result=result, error=error, retryable=retryable, delay_seconds=delay
            )
        verdicts = self.run(self.store.finish(list(endings.values()), answer=answer))
        for ending, verdict in zip(endings.values(), verdicts, strict=True):
            expected = self.model.end(ending, self.clock.now())
            if expected is None:
                assert isinstance(verdict, JobNotHeld)
            else:
                assert verdict == (expected if answer else None)

    @precondition(lambda self: self.claims)
    @rule(
        asked=st.lists(
            st.tuples(
                st.one_of(st.integers(0, 4), number),
                st.integers(0, 12),
                st.booleans(),
                st.sampled_from((None, 2, 20)),
                st.sampled_from((None, Progress(1, 2, "half"), Progress())),
            ),
            min_size=1,
            max_size=4,
        )
    )
    def beat(self, asked: list[tuple[int, int, bool, float | None, Progress | None]]) -> None:
        signs = [
            Beat(*self._held(at, odd), lease_seconds=lease, started=started, progress=progress)
            for at, odd, started, lease, progress in asked
        ]
        for sign, verdict in zip(signs, self.run(self.store.heartbeat(signs)), strict=True):
            expected = self.model.beat(sign, self.clock.now())
            if expected is None:
                assert isinstance(verdict, JobNotHeld)
            else:
                assert not isinstance(verdict, RotaError)
                assert verdict.lease_expires_at == expected.lease_expires_at
                assert verdict.cancel_requested == bool(expected.cancel_requested)

    # --- operators --------------------------------------------------------------------------------

    @precondition(lambda self: self.model.jobs)
    @rule(at=st.one_of(st.integers(0, 4), number))
    def cancel(self, at: int) -> None:
        job = self.pick(at)
        try:
            self.model.jobs[job.id] = transitions.cancel(job, self.clock.now())
        except JobEnded:
            with pytest.raises(JobEnded):
                self.run(self.store.cancel(job.id, EVERYTHING, ACTOR))
        else:
            assert self.run(self.store.cancel(job.id, EVERYTHING, ACTOR)) == self.model.jobs[job.id]

    @precondition(lambda self: self.model.jobs)
    @rule(at=st.one_of(st.integers(0, 4), number))
    def replay(self, at: int) -> None:
        job = self.pick(at)
        try:
            self.model.jobs[job.id] = transitions.replay(job, self.clock.now())
        except NotReplayable:
            with pytest.raises(NotReplayable):
                self.run(self.store.replay(job.id, EVERYTHING, ACTOR))
        else:
            assert self.run(self.store.replay(job.id, EVERYTHING, ACTOR)) == self.model.jobs[job.id]

    @precondition(lambda self: self.model.jobs)
    @rule(
        at=st.one_of(st.integers(0, 4), number),
        priority=st.sampled_from((None, 0, 30)),
        reschedule=st.booleans(),
        delay=st.sampled_from((None, -1, 3)),
    )
    def change(self, at: int, priority: int | None, reschedule: bool, delay: float | None) -> None:
        job, now = self.pick(at), self.clock.now()
        run_at = None if delay is None else now + int(delay * 1000)
        change: dict[str, Any] = {"priority": priority, "run_at": run_at, "reschedule": reschedule}
        try:
            self.model.jobs[job.id] = transitions.change(job, **change, now=now)
        except Conflict as refused:
            with pytest.raises(type(refused)):
                self.run(self.store.change(job.id, EVERYTHING, ACTOR, **change))
        else:
            changed = self.run(self.store.change(job.id, EVERYTHING, ACTOR, **change))
            assert changed == self.model.jobs[job.id]

    @precondition(lambda self: self.model.jobs)
    @rule(
        action=st.sampled_from(("replay", "cancel")),
        at=st.lists(st.one_of(st.integers(0, 4), number), min_size=1, max_size=4),
    )
    def act(self, action: Action, at: list[int]) -> None:
        step = {"replay": transitions.replay, "cancel": transitions.cancel}[action]
        expected = []
        for job in {job.id: job for job in map(self.pick, at)}.values():
            try:
                self.model.jobs[job.id] = step(job, self.clock.now())
            except Conflict:
                continue
            expected.append(job.id)
        ids = [self.pick(each).id for each in at]
        done = self.run(self.store.act(action, ids, frozenset(STATUSES), EVERYTHING, ACTOR))
        assert sorted(done) == sorted(expected)

    @precondition(lambda self: self.model.jobs)
    @rule(at=st.one_of(st.integers(0, 4), number))
    def delete(self, at: int) -> None:
        job = self.pick(at)
        keyed = job.idempotency_key is not None and self.clock.now() - job.created_at < KEY_LIFE_MS
        if job.terminal and not keyed:
            self.run(self.store.delete(job.id, EVERYTHING, ACTOR))
            del self.model.jobs[job.id]
            self.claims = [each for each in self.claims if each[0] != job.id]
        else:
            with pytest.raises(Conflict):
                self.run(self.store.delete(job.id, EVERYTHING, ACTOR))

    @rule(type=st.sampled_from(TYPES), paused=st.sampled_from((True, False, False)))
    def pause(self, type: str, paused: bool) -> None:
        self.run(self.store.pause_type(type, paused, ACTOR, _agree))
        self.model.paused.discard(type)
        if paused:
            self.model.paused.add(type)

    # --- time -------------------------------------------------------------------------------------

    @rule(seconds=st.lists(st.sampled_from((0.001, 0.4, 1, 2, 2)), min_size=1, max_size=6))
    def time_passes(self, seconds: list[float]) -> None:
        for pause in seconds:
            self.clock.advance(pause)
            self.sweep()

    @rule(seconds=st.sampled_from((2.1, 9, 100)))
    def nobody_can_write_for_a_while(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def sweep(self) -> None:
        assert self.run(self.store.sweep()) == self.model.sweep(self.clock.now())


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much]
Machine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=QUIET,
    # Shrinking takes longer than a quick test may; the long form does it.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
TestMachine = Machine.TestCase


class LongMachine(Machine):
    """The same with many more and longer lives."""


LongMachine.TestCase.settings = settings(
    max_examples=1_500, stateful_step_count=100, deadline=None, suppress_health_check=QUIET
)
TestLongMachine = pytest.mark.soak(LongMachine.TestCase)
