"""The ASGI application against faults that a real client cannot bring about at will."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rota import web
from rota.domain.access import Principal
from rota.settings import Settings
from rota.telemetry import Telemetry
from rota.web import Web, allowed_hosts, host_name
from tests.credentials import principal

SETTINGS = Settings(data=Path("unused"))


class Authenticator:
    def __init__(self, known: Principal) -> None:
        self._known = known

    def known(self, authorization: bytes | None) -> Principal | None:
        return self._known

    async def look_up(self, authorization: bytes | None, address: str) -> Principal:
        raise AssertionError("known is enough")


class Limits:
    def charge(self, principal: Principal, units: int = 1) -> None:
        return None


class BrokenQueue:
    async def enqueue(self, *_: object) -> None:
        raise RuntimeError("password=hunter2 in /etc/secret; SELECT 1")


class Counting:
    def __init__(self) -> None:
        self.telemetry = Telemetry()


class Services:
    """Lets everybody in; its queue is broken."""

    def __init__(self) -> None:
        self.authenticator = Authenticator(principal("jobs:enqueue"))
        self.limits = Limits()
        self.queue = BrokenQueue()
        self.store = Counting()


class Exchange:
    """One request to ``POST /jobs`` whose body arrives in the given messages."""

    def __init__(self, *messages: dict[str, Any], **headers: str) -> None:
        self._messages = list(messages)
        self.sent: list[dict[str, Any]] = []
        named = {
            "host": "localhost",
            "content-type": "application/json",
            "transfer-encoding": "chunked",
        } | headers
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": "/jobs",
            "raw_path": b"/jobs",
            "query_string": b"",
            "client": ("127.0.0.1", 5),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        }

    async def receive(self) -> dict[str, Any]:
        return self._messages.pop(0)

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def run(self, app: Web) -> int:
        await app(self.scope, self.receive, self.send)
        return self.sent[0]["status"] if self.sent else 0

    @property
    def body(self) -> bytes:
        return self.sent[1]["body"]  # type: ignore[no-any-return]


def body(content: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": content, "more_body": more}


@pytest.fixture
def app() -> Web:
    return Web(Services(), SETTINGS)  # type: ignore[arg-type]


async def test_an_unexpected_error_is_a_problem_that_tells_nothing_but_its_id(
    app: Web, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    exchange = Exchange(body(b'{"type":"a"}'))
    assert await exchange.run(app) == 500
    problem = json.loads(exchange.body)
    assert problem["type"] == "/problems/internal"
    printed = capsys.readouterr()
    # In-process mode, used by another test of this process, hands the log to the standard library.
    logged = printed.out + printed.err + caplog.text
    for text in (exchange.body.decode(), logged):
        assert "hunter2" not in text
        assert "SELECT" not in text
    assert problem["request_id"] in logged
    assert "RuntimeError" in logged


async def test_a_client_that_leaves_in_the_middle_of_its_body_gets_no_answer(app: Web) -> None:
    exchange = Exchange(body(b'{"type":', more=True), {"type": "http.disconnect"})
    assert await exchange.run(app) == 0


async def test_bodies_beyond_the_nodes_share_are_503(app: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_HELD_BYTES", 10)
    exchange = Exchange(body(b'{"type":', more=True), body(b'"abcdef"}'))
    assert await exchange.run(app) == 503
    monkeypatch.setattr(web, "MAX_HELD_BYTES", 17)
    assert await Exchange(body(b'{"type":', more=True), body(b'"abcdef"}')).run(app) == 500, (
        "all was given back"
    )


@pytest.mark.parametrize(
    ("host", "name"),
    [(b"LocalHost:80", "localhost"), (b"[::1]:80", "[::1]"), (b"a.b", "a.b"), (b"[::1", ""), (b":80", "")],
)
def test_a_host_is_compared_without_its_port(host: bytes, name: str) -> None:
    assert host_name(host) == name


def test_the_default_hosts_are_the_address_localhost_and_the_public_name() -> None:
    assert allowed_hosts(SETTINGS) == {"127.0.0.1", "[::1]", "localhost"}
    public = Settings(data=Path("unused"), host="10.0.0.5", public_url="https://Jobs.example.org:8443/")
    assert allowed_hosts(public) == {"10.0.0.5", "localhost", "jobs.example.org"}
    named = Settings(data=Path("unused"), allowed_hosts=("Rota.internal",))
    assert allowed_hosts(named) == {"rota.internal"}
