"""The calls about tokens."""

from __future__ import annotations

from rota.api.call import Answer, Call
from rota.wire import NoFields, Page, RotateRequest, TokenRequest


async def create_token(call: Call, asked: TokenRequest) -> Answer:
    return Answer(201, await call.services.tokens.create(call.principal, asked, call.actor))


async def list_tokens(call: Call, _: None) -> Answer:
    return Answer(200, Page(await call.services.tokens.list(call.principal)))


async def rotate_token(call: Call, asked: RotateRequest) -> Answer:
    rotated = await call.services.tokens.rotate(call.principal, call.name, asked.grace_seconds, call.actor)
    return Answer(200, rotated)


async def resume_token(call: Call, _: NoFields) -> Answer:
    return Answer(200, await call.services.tokens.resume(call.principal, call.name, call.actor))


async def revoke_token(call: Call, _: NoFields) -> Answer:
    return Answer(200, await call.services.tokens.revoke(call.principal, call.name, call.actor))
