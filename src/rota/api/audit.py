"""The call about the audit."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rota.api.call import Answer, Call
from rota.api.queries import PageQuery, cursor_of, position_of
from rota.domain.audit import AuditFilter, AuditRecord
from rota.services.fields import instant_of
from rota.wire import Page, instant

Text = Annotated[str, Meta(min_length=1, max_length=200)]


class AuditQuery(PageQuery, kw_only=True, rename={"since": "from", "until": "to"}):
    actor: Annotated[Text, Meta(description="The name or id of who acted.")] | None = None
    action: Annotated[Text, Meta(description="Such as job.cancel; request: refused ones.")] | None = None
    object: Annotated[Text, Meta(description="A kind, such as token, or kind:id.")] | None = None
    since: Annotated[str, Meta(description="An RFC 3339 instant; entries of then or later.")] | None = None
    until: Annotated[str, Meta(description="An RFC 3339 instant; entries before it.")] | None = None


class AuditActor(msgspec.Struct, frozen=True):
    """Who acted: a token, a server, or a command beside it."""

    kind: str
    id: str
    name: str | None


class AuditObject(msgspec.Struct, frozen=True):
    """What it was done to; without an id where it was many."""

    kind: str
    id: str | None


class AuditAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the audit. ``times`` is above 1 only for refusals that were counted together."""

    id: int
    at: str
    actor: AuditActor
    address: str | None
    request_id: str | None
    action: str
    object: AuditObject
    fields: list[str]
    values: dict[str, Any]
    outcome: str
    times: int


async def list_audit(call: Call, _: None) -> Answer:
    query: AuditQuery = call.query
    page = await call.services.audit.page(
        call.principal,
        _filter(query),
        limit=query.limit,
        before=position_of("audit", query.cursor),
    )
    cursor = None if page.next_before is None else cursor_of("audit", page.next_before)
    return Answer(200, Page([_answer(each) for each in page.records], cursor))


def _filter(query: AuditQuery) -> AuditFilter:
    kind, _, id = (query.object or "").partition(":")
    return AuditFilter(
        actor=query.actor,
        action=query.action,
        object_kind=kind or None,
        object_id=id or None,
        since=None if query.since is None else instant_of(query.since, "from"),
        until=None if query.until is None else instant_of(query.until, "to"),
    )


def _answer(record: AuditRecord) -> AuditAnswer:
    return AuditAnswer(
        id=record.id,
        at=instant(record.at),
        actor=AuditActor(kind=record.actor_kind, id=record.actor_id, name=record.actor_name),
        address=record.address,
        request_id=record.request_id,
        action=record.action,
        object=AuditObject(kind=record.object_kind, id=record.object_id),
        fields=record.fields,
        values=record.values,
        outcome=record.outcome,
        times=record.times,
    )
