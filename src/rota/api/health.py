"""Whether the server lives and whether it can work, open to everybody in one word; and its metrics."""

from __future__ import annotations

from typing import Final

from rota.api.call import METRICS, Answer, Call
from rota.domain.access import Scope
from rota.services.health import is_ready
from rota.wire import HealthAnswer

_ALIVE: Final = Answer(200, HealthAnswer("ok"))


async def live(_: Call, __: None) -> Answer:
    return _ALIVE


async def ready(call: Call, _: None) -> Answer:
    checks = await call.services.health.checks()
    answer = HealthAnswer("ok" if is_ready(checks) else "unavailable")
    token = call.headers.get(b"authorization")
    if token is not None:
        principal = await call.services.authenticator.look_up(token, call.address)
        if principal.may(Scope.METRICS_READ):
            answer.checks = checks
    return Answer(200 if is_ready(checks) else 503, answer)


async def metrics(call: Call, _: None) -> Answer:
    return Answer(200, await call.services.measures.page(), media=METRICS)
