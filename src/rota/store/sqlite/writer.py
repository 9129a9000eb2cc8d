"""The one thread of a process that writes to SQLite: takes batches, runs each as one transaction.

If a statement of a batch raises all the same, the transaction is rolled back and its members run again,
each in a transaction of its own; only the guilty one gets the error.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from random import random
from typing import Any, Final, TypeVar

import structlog

from rota.clock import Clock
from rota.domain.job import Finish, Job
from rota.errors import InternalError, RotaError, Unavailable
from rota.store.base import JobType
from rota.store.batcher import MAX_BATCH_ROWS, Batcher, Kind, LaneSet, Member, Verdict, deliver, judged
from rota.store.sqlite.access import read_types
from rota.store.sqlite.claims import serve
from rota.store.sqlite.connection import data_version, describe, immediate
from rota.store.sqlite.jobs import beat, enqueue, finish
from rota.store.sqlite.queues import paused_queues
from rota.store.sqlite.sweeps import sweep
from rota.store.sqlite.transaction import Transaction
from rota.telemetry import Telemetry

LOOK_SECONDS: Final = 0.1
"""How often the writer looks whether another process has committed."""
POLL_SECONDS: Final = 1.0
"""How often parked claims look for work that nobody announced."""
HUNG_SECONDS: Final = 5.0
"""A writer that has been busy with one batch for so long does not work any more."""

VERBS: Final = {kind: kind.name.lower() for kind in Kind}

log = structlog.get_logger("rota.store")
T = TypeVar("T")


class Writer:
    """Runs batches on its own thread until the batcher is closed and drained."""

    def __init__(
        self, connection: sqlite3.Connection, batcher: Batcher, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._connection = connection
        self._batcher = batcher
        self._clock = clock
        self.telemetry = telemetry
        self._turned_at = time.monotonic()
        self._types: dict[str, JobType] = {}
        self._paused: frozenset[str] | None = None
        self._seen = -1
        self._polled = 0.0
        self.version = 0
        """Rises when types or tokens may have changed: by this process or by another one's commit."""
        self._thread = threading.Thread(target=self._run, name="rota-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    @property
    def works(self) -> bool:
        """Whether the thread lives and has not hung in one batch for the last seconds."""
        return self._thread.is_alive() and time.monotonic() - self._turned_at < HUNG_SECONDS

    def _run(self) -> None:
        while not self._batcher.drained:
            batch = self._batcher.take(LOOK_SECONDS)
            self._turned_at = time.monotonic()
            try:
                self._serve(batch)
            except Exception as error:
                # Nothing may end this thread; whoever waits is told.
                log.error("writer_failed", error=_describe(error))
                deliver((member, _hidden(error)) for member in batch)
        self._connection.close()

    def _serve(self, batch: list[Member]) -> None:
        elsewhere = self._changed_elsewhere()
        now = time.monotonic()
        woken: list[Member] = []
        if elsewhere or now - self._polled > POLL_SECONDS:
            self._polled = now
            woken = self._batcher.wake(None)
        rest = woken + [member for member in batch if not self._parked_at_once(member)]
        if not rest:
            return
        try:
            verdicts = self._transact(rest)
        except Unavailable as busy:
            # The lock was not to be had in all that time: each member alone would wait as long again.
            self._rolled_back()
            verdicts = [(member, Unavailable(busy.detail, retry_after=1)) for member in rest]
        except Exception:
            self._rolled_back()
            verdicts = self._singly(rest)
        deliver(verdicts, unwanted=self.give_back)

    def _parked_at_once(self, member: Member) -> bool:
        """A claim for lanes that others already wait for finds nothing: no walk, no transaction."""
        if member.kind is not Kind.CLAIM or member.item.repeat or not self._batcher.knows_dry(member.lanes):
            return False
        self._claimed_nothing(member)
        return True

    def _claimed_nothing(self, member: Member) -> None:
        if member.parks:
            self._batcher.park(member)
        else:
            deliver([(member, [])])

    def _singly(self, members: Sequence[Member]) -> list[Verdict]:
        verdicts: list[Verdict] = []
        for member in members:
            try:
                verdicts += self._transact([member], alone=True)
            except Exception as error:
                self._rolled_back()
                verdicts.append((member, _hidden(error)))
        return verdicts

    def _rolled_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.rollback()
        self._forget()
        self._seen = -1

    def _changed_elsewhere(self) -> bool:
        """Whether another connection has committed since the last look; drops what was cached then."""
        seen = data_version(self._connection)
        if seen == self._seen:
            return False
        self._seen = seen
        self._forget()
        self.version += 1
        return True

    def _transact(self, members: Sequence[Member], *, alone: bool = False) -> list[Verdict]:
        """Run members, and the parked claims that they wake, in one transaction.

        ``alone`` leaves the woken claims to the next one, so that a guilty claim fails nobody else.
        """
        by_kind: dict[Kind, list[Member]] = {}
        for member in members:
            by_kind.setdefault(member.kind, []).append(member)
        began = time.monotonic()
        immediate(self._connection)
        elsewhere = self._changed_elsewhere()
        within = Transaction(
            self._connection, self._clock.now(), self._current_types, random, self._current_pauses
        )
        verdicts: list[Verdict] = [
            (member, _verdict(member.item, within)) for member in by_kind.get(Kind.ADMIN, ())
        ]
        if Kind.ADMIN in by_kind:
            self._forget()
        if asked := by_kind.get(Kind.ENQUEUE):
            verdicts += _split(asked, enqueue(within, [job for each in asked for job in each.item]))
        if asked := by_kind.get(Kind.FINISH):
            verdicts += self._finish(within, asked)
        if asked := by_kind.get(Kind.BEAT):
            verdicts += _split(asked, beat(within, [sign for each in asked for sign in each.item]))
        if asked := by_kind.get(Kind.SWEEP):
            swept = sweep(within)
            verdicts += [(member, swept) for member in asked]
        verdicts += [(member, _verdict(member.item, within)) for member in by_kind.get(Kind.BULK, ())]
        lanes = None if within.announced_all or elsewhere else within.announced
        woken = [] if alone else self._batcher.wake(lanes)
        claims = by_kind.get(Kind.CLAIM, []) + woken
        again: list[Member] = []
        try:
            served = self._claim(within, claims, again) if claims else []
            self._connection.commit()
        except BaseException:
            for member in woken:
                self._batcher.park(member)
            raise
        self._count(within, members, began)
        if Kind.ADMIN in by_kind:
            self.version += 1
        if alone:
            again += self._batcher.wake(lanes)
        self._batcher.submit_again(again)
        for member, jobs in served:
            if jobs == []:
                self._claimed_nothing(member)
            else:
                verdicts.append((member, jobs))
        return verdicts

    def _count(self, within: Transaction, members: Sequence[Member], began: float) -> None:
        """The one place where the store counts: once a transaction, after its commit."""
        telemetry, now = self.telemetry, time.monotonic()
        telemetry.committed(sum(member.rows for member in members), now - began)
        telemetry.jobs.update(within.happened)
        if within.leases_lost:
            telemetry.leases_lost.update(within.leases_lost)
        telemetry.reports_refused += within.reports_refused
        for member in members:
            if member.asked_at is not None:
                telemetry.served(VERBS[member.kind], now - member.asked_at)

    def _current_types(self) -> dict[str, JobType]:
        if not self._types:
            self._types = {each.name: each for each in read_types(self._connection, deleted=True)}
        return self._types

    def _current_pauses(self) -> frozenset[str]:
        if self._paused is None:
            self._paused = paused_queues(self._connection)
        return self._paused

    def _forget(self) -> None:
        """Drop what was read about types and queues."""
        self._types = {}
        self._paused = None

    def _finish(self, within: Transaction, asked: Sequence[Member]) -> list[Verdict]:
        answered = [member for member in asked if member.item[1]]
        silent = [member for member in asked if not member.item[1]]
        verdicts: list[Verdict] = []
        for group, answer in ((answered, True), (silent, False)):
            if group:
                endings = [ending for member in group for ending in member.item[0]]
                verdicts += _split(group, finish(within, endings, answer=answer), of=_endings)
        return verdicts

    def _claim(self, within: Transaction, asked: list[Member], again: list[Member]) -> list[Verdict]:
        """Serve claims, equal lane sets together, in order of arrival.

        Claims that found nothing are parked or answered after the commit; ``again`` gets those for which
        this transaction had no more room.
        """
        within.now = self._clock.now()
        verdicts: list[Verdict] = []
        groups: dict[LaneSet, list[Member]] = {}
        newest = self._repeats(asked)
        for member in sorted(asked, key=lambda each: each.arrival):
            if member.future.done():
                continue
            if newest.get(_caller(member), member) is not member:
                deliver([(member, [])])  # at once: it must not be parked
                continue
            refused = judged(member)
            if refused is not None:
                verdicts.append((member, refused))
            else:
                groups.setdefault(member.lanes, []).append(member)
        rows = 0
        for group in groups.values():
            dry = False
            while group and not dry:
                share: list[Member] = []
                while group and (not (share or rows) or rows + group[0].rows <= MAX_BATCH_ROWS):
                    rows += group[0].rows
                    share.append(group.pop(0))
                if not share:
                    again += group
                    break
                served = serve(within, [member.item for member in share])
                verdicts += zip(share, served, strict=True)
                dry = not all(served)
            if dry:
                verdicts += [(member, []) for member in group]
        return verdicts

    def _repeats(self, asked: Sequence[Member]) -> dict[tuple[str, bytes | None], Member]:
        """The newest claim of each caller that repeats its claim_id; its other claims must get nothing.

        Otherwise a repeat that overtakes or meets its original would take a second set of jobs, and the
        answer to the original goes to a connection that is gone.
        """
        callers = {_caller(member) for member in asked if member.item.repeat and member.item.claim_id}
        if not callers:
            return {}
        self._batcher.supersede(callers)
        return {
            _caller(each): each
            for each in sorted(asked, key=lambda each: each.arrival)
            if _caller(each) in callers
        }

    def give_back(self, jobs: Sequence[Job]) -> None:
        """Release what was claimed for a caller that has gone: uncounted. Called on its event loop."""
        endings = [
            Finish(job.id, job.owner, job.lease_token, "release", delay_seconds=0)
            for job in jobs
            if job.owner is not None and job.lease_token is not None
        ]
        try:
            self._batcher.submit(Member(Kind.FINISH, (endings, False), rows=len(endings)))
        except Unavailable:
            log.warning("claim_not_given_back", jobs=len(endings))  # their leases will lapse


def _caller(member: Member) -> tuple[str, bytes | None]:
    return member.item.owner, member.item.claim_id


def _endings(member: Member) -> Sequence[Any]:
    endings: Sequence[Any] = member.item[0]
    return endings


def _items(member: Member) -> Sequence[Any]:
    items: Sequence[Any] = member.item
    return items


def _split(
    members: Sequence[Member],
    results: list[Any],
    *,
    of: Callable[[Member], Sequence[Any]] = _items,
) -> list[Verdict]:
    """The results of one statement, cut into the lists that its members asked for."""
    if len(members) == 1:
        return [(members[0], results)]
    verdicts: list[Verdict] = []
    at = 0
    for member in members:
        n = len(of(member))
        verdicts.append((member, results[at : at + n]))
        at += n
    return verdicts


def _verdict(change: Callable[[Transaction], T], within: Transaction) -> T | RotaError:
    """Run one administrative change under a savepoint, so that a refusal leaves nothing and stops nobody."""
    within.connection.execute("SAVEPOINT change")
    try:
        result = change(within)
    except RotaError as refused:
        within.connection.execute("ROLLBACK TO change")
        within.connection.execute("RELEASE change")
        return refused
    within.connection.execute("RELEASE change")
    return result


def _hidden(error: Exception) -> RotaError:
    """What a caller is told: our own errors as they are, the database's only in the log."""
    if isinstance(error, RotaError):
        return error
    log.error("statement_failed", error=_describe(error))
    if isinstance(error, sqlite3.OperationalError):
        return Unavailable("the database cannot take this now: try again", retry_after=1)
    return InternalError()


def _describe(error: Exception) -> str:
    return describe(error) if isinstance(error, sqlite3.Error) else type(error).__name__
