"""How each call may be refused, and which headers its answers carry, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rota.api.meta import advice
from rota.api.route import Route
from rota.api.vocabulary import FIELDS
from rota.errors import BY_CODE, BY_STATUS, StartError

_ANY_CALL: Final = frozenset({400, 408, 422, 429, 431, 500, 503})
_GUARDED: Final = frozenset({401, 403})
_WITH_BODY: Final = frozenset({413, 415})

CONFLICTS: Final = frozenset(
    {
        ("POST", "/jobs/{id}/complete"),
        ("POST", "/jobs/{id}/fail"),
        ("POST", "/jobs/{id}/heartbeat"),
        ("POST", "/jobs/{id}/release"),
        ("POST", "/jobs/{id}/cancel"),
        ("POST", "/jobs/{id}/replay"),
        ("PATCH", "/jobs/{id}"),
        ("DELETE", "/jobs/{id}"),
        ("PUT", "/queues/{name}"),
        ("PUT", "/types/{name}"),
        ("PUT", "/workers/{instance}"),
        ("POST", "/tokens"),
        ("POST", "/tokens/{key_id}/rotate"),
    }
)
"""Calls that depend on a state that others change, or on room that others take."""

HEADERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "X-Request-Id": {
        "description": "The id of this request in the server's log: the caller's own, or a new one.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
    },
    "Retry-After": {
        "description": "After how many seconds to try again.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "WWW-Authenticate": {"description": "The scheme: Bearer.", "schema": {"type": "string"}},
    "Location": {"description": "Where it is now.", "schema": {"type": "string"}},
    "Idempotency-Replayed": {
        "description": "The job was there already: nothing was made.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "Idempotency-Mismatch": {
        "description": "The job that was there has another type or payload: look for a fault of yours.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}

_OF_REFUSALS: Final = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
_OF_ANSWERS: Final = {
    ("POST", "/jobs", 201): ("Location",),
    ("POST", "/jobs", 200): ("Idempotency-Replayed", "Idempotency-Mismatch"),
    ("PUT", "/types/{name}", 201): ("Location",),
    ("PUT", "/queues/{name}", 201): ("Location",),
    ("GET", "/", 302): ("Location",),
}


_TRACE: Final = {
    "traceparent": {
        "type": "string",
        "description": "The trace to go on with, in the form of the W3C; anything else is ignored.",
        "examples": ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
    }
}
SENT_WITH: Final[Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]] = {
    ("POST", "/jobs"): {
        "Idempotency-Key": {
            **FIELDS["idempotency_key"],
            "type": "string",
            "description": "The same as the field idempotency_key: the same key never makes a second job.",
        },
        **_TRACE,
    },
    ("POST", "/jobs/batch"): _TRACE,
}
"""The headers that a request may bring."""


def statuses(route: Route) -> list[int]:
    """Every status that the route may be refused with."""
    found = set(_ANY_CALL)
    if (
        not route.public or "{" in route.path
    ):  # an odd way to write a segment leads nowhere, and that is guarded
        found |= _GUARDED
    if route.path == "/health/ready":
        found.add(401)  # a token is not needed, but a wrong one is not ignored
    if "{" in route.path:
        found.add(404)
    if route.body is not None:
        found |= _WITH_BODY
    if (route.method, route.path) in CONFLICTS:
        found.add(409)
    return sorted(found)


def headers_of_refusal(status: int) -> tuple[str, ...]:
    return ("X-Request-Id", *_OF_REFUSALS.get(status, ()))


def headers_of_answer(route: Route, status: int) -> tuple[str, ...]:
    return ("X-Request-Id", *_OF_ANSWERS.get((route.method, route.path, status), ()))


def explained(status: int) -> str:
    """The codes that stand behind a status, and what to do about each."""
    kinds = [kind for kind in BY_CODE.values() if kind.status == status and kind is not StartError]
    return "\n".join(
        f"- [`{kind.code}`](/problems/{kind.code}): {kind.title}. {advice(kind)}" for kind in kinds
    )


def title(status: int) -> str:
    """What the general error of a status is called, such as ``NotFound``."""
    return "InternalError" if status == 500 else BY_STATUS[status].__name__


def example(status: int) -> dict[str, Any]:
    """A problem of this status."""
    kind = BY_STATUS[status]
    return {
        "type": f"/problems/{kind.code}",
        "title": kind.title,
        "status": status,
        "detail": advice(kind),
        "request_id": "0becc11f00000006",
    }
