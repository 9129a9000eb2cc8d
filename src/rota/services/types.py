"""Types of jobs: what may be enqueued and how it is run."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, TypeVar

from msgspec import UNSET, Raw, UnsetType

from rota.clock import Clock
from rota.domain import retry
from rota.domain.access import Actor, Principal
from rota.domain.job import (
    DEFAULT_QUEUE,
    MAX_LEASE_SECONDS,
    MAX_PAYLOAD_BYTES,
    MAX_RETRIES,
    MIN_LEASE_SECONDS,
    PRIORITY_LABELS,
)
from rota.errors import FieldError, NotFound, ValidationFailed
from rota.services import schemas
from rota.services.fields import parse_priority, parse_timeout, require_name, within
from rota.services.schemas import PayloadSchema
from rota.store.base import JobType, Store, TypeJudge
from rota.store.records import QueueRecord
from rota.wire import TypeAnswer, TypeRequest, instant

FRESH_MS: Final = 1_000
MAX_DESCRIPTION: Final = 1_000
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
        self._schemas: dict[str, tuple[int, PayloadSchema]] = {}

    # --- the copy ---------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Read the types again where they may have changed or a second has passed; call it twice a second."""
        version, now = self._reader.types_version(), self._clock.now()
        if version != self._version or now - self._read_at > FRESH_MS:
            types, queues = await self._reader.types(), await self._reader.queues()
            self._take_over(types, queues, version, now)

    async def expect(self, types: Iterable[str], queues: Iterable[str | None] = ()) -> None:
        """Read the copy again where one of these is unknown: another process may have just made it."""
        known = all(name in self._by_name for name in types)
        if not (known and all(name is None or name in self._queues for name in queues)):
            await self.refresh()

    def get(self, name: str) -> JobType | None:
        return self._by_name.get(name)

    def known(self) -> Iterable[JobType]:
        return self._by_name.values()

    def queues(self) -> AbstractSet[str]:
        """``default``, every queue that a type names, and those that were made."""
        return self._queues

    def check_payload(self, type: JobType, payload: bytes) -> None:
        """Raise ValidationFailed unless the payload fits the type's schema, where it has one."""
        if type.payload_schema is not None:
            self._schema(type, type.payload_schema).check(payload)

    def _schema(self, type: JobType, text: bytes) -> PayloadSchema:
        """The compiled schema; a change of the type makes a new one, which no check has disabled."""
        changed_at, compiled = self._schemas.get(type.name, (None, None))
        if compiled is None or changed_at != type.updated_at:
            compiled = PayloadSchema(type.name, text)
            self._schemas[type.name] = (type.updated_at, compiled)
        return compiled

    def _take_over(self, types: list[JobType], queues: list[QueueRecord], version: int, now: int) -> None:
        if self._version is not None and version < self._version:
            return  # a slow reading, overtaken by a later one
        self._by_name = {each.name: each for each in types}
        made = {each.name for each in queues}
        self._queues = frozenset(each.queue for each in types) | made | {DEFAULT_QUEUE}
        self._version, self._read_at = version, now

    # --- reading ----------------------------------------------------------------------------------

    async def list(self, principal: Principal) -> list[TypeAnswer]:
        """The types within the principal's range, by name."""
        await self.refresh()
        return [self._answer(each) for each in self._by_name.values() if _in_range(principal, each)]

    async def show(self, principal: Principal, name: str) -> TypeAnswer:
        """One type. Raises NotFound where it is unknown or out of range."""
        await self.refresh()
        found = self._by_name.get(name)
        if found is None or not _in_range(principal, found):
            raise NotFound(_UNKNOWN)
        return self._answer(found)

    # --- changing ---------------------------------------------------------------------------------

    async def put(
        self, principal: Principal, name: str, asked: TypeRequest, actor: Actor
    ) -> tuple[TypeAnswer, bool]:
        """Create or replace a type; the flag tells whether it is new.

        Raises ValidationFailed; Forbidden when what is asked lies beyond the principal's range or
        ceiling; NotFound when what it would replace is out of range; Conflict beyond 1,000 types.
        """
        wanted = _checked(name, asked)
        if wanted.payload_schema is not None:
            await asyncio.to_thread(schemas.check_schema, wanted.payload_schema)
        principal.require_in_range(wanted.queue, name)
        principal.require_priority(wanted.default_priority)
        stored, created = await self._store.put_type(
            wanted, actor, _judge(principal), keep_pause=asked.paused is UNSET
        )
        await self.refresh()
        return self._answer(stored), created

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
        return self._answer(stored)

    def _answer(self, type: JobType) -> TypeAnswer:
        changed_at, compiled = self._schemas.get(type.name, (None, None))
        disabled = compiled is not None and compiled.disabled and changed_at == type.updated_at
        return _answer(type, disabled)


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
    take(lambda: require_name(name, "name"), None)
    take(lambda: _require_description(asked.description), None)
    take(lambda: require_name(asked.queue, "queue"), None)
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
        payload_schema=_given(asked.payload_schema),
        idempotent=asked.idempotent,
        paused=asked.paused is True,
    )


def _given(schema: Raw | UnsetType) -> bytes | None:
    return None if schema is UNSET or bytes(schema) == b"null" else bytes(schema)


def _require_description(text: str) -> None:
    if len(text) > MAX_DESCRIPTION:
        raise ValidationFailed.of("description", "too-long", f"is longer than {MAX_DESCRIPTION:,} characters")
    if any(char in _BIDI or unicodedata.category(char) in _UNPRINTABLE for char in text):
        raise ValidationFailed.of(
            "description", "not-printable", "must be one line without control or text-direction characters"
        )


def _answer(type: JobType, schema_disabled: bool) -> TypeAnswer:
    return TypeAnswer(
        name=type.name,
        description=type.description,
        queue=type.queue,
        default_priority=PRIORITY_LABELS[type.default_priority],
        max_retries=type.max_retries,
        backoff=type.backoff,
        lease_seconds=type.lease_seconds,
        timeout_seconds=type.timeout_seconds,
        payload_schema=None if type.payload_schema is None else Raw(type.payload_schema),
        payload_schema_disabled=schema_disabled,
        max_payload_bytes=type.max_payload_bytes,
        idempotent=type.idempotent,
        paused=type.paused,
        created_at=instant(type.created_at),
        updated_at=instant(type.updated_at),
    )
