"""The calls about queues."""

from __future__ import annotations

from msgspec import UNSET

from rota.api.call import Answer, Call
from rota.wire import NoFields, Page
from rota.wire_admin import QueueRequest


async def list_queues(call: Call, _: None) -> Answer:
    return Answer(200, Page(await call.services.queues.list(call.principal)))


async def put_queue(call: Call, asked: QueueRequest) -> Answer:
    paused = None if asked.paused is UNSET else asked.paused
    stored, created = await call.services.queues.put(call.principal, call.name, paused, call.actor)
    if created:
        return Answer(201, stored, ((b"location", b"/queues"),))
    return Answer(200, stored)


async def pause_queue(call: Call, _: NoFields) -> Answer:
    return Answer(200, await call.services.queues.pause(call.principal, call.name, call.actor))


async def resume_queue(call: Call, _: NoFields) -> Answer:
    return Answer(200, await call.services.queues.resume(call.principal, call.name, call.actor))
