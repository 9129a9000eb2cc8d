"""What the attacks look at afterwards: what was stored, and what an answer gives away."""

from __future__ import annotations

import re
from typing import Any

import httpx2

from rota.problems import SECURITY_HEADERS
from tests.live_server import Api, LiveServer, created, fresh

_INSIDE = re.compile(
    r"Traceback|site-packages|\.py\b|\bline \d+, in |sqlite|rota_(?:jobs|types|tokens|facts|pulse)"
    r"|\b(?:SELECT .* FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM)\b|(?:/home|/root|/tmp|/var|/usr|/work)/",
    re.IGNORECASE,
)
SECRET_FIELDS = ("payload", "result", "error", "idempotency_key")


def jobs_of(server: LiveServer, type: str) -> list[dict[str, Any]]:
    """Every job of a type as the administrator sees it, newest first."""
    answer = server.admin.get("/jobs", type=type, limit="200")
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def database(server: LiveServer) -> bytes:
    """All bytes that the database has written to disk, its write-ahead log included."""
    return b"".join(file.read_bytes() for file in sorted(server.data.glob("rota.db*")))


def named(server: LiveServer, preset: str, **fields: Any) -> tuple[Api, dict[str, Any]]:
    """A client with a new token, and what ``POST /tokens`` says about it."""
    made = created(server.admin.post("/tokens", {"name": fresh("token"), "preset": preset, **fields}))
    return server.api(made["token"]), made


def check_answer(server: LiveServer, answer: httpx2.Response) -> None:
    """Every answer carries the security headers and a request id; a refusal tells nothing of the inside."""
    for name, value in SECURITY_HEADERS:
        if name == b"content-security-policy":
            assert "frame-ancestors 'none'" in answer.headers[name.decode()], answer.request.url
        else:
            assert answer.headers[name.decode()] == value.decode(), answer.request.url
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", answer.headers["x-request-id"])
    assert "server" not in answer.headers
    assert answer.status_code < 500, (answer.request.url, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert _INSIDE.search(answer.text) is None, answer.text
        assert str(server.data) not in answer.text


def shown(job: dict[str, Any]) -> set[str]:
    """Which of the guarded fields an answer shows."""
    found = {field for field in SECRET_FIELDS if job[field] is not None}
    if job["progress"] is not None and job["progress"]["message"] is not None:
        found.add("progress message")
    return found
