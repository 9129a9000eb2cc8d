"""Judges what workers ask for: claims, outcomes and signs of life. Texts are cleaned afterwards."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import UNSET

from rota.domain.access import Principal
from rota.domain.job import (
    MAX_DELAY_SECONDS,
    MAX_LEASE_SECONDS,
    MAX_PAYLOAD_BYTES,
    MIN_LEASE_SECONDS,
    Beat,
    Claim,
    Finish,
    Progress,
)
from rota.domain.names import NAME, RESERVED_PREFIX
from rota.domain.transitions import NOT_HELD
from rota.errors import Forbidden, JobNotHeld, ValidationFailed
from rota.services.fields import out_of_range, require_label, within
from rota.services.intake import unknown_type
from rota.services.payloads import check_json
from rota.services.types import Types
from rota.wire import (
    ClaimBatchRequest,
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    OutcomeRequest,
    ReleaseRequest,
)

MAX_WAIT_SECONDS: Final = 60
MAX_CLAIM: Final = 1_000
MAX_NAMES: Final = 100

_LEASE_TOKEN = re.compile(r"[0-9a-fA-F]{32}")
_INT64 = 2**63

_BESIDE: Final = {
    "complete": ("error", "retryable", "retry_in_seconds", "snooze_seconds", "started"),
    "fail": ("result", "snooze_seconds", "started"),
    "release": ("result", "error", "retryable", "retry_in_seconds"),
}
"""Fields of a batch entry that have no meaning for its outcome."""


def claim_of(types: Types, principal: Principal, asked: ClaimRequest) -> Claim:
    """The claim to make for the principal; raises Forbidden and ValidationFailed."""
    limit = 1
    if isinstance(asked, ClaimBatchRequest):
        limit = asked.limit
        within(limit, 1, MAX_CLAIM, "limit")
    within(asked.wait_seconds, 0, MAX_WAIT_SECONDS, "wait_seconds")
    worker_id = principal.name
    if asked.instance is not None:
        require_label(asked.instance, "instance")
        worker_id = f"{principal.name}/{asked.instance}"
    return Claim(
        owner=principal.id,
        worker_id=worker_id,
        limit=limit,
        types=_served_types(types, principal, asked.types),
        queues=_served(asked.queues, principal.grant.queues, "queues"),
        lease_seconds=_lease(asked.lease_seconds),
        claim_id=None if asked.claim_id is None else asked.claim_id.bytes,
        repeat=asked.repeat,
    )


def _served_types(types: Types, principal: Principal, asked: list[str] | None) -> frozenset[str] | None:
    served = _served(asked, principal.grant.types, "types")
    if asked is not None:
        for name in asked:
            if name.startswith(RESERVED_PREFIX):
                raise Forbidden("types named rota.… belong to the server")
            if types.get(name) is None:
                raise unknown_type(name, "types", types, principal)
    return served


def _served(asked: list[str] | None, own: AbstractSet[str] | None, field: str) -> frozenset[str] | None:
    """The names asked for, all of them within the principal's ``own`` range; else the range itself."""
    if asked is None:
        return None if own is None else frozenset(own)
    if not asked:
        raise ValidationFailed.of(field, "empty", "names nothing; leave it out to serve all you may")
    if len(asked) > MAX_NAMES:
        raise ValidationFailed.of(field, "too-many", f"names more than {MAX_NAMES}")
    names = frozenset(asked)
    if own is not None and not names <= own:
        raise out_of_range(names, own, field)
    for name in names:
        if not NAME.fullmatch(name):
            raise ValidationFailed.of(field, "not-a-name", "must hold names such as reports or mail.send")
    return names


def _lease(asked: float | None) -> float | None:
    if asked is None:
        return None
    return within(asked, MIN_LEASE_SECONDS, MAX_LEASE_SECONDS, "lease_seconds")


def _wait(asked: float | None, field: str) -> float | None:
    return None if asked is None else within(asked, 0, MAX_DELAY_SECONDS, field)


def lease_token_of(text: str) -> bytes:
    """The lease token behind its 32 hex digits. Anything else is held by nobody: JobNotHeld."""
    if not _LEASE_TOKEN.fullmatch(text):
        raise JobNotHeld(NOT_HELD)
    return bytes.fromhex(text)


def _require_id(id: int) -> None:
    if not 0 <= id < _INT64:
        raise ValidationFailed.of("id", "out-of-range", "must be the id of a job")


def _result(text: bytes) -> bytes | None:
    if text == b"null":
        return None
    check_json(text, MAX_PAYLOAD_BYTES, "result")
    return text


def completion_of(principal: Principal, id: int, asked: CompleteRequest) -> Finish:
    """Raises ValidationFailed for a result that cannot be stored (the job keeps running), JobNotHeld."""
    result = _result(bytes(asked.result))
    return Finish(id, principal.id, lease_token_of(asked.lease_token), "complete", result=result)


def failure_of(principal: Principal, id: int, asked: FailRequest) -> Finish:
    """Raises ValidationFailed, JobNotHeld."""
    delay = _wait(asked.retry_in_seconds, "retry_in_seconds")
    return Finish(
        id,
        principal.id,
        lease_token_of(asked.lease_token),
        "fail",
        error=asked.error,
        retryable=asked.retryable,
        delay_seconds=delay,
    )


def release_of(principal: Principal, id: int, asked: ReleaseRequest) -> Finish:
    """Raises ValidationFailed, JobNotHeld."""
    snooze = _wait(asked.snooze_seconds, "snooze_seconds")
    return Finish(id, principal.id, lease_token_of(asked.lease_token), "release", delay_seconds=snooze)


def ending_of(principal: Principal, asked: OutcomeRequest) -> Finish:
    """One entry of a batch. Raises ValidationFailed, JobNotHeld."""
    _require_id(asked.id)
    for name in _BESIDE[asked.outcome]:
        if getattr(asked, name) is not UNSET:
            raise ValidationFailed.of(name, "not-allowed", f"has no meaning beside outcome {asked.outcome}")
    if asked.outcome == "complete":
        result = None if asked.result is UNSET else _result(bytes(asked.result))
        return Finish(asked.id, principal.id, lease_token_of(asked.lease_token), "complete", result=result)
    if asked.outcome == "fail":
        failure = FailRequest(
            lease_token=asked.lease_token,
            error="" if asked.error is UNSET else asked.error,
            retryable=True if asked.retryable is UNSET else asked.retryable,
            retry_in_seconds=None if asked.retry_in_seconds is UNSET else asked.retry_in_seconds,
        )
        return failure_of(principal, asked.id, failure)
    snooze = None if asked.snooze_seconds is UNSET else asked.snooze_seconds
    return release_of(
        principal, asked.id, ReleaseRequest(lease_token=asked.lease_token, snooze_seconds=snooze)
    )


def beat_of(principal: Principal, id: int, asked: HeartbeatRequest) -> Beat:
    """Raises ValidationFailed, JobNotHeld."""
    _require_id(id)
    progress = None
    if asked.progress is not None:
        progress = Progress(
            asked.progress.current,
            asked.progress.total,
            asked.progress.message,
        )
    return Beat(
        id,
        principal.id,
        lease_token_of(asked.lease_token),
        lease_seconds=_lease(asked.lease_seconds),
        started=asked.started,
        progress=progress,
        log=asked.log or None,
    )
