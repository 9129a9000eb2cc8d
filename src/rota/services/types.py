"""Types of jobs: what may be enqueued and how it is run."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, TypeVar

from msgspec import UNSET

from rota.clock import Clock
from rota.domain import retry
from rota.domain.access import Actor, Principal, Scope
from rota.domain.job import (
    DEFAULT_QUEUE,
    MAX_LEASE_SECONDS,
    MAX_PAYLOAD_BYTES,
    MAX_RETRIES,
    MIN_LEASE_SECONDS,
    PRIORITY_LABELS,
)
from rota.errors import FieldError, Forbidden, NotFound, ValidationFailed
from rota.services.fields import NAME, RESERVED_PREFIX, parse_priority, parse_timeout, within
from rota.store.base import JobType, Store, TypeJudge
from rota.wire import TypeAnswer, TypeRequest, instant

FRESH_MS: Final = 1_000
MAX_DESCRIPTION: Final = 1_000
READING_SCOPES: Final = frozenset(
    {Scope.TYPES_READ, Scope.JOBS_ENQUEUE, Scope.JOBS_WORK, Scope.JOBS_READ, Scope.JOBS_MANAGE}
)
"""Any of them may read types within its range."""
_UNPRINTABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the order in which others are shown."""
_UNKNOWN: Final = "there is no type of this name; GET /types lists those that you may see"

T = TypeVar("T")


class Types:
    """The types, as a copy in memory for the hot path and as verbs for those who manage them."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._reader = store.reader
        self._clock = clock
        self._by_name: dict[str, JobType] = {}
        self._queues: frozenset[str] = frozenset({DEFAULT_QUEUE})
        self._version: int | None = None
        self._read_at = 0

    # --- the copy ---------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Read the types again where they may have changed or a second has passed; call it twice a second."""
        version, now = self._reader.types_version(), self._clock.now()
        if version != self._version or now - self._read_at > FRESH_MS:
            self._take_over(await self._reader.types(), version, now)

    def get(self, name: str) -> JobType | None:
        return self._by_name.get(name)

    def names(self) -> AbstractSet[str]:
        return self._by_name.keys()

    def queues(self) -> AbstractSet[str]:
        """``default`` and every queue that a type names."""
        return self._queues

    def _take_over(self, types: list[JobType], version: int, now: int) -> None:
        if self._version is not None and version < self._version:
            return  # a slow reading, overtaken by a later one
        self._by_name = {each.name: each for each in types}
        self._queues = frozenset(each.queue for each in types) | {DEFAULT_QUEUE}
        self._version, self._read_at = version, now

    # --- reading ----------------------------------------------------------------------------------

    async def list(self, principal: Principal) -> list[TypeAnswer]:
        """The types within the principal's range, by name. Raises Forbidden without a scope for them."""
        _require_reading(principal)
        await self.refresh()
        return [_answer(each) for each in self._by_name.values() if _in_range(principal, each)]

    async def show(self, principal: Principal, name: str) -> TypeAnswer:
        """One type. Raises NotFound where it is unknown or out of range, Forbidden without a scope."""
        _require_reading(principal)
        await self.refresh()
        found = self._by_name.get(name)
        if found is None or not _in_range(principal, found):
            raise NotFound(_UNKNOWN)
        return _answer(found)

    # --- changing ---------------------------------------------------------------------------------

    async def put(
        self, principal: Principal, name: str, asked: TypeRequest, actor: Actor
    ) -> tuple[TypeAnswer, bool]:
        """Create or replace a type; the flag tells whether it is new.

        Raises ValidationFailed; Forbidden when what is asked lies beyond the principal's range or
        ceiling; NotFound when what it would replace is out of range; Conflict beyond 1,000 types.
        """
        wanted = _checked(name, asked)
        if not _in_range(principal, wanted):
            raise Forbidden("the token's range does not hold this type and queue")
        principal.require_priority(wanted.default_priority)
        stored, created = await self._store.put_type(
            wanted, actor, _judge(principal), keep_pause=asked.paused is UNSET
        )
        await self.refresh()
        return _answer(stored), created

    async def delete(self, principal: Principal, name: str, actor: Actor) -> None:
        """Let no more jobs of this type in or out. Raises NotFound, also out of range."""
        await self._store.delete_type(name, actor, _judge(principal))
        await self.refresh()

    async def pause(self, principal: Principal, name: str, actor: Actor) -> TypeAnswer:
        """Hand no more jobs of this type out until it is resumed. Raises NotFound, also out of range."""
        return await self._pause(principal, name, True, actor)

    async def resume(self, principal: Principal, name: str, actor: Actor) -> TypeAnswer:
        """Hand jobs of this type out again. Raises NotFound, also out of range."""
        return await self._pause(principal, name, False, actor)

    async def _pause(self, principal: Principal, name: str, paused: bool, actor: Actor) -> TypeAnswer:
        stored = await self._store.pause_type(name, paused, actor, _judge(principal))
        await self.refresh()
        return _answer(stored)


def _require_reading(principal: Principal) -> None:
    if not principal.grant.scopes & READING_SCOPES:
        raise Forbidden("this needs the scope types:read or one of jobs:…; ask for a token that has it")


def _in_range(principal: Principal, type: JobType) -> bool:
    return principal.grant.admits(type.queue, type.name)


def _judge(principal: Principal) -> TypeJudge:
    """Hides types out of the principal's range: decided on the stored row, inside the transaction."""

    def judge(stored: JobType) -> None:
        if not _in_range(principal, stored):
            raise NotFound(_UNKNOWN)

    return judge


# --- validation -----------------------------------------------------------------------------------


def _checked(name: str, asked: TypeRequest) -> JobType:
    """The type to store. Raises one ValidationFailed with every fault."""
    faults: list[FieldError] = []

    def take(check: Callable[[], T], instead: T) -> T:
        try:
            return check()
        except ValidationFailed as failed:
            faults.extend(failed.errors)
            return instead

    limits = (
        ("max_retries", asked.max_retries, 0, MAX_RETRIES),
        ("lease_seconds", asked.lease_seconds, MIN_LEASE_SECONDS, MAX_LEASE_SECONDS),
        ("max_payload_bytes", asked.max_payload_bytes, 1, MAX_PAYLOAD_BYTES),
    )
    take(lambda: _require_name(name, "name"), None)
    take(lambda: _require_description(asked.description), None)
    take(lambda: _require_name(asked.queue, "queue"), None)
    priority = take(lambda: parse_priority(asked.default_priority, "default_priority"), 0)
    for field, value, low, high in limits:
        take(partial(within, value, low, high, field), 0.0)
    take(lambda: retry.validate(asked.backoff), None)
    if asked.timeout_seconds is not None:
        take(lambda: parse_timeout(asked.timeout_seconds or 0), 0.0)
    if faults:
        raise ValidationFailed("; ".join(f"{each.field} {each.message}" for each in faults), errors=faults)
    return JobType(
        name=name,
        description=asked.description,
        queue=asked.queue,
        default_priority=priority,
        max_retries=asked.max_retries,
        backoff=asked.backoff,
        lease_seconds=asked.lease_seconds,
        timeout_seconds=asked.timeout_seconds,
        max_payload_bytes=asked.max_payload_bytes,
        paused=asked.paused is True,
    )


def _require_name(name: str, field: str) -> None:
    if not NAME.fullmatch(name):
        raise ValidationFailed.of(
            field,
            "not-a-name",
            "must be 1 to 64 of a-z, 0-9, dot, dash and underscore, the first a letter or digit",
        )
    if name.startswith(RESERVED_PREFIX):
        raise ValidationFailed.of(field, "reserved", "must not begin with rota., which belongs to the server")


def _require_description(text: str) -> None:
    if len(text) > MAX_DESCRIPTION:
        raise ValidationFailed.of("description", "too-long", f"is longer than {MAX_DESCRIPTION:,} characters")
    if any(char in _BIDI or unicodedata.category(char) in _UNPRINTABLE for char in text):
        raise ValidationFailed.of(
            "description", "not-printable", "must be one line without control or text-direction characters"
        )


def _answer(type: JobType) -> TypeAnswer:
    return TypeAnswer(
        name=type.name,
        description=type.description,
        queue=type.queue,
        default_priority=PRIORITY_LABELS[type.default_priority],
        max_retries=type.max_retries,
        backoff=type.backoff,
        lease_seconds=type.lease_seconds,
        timeout_seconds=type.timeout_seconds,
        max_payload_bytes=type.max_payload_bytes,
        paused=type.paused,
        created_at=instant(type.created_at),
        updated_at=instant(type.updated_at),
    )
