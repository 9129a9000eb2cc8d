"""The parameters of query strings, and the cursors that lists hand out."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.api.bodies import not_yet
from rota.domain.access import Principal, Scope
from rota.domain.job import STATUSES
from rota.errors import Forbidden, ValidationFailed
from rota.services.fields import instant_of
from rota.store.base import JobFilter
from rota.wire_admin import ActionFilter

MAX_ID: Final = 2**63 - 1
Limit = Annotated[int, Meta(ge=1, le=200, description="How many items the answer may hold.")]
Cursor = Annotated[str, Meta(description="The next_cursor of the answer before.")]


class Query(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a route."""


class PageQuery(Query):
    limit: Limit = 50
    cursor: Cursor | None = None


class JobsQuery(PageQuery, kw_only=True):
    status: Annotated[str, Meta(description="One or more states, separated by commas.")] | None = None
    type: str | None = None
    queue: str | None = None
    key: Annotated[str, Meta(description="Not available yet.")] | None = None
    schedule_id: Annotated[int, Meta(ge=0, le=MAX_ID)] | None = None
    tag: Annotated[str, Meta(description="Not available yet.")] | None = None
    q: Annotated[str, Meta(min_length=1, max_length=200, description="Text in payload or error.")] | None = (
        None
    )
    created_after: Annotated[str, Meta(description="An RFC 3339 instant.")] | None = None
    created_before: Annotated[str, Meta(description="An RFC 3339 instant.")] | None = None


class JobQuery(Query):
    wait_seconds: Annotated[
        float, Meta(ge=0, le=60, description="Answer when the job has ended, or after so many seconds.")
    ] = 0


class EnqueueBatchQuery(Query):
    atomic: Annotated[bool, Meta(description="Store all jobs or none.")] = False


def job_filter(query: JobsQuery | ActionFilter, principal: Principal) -> JobFilter:
    """What the list is narrowed to. Raises ValidationFailed; Forbidden for a search without detail:read."""
    for name in ("key", "tag"):
        if getattr(query, name) is not None:
            raise not_yet(name)
    if query.q is not None and not principal.may(Scope.DETAIL_READ):
        raise Forbidden("searching the contents of jobs (q) needs the scope detail:read")
    return JobFilter(
        statuses=None if query.status is None else _statuses(query.status),
        type=query.type,
        queue=query.queue,
        schedule_id=query.schedule_id,
        text=query.q,
        created_after=_instant(query.created_after, "created_after"),
        created_before=_instant(query.created_before, "created_before"),
    )


def _instant(text: str | None, field: str) -> int | None:
    return None if text is None else instant_of(text, field)


def _statuses(text: str) -> frozenset[str]:
    statuses = frozenset(text.split(","))
    if not statuses <= frozenset(STATUSES):
        dead = "; dead letters are failed" if "dead" in text else ""
        raise ValidationFailed.of("status", "unknown-status", f"must be some of {', '.join(STATUSES)}{dead}")
    return statuses


def cursor_of(kind: str, position: int) -> str:
    """An opaque cursor: lists of another ``kind`` refuse it."""
    return base64.urlsafe_b64encode(f"{kind}.{position}".encode()).rstrip(b"=").decode()


def position_of(kind: str, cursor: str | None) -> int | None:
    """The position a cursor of ``kind`` stands for. Raises ValidationFailed for anything else."""
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    found, _, position = text.partition(".")
    if found == kind and position.isdecimal() and len(position) <= 19 and int(position) <= MAX_ID:
        return int(position)
    raise ValidationFailed.of("cursor", "not-a-cursor", "must be the next_cursor of this very list's answer")
