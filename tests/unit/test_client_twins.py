"""The blocking and the awaiting client are one interface: same names, same signatures, same requests."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from rota.client import work
from rota.client.aio import AsyncClient
from rota.client.client import Client
from rota.client.jobs import JobSpec
from rota.client.protocol import Answer, Call, Trouble
from rota.client.transport import HttpTransport
from rota.client.worker import Worker, WorkerOptions
from rota.errors import Unavailable

UUID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclasses.dataclass
class Held:
    id: int = 7
    lease_token: str = "00" * 16


VALUES: dict[str, Any] = {
    "action": "replay",
    "atomic": True,
    "beats": [],
    "dry_run": True,
    "error": "it broke",
    "handlers": [],
    "held": Held(),
    "host": "host",
    "id": 7,
    "instance": "one",
    "job": "mail.send",
    "jobs": [JobSpec("mail.send", {"to": "ada"})],
    "key_id": "k1",
    "limit": 3,
    "name": "mail.send",
    "outcomes": [work.outcome(Held(), result=1)],
}
"""What a method is called with; the others of its parameters keep their defaults."""


class Recorded(Exception):
    """Carries the request out of the client that was about to send it."""

    def __init__(self, call: Call[Any], body: bytes | None) -> None:
        self.request = (call.method, call.path, UUID.sub(b"uuid", body or b""))


class Recorder:
    where = "nowhere"

    def exchange(self, call: Call[Any], body: bytes | None) -> Answer | Trouble:
        raise Recorded(call, body)

    def close(self) -> None: ...


class AsyncRecorder:
    where = "nowhere"

    async def exchange(self, call: Call[Any], body: bytes | None) -> Answer | Trouble:
        raise Recorded(call, body)

    async def close(self) -> None: ...


def methods(client: object) -> dict[str, Callable[..., Any]]:
    """Every public method, those of ``types``, ``tokens`` and their like included."""
    found = {}
    for name, value in inspect.getmembers(client):
        if name.startswith("_") or name in {"send", "close", "url"}:
            continue
        if callable(value):
            found[name] = value
        else:
            found |= {f"{name}.{each}": method for each, method in methods(value).items()}
    return found


BLOCKING = methods(Client(transport=Recorder()))
AWAITING = methods(AsyncClient(transport=AsyncRecorder()))


def request_of(method: Callable[..., Any]) -> tuple[str, str, bytes]:
    """What calling a method sends."""
    wanted = [
        name
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    ]

    async def awaited() -> None:
        answer = method(**{name: VALUES[name] for name in wanted})
        if inspect.isasyncgen(answer):
            await anext(answer)
        elif inspect.isgenerator(answer):
            next(answer)
        elif inspect.isawaitable(answer):
            await answer

    with pytest.raises(Recorded) as recorded:
        asyncio.run(awaited())
    return recorded.value.request


def test_both_have_the_same_methods_with_the_same_parameters() -> None:
    def shapes(found: dict[str, Callable[..., Any]]) -> dict[str, Any]:
        return {name: inspect.signature(method).parameters for name, method in found.items()}

    assert shapes(BLOCKING) == shapes(AWAITING)


@pytest.mark.parametrize("name", sorted(AWAITING))
def test_both_send_the_same_request(name: str) -> None:
    assert request_of(BLOCKING[name]) == request_of(AWAITING[name])


class Flaky:
    """Breaks the connection until the last try."""

    where = "nowhere"

    def __init__(self, failures: list[Answer | Trouble]) -> None:
        self.failures = failures
        self.bodies: list[bytes | None] = []

    def exchange(self, call: Call[Any], body: bytes | None) -> Answer | Trouble:
        self.bodies.append(body)
        return self.failures.pop(0) if self.failures else Answer(204, {}, b"")

    def close(self) -> None: ...


def test_the_blocking_client_repeats_a_claim_as_a_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    transport = Flaky([Trouble.BROKEN, Answer(503, {"retry-after": "1"}, b"")])
    assert Client(transport=transport).claim(types=["mail.send"]) is None
    first, *again = [body or b"" for body in transport.bodies]
    assert b'"repeat":true' not in first
    assert len(again) == 2
    assert all(b'"repeat":true' in body for body in again)


def test_the_blocking_client_gives_up_after_its_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    transport = Flaky([Trouble.NOT_SENT] * 9)
    with pytest.raises(Unavailable, match="nowhere: the server cannot be reached"):
        Client(transport=transport, tries=3).get(7)
    assert len(transport.bodies) == 3


def test_a_server_that_is_not_there_is_trouble_and_no_exception() -> None:
    transport = HttpTransport("http://127.0.0.1:1", "rota_a_b", 1.0, False)
    assert transport.exchange(Call("GET", "/jobs", lambda _: None), None) is Trouble.NOT_SENT
    transport.close()


def test_the_options_of_a_worker_are_its_keywords() -> None:
    keywords = {
        name
        for name, parameter in inspect.signature(Worker).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert keywords - {"connect", "insecure_http"} == set(WorkerOptions.__annotations__)
