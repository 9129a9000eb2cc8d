"""Judges what a producer asks for, and makes of it a job that can be stored."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from itertools import count
from typing import Final, TypedDict

from msgspec import UNSET

from rota.clock import Clock
from rota.domain.access import Principal
from rota.domain.job import DEFAULT_QUEUE, MAX_RETRIES, NewJob
from rota.domain.names import NAME, RESERVED_PREFIX
from rota.errors import FieldError, Forbidden, ValidationFailed
from rota.services.fields import instant_of, out_of_range, parse_priority, parse_timeout, within
from rota.services.payloads import check_json
from rota.services.types import Types
from rota.wire import EnqueueRequest
from rota.wire_admin import ChangeRequest

MAX_AHEAD_SECONDS: Final = 3_650 * 86_400
"""Ten years: no job is delayed further."""

_KEY = re.compile(r"[ -~]{1,255}")
_sequence = count(int.from_bytes(os.urandom(7)))


class Intake:
    """Everything that is decided about a job before it reaches the store."""

    def __init__(self, types: Types, clock: Clock) -> None:
        self._types = types
        self._clock = clock

    def admit(
        self,
        principal: Principal,
        asked: EnqueueRequest,
        key: str | None = None,
        traceparent: str | None = None,
    ) -> NewJob:
        """The job to store; ``key`` is that of the Idempotency-Key header, ``traceparent`` a valid one.

        Raises Forbidden when the type, queue or priority lies beyond the principal's rights, and
        ValidationFailed for everything else that is wrong.
        """
        name, queue, grant = asked.type, asked.queue, principal.grant
        if name.startswith(RESERVED_PREFIX):
            raise _forbidden("type", "reserved", "types named rota.… belong to the server")
        if grant.types is not None and name not in grant.types:
            raise out_of_range([name], grant.types, "type")
        type = self._types.get(name)
        if queue is None and type is not None:
            queue = type.queue
        if queue is not None and grant.queues is not None and queue not in grant.queues:
            raise out_of_range([queue], grant.queues, "queue")
        if type is None or queue is None:
            raise unknown_type(name, "type", self._types, principal)
        if queue != type.queue and queue != DEFAULT_QUEUE and queue not in self._types.queues():
            raise ValidationFailed.of(
                "queue",
                "unknown-queue",
                "must be default, a queue that a type names, or one made by PUT /queues/{name}",
            )
        if asked.priority is None:
            priority = min(type.default_priority, grant.max_priority)
        else:
            priority = parse_priority(asked.priority, "priority")
            principal.require_priority(priority)
        payload = bytes(asked.payload)
        check_json(payload, type.max_payload_bytes, "payload")
        self._types.check_payload(type, payload)
        now = self._clock.now()
        return NewJob(
            queue=queue,
            type=name,
            priority=priority,
            producer=principal.id,
            payload=payload,
            max_retries=type.max_retries if asked.max_retries is None else _retries(asked.max_retries),
            request_uid=_new_uid(now) if asked.request_uid is None else asked.request_uid.bytes,
            run_at=None if asked.run_at is None else _run_at(asked, now),
            delay_seconds=None if asked.delay_seconds is None else _delay(asked.delay_seconds),
            idempotency_key=(
                None
                if key is None and asked.idempotency_key is None
                else _one_key(key, asked.idempotency_key)
            ),
            timeout_seconds=(
                type.timeout_seconds
                if asked.timeout_seconds is None
                else parse_timeout(asked.timeout_seconds)
            ),
            traceparent=traceparent,
        )

    def change_of(self, principal: Principal, asked: ChangeRequest) -> Change:
        """What to change of a pending job. Raises ValidationFailed, and Forbidden above the ceiling."""
        change = Change()
        if asked.priority is UNSET and asked.run_at is UNSET:
            raise ValidationFailed.of("body", "empty", "give priority, run_at or both")
        if asked.priority is not UNSET:
            change["priority"] = parse_priority(asked.priority, "priority")
            principal.require_priority(change["priority"])
        if asked.run_at is not UNSET:
            change["reschedule"] = True
            change["run_at"] = None if asked.run_at is None else _moment(asked.run_at, self._clock.now())
        return change


class Change(TypedDict, total=False):
    """The arguments of :meth:`rota.store.base.Store.change` that are given."""

    priority: int
    run_at: int | None
    reschedule: bool


def _run_at(asked: EnqueueRequest, now: int) -> int:
    assert asked.run_at is not None
    if asked.delay_seconds is not None:
        raise ValidationFailed.of("run_at", "exclusive", "give run_at or delay_seconds, not both")
    return _moment(asked.run_at, now)


def _moment(text: str, now: int) -> int:
    run_at = instant_of(text, "run_at")
    if run_at > now + MAX_AHEAD_SECONDS * 1000:
        raise ValidationFailed.of("run_at", "out-of-range", "must lie within the next ten years")
    return run_at


def unknown_type(name: str, field: str, types: Types, principal: Principal) -> ValidationFailed:
    """What a type that nobody has declared is answered with; a near one is named if it is in range."""
    if not NAME.fullmatch(name):
        return ValidationFailed.of(field, "unknown-type", "there is no such type: it cannot be a type's name")
    grant = principal.grant
    known = [each.name for each in types.known() if grant.admits(each.queue, each.name)]
    near = get_close_matches(name, known, 1)
    meant = f"Did you mean {near[0]}?" if near else f"Declare it first: PUT /types/{name}."
    return ValidationFailed.of(field, "unknown-type", f"the type {name} is not declared. {meant}")


def _forbidden(field: str, code: str, message: str) -> Forbidden:
    return Forbidden(message, errors=[FieldError(field, code, message)])


def _retries(asked: int) -> int:
    within(asked, 0, MAX_RETRIES, "max_retries")
    return asked


def _delay(asked: float) -> float:
    return within(asked, 0, MAX_AHEAD_SECONDS, "delay_seconds")


def _one_key(header: str | None, field: str | None) -> str:
    if header is not None and field is not None and header != field:
        raise ValidationFailed.of(
            "idempotency_key",
            "differs-from-header",
            "differs from the header Idempotency-Key; send one of them",
        )
    key = field if header is None else header
    if key is None or not _KEY.fullmatch(key):
        raise ValidationFailed.of(
            "idempotency_key", "not-a-key", "must be 1 to 255 printable ASCII characters"
        )
    return key


def _new_uid(now: int) -> bytes:
    """A UUID of version 7, unique in this process by a counter and among processes by its random start.

    It grows with time, so that the index of request_uids grows at its end and not all over the disk.
    """
    tail = next(_sequence) & 0x3FFF_FFFF_FFFF_FFFF
    return (now << 80 | 0x7000_8000_0000_0000_0000 | tail).to_bytes(16)
