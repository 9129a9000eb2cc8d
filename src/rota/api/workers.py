"""The calls about workers and their handlers."""

from __future__ import annotations

from rota.api.call import Answer, Call
from rota.api.queries import PageQuery, cursor_of, position_of
from rota.wire import NoFields, Page
from rota.wire_admin import AnnouncedAnswer, AnnounceRequest


async def announce(call: Call, asked: AnnounceRequest) -> Answer:
    draining = await call.services.workers.announce(call.principal, call.name, asked)
    return Answer(200, AnnouncedAnswer(draining))


async def list_workers(call: Call, _: None) -> Answer:
    query: PageQuery = call.query
    before = position_of("workers", query.cursor)
    found = await call.services.workers.page(call.principal, limit=query.limit, before=before)
    more = cursor_of("workers", found[-1][0]) if len(found) == query.limit else None
    return Answer(200, Page([answer for _, answer in found], more))


async def drain(call: Call, _: NoFields) -> Answer:
    return Answer(200, await call.services.workers.drain(call.principal, call.id, call.actor))


async def list_handlers(call: Call, _: None) -> Answer:
    query: PageQuery = call.query
    skipped = position_of("handlers", query.cursor) or 0
    found = await call.services.workers.handlers(call.principal, limit=query.limit, skipped=skipped)
    more = cursor_of("handlers", skipped + len(found)) if len(found) == query.limit else None
    return Answer(200, Page(found, more))
