"""Queues: made, paused, resumed, and how much waits in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rota.clock import Clock
from rota.domain.access import Actor, Principal, Visibility
from rota.errors import Forbidden, NotFound
from rota.services.fields import require_name
from rota.services.types import Types
from rota.store.base import Store
from rota.store.records import LaneCount, QueueRecord
from rota.wire import instant
from rota.wire_admin import QueueAnswer, QueueState

MAX_COUNTED: Final = 10_000
_UNKNOWN: Final = "there is no queue of this name that this token may see; GET /queues lists them"


class Queues:
    """The verbs about queues; jobs of all types lie in them."""

    def __init__(self, store: Store, types: Types, clock: Clock) -> None:
        self._store = store
        self._reader = store.reader
        self._types = types
        self._clock = clock

    async def list(self, principal: Principal) -> list[QueueState]:
        """The queues within the principal's range by name, with counts of the jobs that it may see."""
        await self._types.refresh()
        paused = {each.name for each in await self._reader.queues() if each.paused}
        counts: dict[str, list[LaneCount]] = {name: [] for name in self._types.queues()}
        for lane in await self._reader.count_lanes(Visibility.of(principal)):
            counts.setdefault(lane.queue, []).append(lane)
        allowed, now = principal.grant.queues, self._clock.now()
        return [
            _state(name, name in paused, lanes, now)
            for name, lanes in sorted(counts.items())
            if allowed is None or name in allowed
        ]

    async def put(
        self, principal: Principal, name: str, paused: bool | None, actor: Actor
    ) -> tuple[QueueAnswer, bool]:
        """Make a queue or change it; the flag tells whether it is new. ``paused`` None keeps that.

        Raises ValidationFailed; Forbidden out of range; Conflict beyond 1,000 queues.
        """
        _require_all_types(principal)
        require_name(name, "name")
        if principal.grant.queues is not None and name not in principal.grant.queues:
            raise Forbidden("the token's range does not hold this queue")
        stored, created = await self._store.put_queue(name, paused, actor)
        await self._types.refresh()
        return _answer(stored), created

    async def pause(self, principal: Principal, name: str, actor: Actor) -> QueueAnswer:
        """Hand out no more jobs of this queue until it is resumed.

        Raises Forbidden; NotFound, also out of range.
        """
        return await self._pause(principal, name, True, actor)

    async def resume(self, principal: Principal, name: str, actor: Actor) -> QueueAnswer:
        """Hand jobs of this queue out again. Raises Forbidden; NotFound, also out of range."""
        return await self._pause(principal, name, False, actor)

    async def _pause(self, principal: Principal, name: str, paused: bool, actor: Actor) -> QueueAnswer:
        _require_all_types(principal)
        if principal.grant.queues is not None and name not in principal.grant.queues:
            raise NotFound(_UNKNOWN)
        return _answer(await self._store.pause_queue(name, paused, actor))


def _require_all_types(principal: Principal) -> None:
    """A queue holds jobs of every type: who may touch only some of them may not stop them all."""
    if principal.grant.types is not None:
        raise Forbidden("a queue holds jobs of all types, and the token's range holds only some of them")


def _answer(stored: QueueRecord) -> QueueAnswer:
    return QueueAnswer(stored.name, stored.paused, instant(stored.created_at), instant(stored.updated_at))


def _state(name: str, paused: bool, lanes: Iterable[LaneCount], now: int) -> QueueState:
    lanes = list(lanes)
    since = min((lane.ready_since for lane in lanes if lane.ready_since is not None), default=None)
    return QueueState(
        name,
        paused,
        _counted(lane.ready for lane in lanes),
        _counted(lane.delayed for lane in lanes),
        _counted(lane.running for lane in lanes),
        None if since is None else max(0, now - since) / 1000,
    )


def _counted(numbers: Iterable[int]) -> int:
    return min(sum(numbers), MAX_COUNTED)
