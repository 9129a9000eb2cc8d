"""Group commit: what concurrent callers ask for while one transaction commits becomes the next one.

The batcher collects; it does no I/O. A driver (a thread on SQLite) takes a batch, runs it as one
transaction and delivers a verdict to each member after COMMIT, all at once. Within a batch the order is
administration, enqueue, finish, heartbeat, sweep, bulk, claim: a job can be enqueued and claimed by a waiting
worker in the same commit.

Claims that find nothing are parked here by lane set, and join a batch only when one of their lanes was
announced (enqueue, retry, release, promotion, resume, or a commit of another process).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from itertools import count
from typing import Any, Final

from rota.domain.job import Claim
from rota.errors import RotaError, Unavailable

MAX_BATCH_ROWS: Final = 1_000
"""A transaction takes at most this many rows; a single member may exceed it (an atomic batch)."""
MAX_WAITING_MEMBERS: Final = 10_000
MAX_WAITING_BYTES: Final = 64 * 1_048_576
RESERVE: Final = 2
"""Finishes, beats and claims are taken until so many times the members wait that stop an enqueue."""

Lane = tuple[str, str]
"""(queue, type)"""
LaneSet = tuple[frozenset[str] | None, frozenset[str] | None]
"""The (types, queues) that a claim may serve; None means all."""


class Kind(IntEnum):
    """What a member wants, in the order of work inside a batch."""

    ADMIN = 0
    ENQUEUE = 1
    FINISH = 2
    BEAT = 3
    SWEEP = 4
    BULK = 5
    CLAIM = 6


_arrivals = count()


class Member:
    """One caller's wish and the future that its verdict resolves."""

    __slots__ = ("arrival", "asked_at", "future", "item", "judge", "kind", "loop", "parks", "rows", "size")

    def __init__(
        self,
        kind: Kind,
        item: Any,
        *,
        rows: int = 1,
        size: int = 0,
        parks: bool = False,
        judge: Callable[[], RotaError | None] | None = None,
    ) -> None:
        self.kind = kind
        self.item = item
        self.rows = rows
        self.size = size
        self.parks = parks
        """A claim that waits when there is nothing."""
        self.judge = judge
        self.arrival = next(_arrivals)
        self.asked_at: float | None = time.monotonic()
        """None once it waits for work: how long that takes says nothing about the store."""
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    @property
    def lanes(self) -> LaneSet:
        claim: Claim = self.item
        return claim.types, claim.queues


Verdict = tuple[Member, Any]
"""A member and its result, or the exception that it raises."""


class Batcher:
    """Collects members for a driver; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._waiting: deque[Member] = deque()
        self._waiting_bytes = 0
        self._parked: dict[LaneSet, deque[Member]] = {}
        self._closed = False

    # --- callers ----------------------------------------------------------------------------------

    def submit(self, *members: Member) -> list[asyncio.Future[Any]]:
        """Queue members of one kind, all or none.

        Raises Unavailable when too much waits already or the store is closing.
        """
        size = sum(member.size for member in members)
        with self._lock:
            if self._closed:
                raise Unavailable("the server is stopping: try again in a moment", retry_after=1)
            share = 1 if any(member.kind is Kind.ENQUEUE for member in members) else RESERVE
            if (
                len(self._waiting) + len(members) > MAX_WAITING_MEMBERS * share
                or self._waiting_bytes + size > MAX_WAITING_BYTES * share
            ):
                raise Unavailable("the store cannot keep up: try again in a second", retry_after=1)
            if not self._waiting:
                self._lock.notify()
            self._waiting.extend(members)
            self._waiting_bytes += size
        return [member.future for member in members]

    def submit_again(self, members: Sequence[Member]) -> None:
        """Put back members that their transaction had no room for, before all others and in their order."""
        with self._lock:
            self._waiting.extendleft(reversed(members))
            self._waiting_bytes += sum(member.size for member in members)

    def close(self) -> None:
        """Take no more members; parked claims end empty. What waits is still taken."""
        with self._lock:
            self._closed = True
            parked = [member for group in self._parked.values() for member in group]
            self._parked.clear()
            self._lock.notify()
        deliver((member, []) for member in parked)

    def judge_parked(self) -> None:
        """End the parked claims whose token is no longer good."""
        with self._lock:
            parked = [member for group in self._parked.values() for member in group]
        deliver((member, refused) for member in parked if (refused := judged(member)) is not None)

    # --- the driver -------------------------------------------------------------------------------

    def take(self, timeout: float) -> list[Member]:
        """The next batch in order of arrival: all that waits, up to 1,000 rows. Empty after ``timeout`` s."""
        with self._lock:
            if not self._waiting and not self._closed:
                self._lock.wait(timeout)
            batch: list[Member] = []
            rows = 0
            while self._waiting and (not batch or rows + self._waiting[0].rows <= MAX_BATCH_ROWS):
                member = self._waiting.popleft()
                self._waiting_bytes -= member.size
                rows += member.rows
                batch.append(member)
            return batch

    @property
    def drained(self) -> bool:
        """Closed, and nothing is left to take."""
        return self._closed and not self._waiting

    def park(self, member: Member) -> None:
        """Let a claim wait for an announcement of one of its lanes."""
        member.asked_at = None
        with self._lock:
            if not self._closed:
                self._parked.setdefault(member.lanes, deque()).append(member)
                return
        deliver([(member, [])])

    def supersede(self, callers: Collection[tuple[str, bytes | None]]) -> None:
        """End the parked claims of these (owner, claim_id): their caller has asked again."""
        with self._lock:
            ended = [
                member
                for group in self._parked.values()
                for member in group
                if (member.item.owner, member.item.claim_id) in callers
            ]
        deliver((member, []) for member in ended)

    def knows_dry(self, lanes: LaneSet) -> bool:
        """Whether others wait for the same lanes, so that nothing can be ready in them.

        A store that is closing hands out nothing more: it could not take back what does not arrive.
        """
        return self._closed or lanes in self._parked

    def wake(self, announced: Iterable[Lane] | None) -> list[Member]:
        """Take out the parked claims that may serve one of the announced lanes (None: any lane)."""
        with self._lock:
            if not self._parked:
                return []
            lanes = None if announced is None else set(announced)
            woken: list[Member] = []
            for lane_set in [each for each in self._parked if lanes is None or _serves(each, lanes)]:
                woken.extend(self._parked.pop(lane_set))
        return [member for member in woken if not member.future.done()]


def _serves(lane_set: LaneSet, lanes: set[Lane]) -> bool:
    types, queues = lane_set
    return any(
        (types is None or type in types) and (queues is None or queue in queues) for queue, type in lanes
    )


def judged(member: Member) -> RotaError | None:
    """What stands against a member's token now; None when nothing does."""
    return None if member.judge is None else member.judge()


def deliver(verdicts: Iterable[Verdict], *, unwanted: Callable[[Sequence[Any]], None] | None = None) -> None:
    """Resolve the futures of many members with one call into each event loop.

    ``unwanted`` gets the results of claims whose caller has gone in the meantime.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[Verdict]] = {}
    for verdict in verdicts:
        by_loop.setdefault(verdict[0].loop, []).append(verdict)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, group, unwanted)
        except RuntimeError:  # the loop has closed: nobody waits for these any more
            continue


def _resolve(verdicts: list[Verdict], unwanted: Callable[[Sequence[Any]], None] | None) -> None:
    for member, result in verdicts:
        if member.future.done():
            if unwanted is not None and member.kind is Kind.CLAIM and result and isinstance(result, list):
                unwanted(result)
        elif isinstance(result, BaseException):
            member.future.set_exception(result)
        else:
            member.future.set_result(result)
