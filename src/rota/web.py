"""The ASGI application: who asks, may they, what do they send, what is answered.

The order of a request: host, token, scope, one unit of the rate limit, and only then the body; then the
handler. Every answer carries the security headers and an X-Request-Id; every refusal is a problem.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import msgspec
import structlog

from rota.api.bodies import body_reader, bounded_reader, no_query, query_reader, text_body_reader
from rota.api.call import HTML, JSON, METRICS, Answer, Call, Handler, Header, Receive
from rota.api.meta import PAGE_POLICY
from rota.api.route import BATCH_ITEMS, Needs, Route
from rota.api.routes import ROUTES
from rota.api.table import Table
from rota.domain.access import Grant, Principal
from rota.errors import (
    Forbidden,
    InternalError,
    Malformed,
    RotaError,
    TooLarge,
    Unavailable,
    UnsupportedMediaType,
)
from rota.openapi import documentation
from rota.problems import CONTENT_TYPE as PROBLEM
from rota.problems import SECURITY_HEADERS, accept_request_id, new_request_id, problem_body
from rota.services.services import Services
from rota.settings import Settings, is_loopback

MAX_HELD_BYTES: Final = 256 * 1_048_576
"""All bodies that are being received or worked on."""
MAX_KNOWN_HOSTS: Final = 1_000
LIVE: Final = "/health/live"
SLOW_SECONDS: Final = 1.0
"""A request that takes longer is logged."""
SINGLE_HEADERS: Final = (
    b"content-length",
    b"content-type",
    b"content-encoding",
    b"idempotency-key",
    b"x-request-id",
)

Send = Callable[[dict[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]

_NEEDLESS: Final = re.compile(rb"%(?:2[DEF]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])", re.IGNORECASE)
"""Escapes of letters, digits and ``-._~/``."""
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?")

_JOB: Final = re.compile(r"/jobs/([0-9]{1,18})(?:/|\Z)")

_encode = msgspec.json.Encoder().encode
_NOBODY: Final = Principal(id="", name="", grant=Grant(scopes=frozenset()))
_JSON_HEADERS: Final[list[Header]] = [*SECURITY_HEADERS, (b"content-type", JSON)]
_BASES: Final[dict[bytes, list[Header]]] = {
    JSON: _JSON_HEADERS,
    PROBLEM: [*SECURITY_HEADERS, (b"content-type", PROBLEM)],
    METRICS: [*SECURITY_HEADERS, (b"content-type", METRICS)],
    HTML: [
        *((name, value) for name, value in SECURITY_HEADERS if name != b"content-security-policy"),
        (b"content-security-policy", PAGE_POLICY),
        (b"content-type", HTML),
    ],
}

log = structlog.get_logger("rota.web")


class ClientGone(Exception):
    """The client went away before its body was complete: there is nobody to answer."""


class Endpoint:
    """A route with its readers built."""

    __slots__ = ("handler", "max_body", "needs", "open", "read", "read_query", "waits", "words")

    def __init__(self, route: Route) -> None:
        self.handler: Handler = route.handler
        self.words = f"{route.method} {route.path}"
        asked = [each for each in (route.body, route.query) if each is not None]
        self.waits = any("wait_seconds" in each.__struct_fields__ for each in asked)
        """Whether a request may be open for long without anything being slow."""
        self.needs: Needs = route.needs
        self.open = route.public
        self.max_body = route.max_body
        self.read: Callable[[bytes], Any] | None = None
        if route.body is not None:
            self.read = (text_body_reader if route.texts else body_reader)(route.body)
            if route.items is not None:
                self.read = bounded_reader(self.read, route.items, BATCH_ITEMS)
        self.read_query = no_query if route.query is None else query_reader(route.query)

    def admits(self, grant: Grant) -> bool:
        """Whether the grant holds all scopes of one alternative."""
        held = grant.scopes
        for scopes in self.needs:  # noqa: SIM110 - a generator would cost more than the comparison
            if scopes <= held:
                return True
        return False


class Web:
    """Dispatches requests to the route table."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._known = services.authenticator.known
        self._look_up = services.authenticator.look_up
        self._charge = services.limits.charge
        routes = (*ROUTES, *documentation(ROUTES))
        self._table = Table({(route.method, route.path): Endpoint(route) for route in routes})
        self._literal = self._table.literal
        self._allowed_hosts = allowed_hosts(settings)
        self._known_hosts: set[bytes] = set()
        self._held = 0
        self._answered = services.store.telemetry.answered
        self._logs_all = settings.log_level == "debug"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")
        began = time.monotonic()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        asked_id = headers.get(b"x-request-id")
        request_id = (accept_request_id(asked_id) if asked_id else None) or new_request_id()
        try:
            answer = await self._answer(scope, headers, receive, request_id)
            value = answer.value
            body = value if type(value) is bytes else b"" if value is None else _encode(value)
        except RotaError as fault:
            if type(fault) is Forbidden:
                self._note(scope, request_id)
            answer, body = _refusal(fault, request_id)
        except ClientGone:
            return
        except Exception as error:
            # The class alone: messages may hold what a client or a database said.
            log.error("request_failed", request_id=request_id, error=type(error).__name__)
            answer, body = _refusal(
                InternalError("the server failed to answer; report the request_id"), request_id
            )
        endpoint: Endpoint | None = scope.get("rota.endpoint")
        seconds = time.monotonic() - began
        self._answered("none" if endpoint is None else endpoint.words, answer.status, seconds)
        if self._logs_all or answer.status >= 500 or seconds > SLOW_SECONDS:
            self._log_request(endpoint, scope["path"], answer, seconds, request_id)
        if answer.value is None:
            base = [*SECURITY_HEADERS, (b"x-request-id", request_id.encode())]
            if answer.status != 204:
                base.append((b"content-length", b"0"))
        else:
            base = [
                *_BASES[answer.media],
                (b"content-length", b"%d" % len(body)),
                (b"x-request-id", request_id.encode()),
            ]
        base.extend(answer.headers)
        await send({"type": "http.response.start", "status": answer.status, "headers": base})
        await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, request_id: str
    ) -> Answer:
        path: str = scope["path"]
        if headers.get(b"host") not in self._known_hosts:
            self._require_host(headers.get(b"host"), path)
        if len(headers) != len(scope["headers"]):
            _refuse_repeated(scope["headers"])
        name = ""
        missing: RotaError | None = None
        if b"%" in scope["raw_path"] and _NEEDLESS.search(scope["raw_path"]):
            path = ""  # spelt in another way than it need be, to get round the rules of a proxy in front
        endpoint = self._literal.get((scope["method"], path))
        if endpoint is None:
            endpoint, name, missing = self._table.find(scope["method"], path)
        scope["rota.endpoint"] = endpoint
        client = scope["client"]
        address: str = client[0] if client else ""
        principal: Principal | None = _NOBODY
        if endpoint is None or not endpoint.open:
            authorization = headers.get(b"authorization")
            principal = self._known(authorization)
            if principal is None:
                principal = await self._look_up(authorization, address)
            scope["rota.principal"] = principal
            _require_scopes(endpoint, principal.grant)
            charged = self._charge(principal)
            if charged is not None:
                await charged
        assert principal is not None
        if missing is not None:
            raise missing
        assert endpoint is not None
        query = endpoint.read_query(scope["query_string"])
        call = Call(self._services, principal, headers, query, name, request_id, address, receive)
        if endpoint.read is None:
            return await endpoint.handler(call, None)
        if b"content-length" in headers or b"transfer-encoding" in headers:
            return await self._with_body(endpoint, call)
        return await endpoint.handler(call, endpoint.read(b""))

    async def _with_body(self, endpoint: Endpoint, call: Call) -> Answer:
        """Receive the body within all limits, and count it as held until it is answered."""
        headers, limit, held = call.headers, endpoint.max_body, 0
        if b"content-encoding" in headers:
            raise UnsupportedMediaType("send the body without a Content-Encoding")
        if headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            raise Malformed("the only Transfer-Encoding taken is chunked")
        declared = headers.get(b"content-length")
        if declared is not None:
            if int(declared) > limit:
                raise _too_large(limit)
            if declared != b"0":
                _require_json(headers)
        parts: list[bytes] = []
        try:
            while True:
                message = await call.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part: bytes = message.get("body", b"")
                held += len(part)
                self._held += len(part)
                if held > limit:
                    raise _too_large(limit)
                if self._held > MAX_HELD_BYTES:
                    raise Unavailable("the server holds too many large bodies: try again", retry_after=1)
                parts.append(part)
                if not message.get("more_body", False):
                    break
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            if declared is None and body:
                _require_json(headers)
            assert endpoint.read is not None
            return await endpoint.handler(call, endpoint.read(body))
        finally:
            self._held -= held

    def _note(self, scope: Scope, request_id: str) -> None:
        """Have a refusal noted, with the route's template: the path itself may hold anything."""
        endpoint, _, _ = self._table.find(scope["method"], scope["path"])
        principal: Principal | None = scope.get("rota.principal")
        if principal is not None:
            client = scope["client"]
            route = "unknown" if endpoint is None else endpoint.words
            self._services.audit.refuse(principal, route, client[0] if client else "", request_id)

    def _log_request(
        self, endpoint: Endpoint | None, path: str, answer: Answer, seconds: float, request_id: str
    ) -> None:
        """One line: the route's template, never the path or the query; of a job the id."""
        route = "none" if endpoint is None else endpoint.words
        made = dict(answer.headers).get(b"location", b"").decode("latin-1")
        job = _JOB.match(path if "/jobs/{id}" in route else made)
        named = {} if job is None else {"job": int(job[1])}
        slow = seconds > SLOW_SECONDS and not (endpoint is not None and endpoint.waits)
        log.log(
            logging.INFO if slow or answer.status >= 500 else logging.DEBUG,
            "request",
            route=route,
            status=answer.status,
            ms=round(seconds * 1000, 1),
            request_id=request_id,
            **named,
        )

    def _require_host(self, host: bytes | None, path: str) -> None:
        if path == LIVE:
            return
        if host is None or host_name(host) not in self._allowed_hosts:
            raise Malformed(
                "the Host header names no host of this server; add it to allowed_hosts if it should be one"
            )
        if len(self._known_hosts) < MAX_KNOWN_HOSTS:
            self._known_hosts.add(host)


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """The names this server answers to: those of the settings, else its address, localhost, public_url's."""
    if settings.allowed_hosts:
        return frozenset(host.lower() for host in settings.allowed_hosts)
    names = {bracketed(settings.host), "localhost"}
    if is_loopback(settings.host) or settings.host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        names |= {"127.0.0.1", "[::1]"}
    if settings.public_url is not None:
        names.add(host_name(settings.public_url.split("://", 1)[1].split("/", 1)[0].encode()))
    return frozenset(names)


def bracketed(host: str) -> str:
    """The host as it stands in a URL."""
    host = host.lower()
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def host_name(host: bytes) -> str:
    """A Host header without its port, in lower case; empty when it is malformed."""
    found = _HOST.fullmatch(host.decode("latin-1").lower())
    return found[1] if found else ""


def _require_scopes(endpoint: Endpoint | None, grant: Grant) -> None:
    if grant.open_api_only:
        raise Forbidden("this token is for /openapi/v1 only")
    if endpoint is not None and not endpoint.admits(grant):
        wanted = " or ".join(" and ".join(sorted(scopes)) for scopes in endpoint.needs)
        raise Forbidden(f"this needs the scope {wanted}; ask for a token that has it")


def _require_json(headers: Any) -> None:
    media: bytes = headers.get(b"content-type", b"")
    if media == JSON:
        return
    kind, *parameters = [part.strip() for part in media.lower().split(b";")]
    if kind != JSON or any(part not in (b"", b"charset=utf-8", b'charset="utf-8"') for part in parameters):
        raise UnsupportedMediaType("send the body with Content-Type: application/json, in UTF-8")


def _refuse_repeated(headers: list[Header]) -> None:
    """Headers that decide something must be there once; others may repeat."""
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in SINGLE_HEADERS and name in seen:
            raise Malformed(f"the header {name.decode()} is given twice; send it once")
        seen.add(name)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body may hold {limit // 1_048_576} MiB; send less at once")


def _refusal(fault: RotaError, request_id: str) -> tuple[Answer, bytes]:
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in fault.headers.items()]
    if fault.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(fault.retry_after))))
    body = problem_body(fault, request_id)
    return Answer(fault.status, body, tuple(headers), PROBLEM), body
