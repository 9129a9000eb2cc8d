"""How every refusal looks on the wire: ``application/problem+json`` and the headers around it.

Shared by the HTTP front, which refuses what never reaches the application, and by the web layer.
"""

from __future__ import annotations

import itertools
import re
import secrets

import msgspec

from rota.errors import RotaError

CONTENT_TYPE = b"application/problem+json"

SECURITY_HEADERS: list[tuple[bytes, bytes]] = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
"""Sent with every answer of the API and with every refusal."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_PREFIX = secrets.token_hex(4)
_counter = itertools.count(1)
_encoder = msgspec.json.Encoder()


def problem_body(error: RotaError, request_id: str) -> bytes:
    """The problem as JSON; ``errors`` is present only when the error names fields."""
    problem: dict[str, object] = {
        "type": f"/problems/{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "request_id": request_id,
    }
    if error.errors:
        problem["errors"] = [fault._asdict() for fault in error.errors]
    return _encoder.encode(problem)


def new_request_id() -> str:
    """An id of 16 characters, unique among the processes that write to one log."""
    return f"{_PREFIX}{next(_counter):08x}"


def accept_request_id(value: bytes) -> str | None:
    """The caller's own ``X-Request-Id`` if it is safe to log and to echo, else None."""
    return value.decode("ascii") if _REQUEST_ID.fullmatch(value) else None
