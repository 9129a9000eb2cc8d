"""The calls about types of jobs."""

from __future__ import annotations

from rota.api.call import Answer, Call
from rota.wire import NoFields, Page, TypeRequest


async def list_types(call: Call, _: None) -> Answer:
    return Answer(200, Page(await call.services.types.list(call.principal)))


async def get_type(call: Call, _: None) -> Answer:
    return Answer(200, await call.services.types.show(call.principal, call.name))


async def put_type(call: Call, asked: TypeRequest) -> Answer:
    stored, created = await call.services.types.put(call.principal, call.name, asked, call.actor)
    if created:
        return Answer(201, stored, ((b"location", b"/types/" + call.name.encode()),))
    return Answer(200, stored)


async def delete_type(call: Call, _: None) -> Answer:
    await call.services.types.delete(call.principal, call.name, call.actor)
    return Answer(204)


async def pause_type(call: Call, _: NoFields) -> Answer:
    return Answer(200, await call.services.types.pause(call.principal, call.name, call.actor))


async def resume_type(call: Call, _: NoFields) -> Answer:
    return Answer(200, await call.services.types.resume(call.principal, call.name, call.actor))
