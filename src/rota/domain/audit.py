"""What the audit keeps of a change: who, when, from where, what; never a secret.

The names of the fields that a change touched are always kept. Their values are kept only for the fields
in :data:`SHOWN`, so that a field nobody thought of cannot carry a payload, a password or a key into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

SHOWN: Final = frozenset(
    {
        # of jobs and of bulk actions; the filter of a bulk action stands as filter.<name>
        *("status", "cancel_requested", "priority", "run_at", "done"),
        *("lowest_id", "highest_id"),
        *("filter.statuses", "filter.type", "filter.queue", "filter.schedule_id"),
        *("filter.created_after", "filter.created_before"),
        # of types and queues
        *("queue", "default_priority", "max_retries", "backoff", "lease_seconds", "timeout_seconds"),
        *("max_payload_bytes", "paused", "idempotent", "retention", "retention_seconds", "retention_days"),
        # of tokens
        *("name", "scopes", "max_priority", "types", "queues", "schedules", "groups", "services", "flows"),
        *("open_api_only", "rate_limit_per_minute", "expires_at", "grace_seconds", "leases_taken_back"),
        # of offline commands
        *("with_secrets", "keep_tokens", "tokens_suspended", "tokens_revoked", "jobs", "taken_at"),
    }
)
"""The fields whose values may be kept. ``q``, descriptions, schemas and keys are named only."""

MAX_VALUES: Final = 20
"""Entries of a list that are kept; a longer one ends with the number of those left out."""


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the audit. Its fields stand in the order of the table's columns."""

    id: int
    at: int
    actor_kind: str
    """``token``, ``server``, ``command`` (an offline one) or ``local``."""
    actor_id: str
    actor_name: str | None
    address: str | None
    """The socket's peer, or what a trusted proxy says."""
    request_id: str | None
    action: str
    """Such as ``job.cancel``; ``request`` for a refused one."""
    object_kind: str
    object_id: str | None
    fields: list[str]
    values: dict[str, Any]
    outcome: str
    """``done`` or ``refused``."""
    times: int
    """How often within a minute; only refusals are counted together."""


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list is narrowed to; None does not narrow. ``since`` is included, ``until`` is not."""

    actor: str | None = None
    """A token's id or name."""
    action: str | None = None
    object_kind: str | None = None
    object_id: str | None = None
    since: int | None = None
    until: int | None = None


class AuditPage(msgspec.Struct, frozen=True):
    records: list[AuditRecord]
    next_before: int | None
    """Ask again with ``before`` set to this id; None at the end. A page may be short and still have one."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one principal to one route that were answered with 403, counted together."""

    actor_id: str
    actor_name: str | None
    address: str | None
    request_id: str | None
    route: str
    """Method and template, such as ``POST /jobs/{id}/cancel``; never the path itself."""
    times: int


class Seal(NamedTuple):
    """Proof that the rows up to ``last_id`` are as they were when it was made."""

    last_id: int
    records: int
    """How many rows it covers beyond those of the seal before it."""
    at: int
    key_id: str
    seal: bytes


Sealer = Callable[[bytes | None, Sequence[AuditRecord]], tuple[str, bytes]]
"""Given the seal before (None for the first) and the rows that follow it: the key's id and their seal."""


def shown(changed: Mapping[str, object]) -> dict[str, object]:
    """The values that may be kept, with sets sorted and long lists cut."""
    return {name: _short(value) for name, value in sorted(changed.items()) if name in SHOWN}


def differences(
    before: msgspec.Struct | None, after: msgspec.Struct, *, apart: frozenset[str]
) -> dict[str, Any]:
    """The fields of ``after`` that differ from ``before``, or all without one, save for ``apart``."""
    return {
        name: getattr(after, name)
        for name in after.__struct_fields__
        if name not in apart and (before is None or getattr(before, name) != getattr(after, name))
    }


def _short(value: object) -> object:
    if isinstance(value, (set, frozenset, list, tuple)):
        names = sorted(str(each) for each in value)
        more = len(names) - MAX_VALUES
        return names if more <= 0 else [*names[:MAX_VALUES], f"and {more} more"]
    return value
