"""What holds for every route of the table, and for paths that are none."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api.route import Route
from rota.api.routes import ROUTES
from rota.openapi import documentation
from rota.wire import BeatRequest, EnqueueRequest, OutcomeRequest
from tests.live_server import Api, LiveServer, fields, problem
from tests.security.evidence import check_answer, named

EVERY = (*ROUTES, *documentation(ROUTES))
NAMES = {
    "{id}": "1",
    "{name}": "a-type",
    "{code}": "conflict",
    "{key_id}": "aaaaaaaaaaaa",
    "{instance}": "a-worker",
}
UNKNOWN = [
    "/nothing",
    "/jobs/",
    "/jobs/x",
    "/jobs/1/nothing",
    "/tokens/a/b/c",
    "/.git/config",
    "/jobs/actions",
    "/%2f",
]
WITH_BODY = [route for route in ROUTES if route.body is not None]
MADE_UP = "rota_aaaaaaaaaaaa_" + "A" * 43
_visitors = itertools.count(1)


def path_of(route: Route) -> str:
    path = route.path
    for variable, name in NAMES.items():
        path = path.replace(variable, name)
    return path


def words(route: Route) -> str:
    return f"{route.method} {route.path}"


GUARDED = [(route.method, path_of(route)) for route in EVERY if not route.public]
GUARDED += [(method, path) for path in UNKNOWN for method in ("GET", "POST")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server behind a proxy, so that each test comes from an address of its own: attempts are counted."""
    folder = tmp_path_factory.mktemp("proxied")
    (folder / "data").mkdir(mode=0o700)
    (folder / "data" / "rota.toml").write_text('trusted_proxies = ["127.0.0.1"]')
    with LiveServer(folder) as live:
        yield live


@pytest.fixture
def stranger(server: LiveServer) -> httpx2.Client:
    client = server.api(None).http
    client.headers["X-Forwarded-For"] = f"198.51.100.{next(_visitors)}"
    return client


def refused_everywhere(server: LiveServer, client: httpx2.Client, authorization: str | bytes | None) -> None:
    if authorization is not None:
        value = authorization if isinstance(authorization, bytes) else authorization.encode()
        client.headers["Authorization"] = value.decode("latin-1")
    for method, path in GUARDED:
        answer = client.request(method, path)
        problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer realm=")
        check_answer(server, answer)


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("Bearer", id="scheme only"),
        pytest.param('Bearer ""', id="empty token"),
        pytest.param(f"Bearer {MADE_UP}", id="unknown"),
        pytest.param(f"bearer {MADE_UP}", id="unknown, scheme in small letters"),
        pytest.param(MADE_UP, id="without scheme"),
        pytest.param("Bearer ключ🔑".encode(), id="not ASCII"),
        pytest.param(b"Bearer \xff\xfe\x80", id="not UTF-8"),
        pytest.param("Bearer " + "x" * 5_000, id="5,000 long"),
        pytest.param("Basic YWRtaW46YWRtaW4=", id="Basic"),
        pytest.param("Digest username=admin", id="Digest"),
        pytest.param(f"Bearer {MADE_UP},{MADE_UP}", id="two in one"),
    ],
)
def test_no_guarded_route_works_without_a_valid_token(
    server: LiveServer, stranger: httpx2.Client, authorization: str | bytes | None
) -> None:
    refused_everywhere(server, stranger, authorization)


def test_loopback_is_no_reason_to_be_let_in(server: LiveServer) -> None:
    refused_everywhere(server, server.api(None).http, None)


def test_head_is_guarded_like_get(server: LiveServer, stranger: httpx2.Client) -> None:
    for path in (path for method, path in GUARDED if method == "GET"):
        assert stranger.head(path).status_code == 401, path


def test_failed_attempts_without_end_are_429_and_valid_tokens_go_on(
    server: LiveServer, stranger: httpx2.Client
) -> None:
    answer = stranger.get("/jobs")
    for _ in range(2 * 300):  # the count begins anew with the minute, at most once in so short a time
        if answer.status_code != 401:
            break
        answer = stranger.get("/jobs")
    problem(answer, 429, "rate-limited")
    check_answer(server, answer)
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    valid = stranger.get("/jobs", headers={"Authorization": f"Bearer {server.admin.token}"})
    assert valid.status_code == 200


def test_almost_the_admin_token_is_not_the_admin_token(server: LiveServer, stranger: httpx2.Client) -> None:
    token = str(server.admin.token)
    last = "A" if token[-1] != "A" else "B"
    for near in (
        token[:-1],
        token[:-1] + last,
        token + "A",
        token.upper(),
        token[5:],
        f"{token} {token}",
        f'"{token}"',
    ):
        problem(stranger.get("/tokens", headers={"Authorization": f"Bearer {near}"}), 401, "unauthenticated")
    assert stranger.get("/tokens", headers={"Authorization": f"bEARER {token}"}).status_code == 200


def test_a_revoked_token_opens_no_route(server: LiveServer, stranger: httpx2.Client) -> None:
    api, made = named(server, "admin")
    assert api.get("/tokens").status_code == 200
    assert server.admin.post(f"/tokens/{made['key_id']}/revoke").status_code == 200
    refused_everywhere(server, stranger, f"Bearer {api.token}")


def test_a_rotated_token_opens_no_route(server: LiveServer, stranger: httpx2.Client) -> None:
    api, made = named(server, "admin")
    rotated = server.admin.post(f"/tokens/{made['key_id']}/rotate").json()
    assert server.api(rotated["token"]).get("/tokens").status_code == 200
    refused_everywhere(server, stranger, f"Bearer {api.token}")


def test_an_expired_token_opens_no_route(server: LiveServer, stranger: httpx2.Client) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1)
    api = server.token("admin", expires_at=soon.isoformat())
    assert api.get("/tokens").status_code == 200
    while api.get("/tokens").status_code == 200:
        assert datetime.now(UTC) < soon + timedelta(seconds=1)
    refused_everywhere(server, stranger, f"Bearer {api.token}")


def test_an_open_api_token_is_forbidden_everywhere_here(server: LiveServer) -> None:
    integrator = server.token("integrator").http
    for method, path in GUARDED:
        answer = integrator.request(method, path)
        problem(answer, 403, "forbidden")
        check_answer(server, answer)


def test_open_routes_need_no_token_and_mind_no_wrong_one(server: LiveServer, stranger: httpx2.Client) -> None:
    for route in EVERY:
        if not route.public:
            continue
        answer = stranger.request(route.method, path_of(route))
        assert answer.status_code in (200, 302), words(route)
        check_answer(server, answer)
        wrong = stranger.request(route.method, path_of(route), headers={"Authorization": f"Bearer {MADE_UP}"})
        assert wrong.status_code in (200, 302, 401), words(route)
        check_answer(server, wrong)


@pytest.mark.parametrize("route", WITH_BODY, ids=words)
def test_a_body_must_be_json_with_known_fields(server: LiveServer, route: Route) -> None:
    admin, path = server.admin.http, path_of(route)
    unknown = admin.request(route.method, path, json={"surprise": 1})
    assert "surprise" in fields(unknown)
    wrong = {"surprise": 1, "__class__": "x", "constructor": {}}
    assert admin.request(route.method, path, json=wrong).status_code == 422
    for body in (b"[]", b'"x"', b"1", b"null", b"true"):
        answer = admin.request(route.method, path, content=body, headers={"Content-Type": "application/json"})
        assert fields(answer) == ["body"], body
    for media in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonx",
    ):
        answer = admin.request(route.method, path, content=b"{}", headers={"Content-Type": media})
        problem(answer, 415, "unsupported-media-type")
        check_answer(server, answer)
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    problem(admin.request(route.method, path, content=b"{}", headers=packed), 415, "unsupported-media-type")
    answer = admin.request(route.method, path, content=b'{"a', headers={"Content-Type": "application/json"})
    problem(answer, 400, "malformed")
    check_answer(server, answer)


@pytest.mark.parametrize("path", sorted({path_of(route) for route in EVERY}))
def test_methods_that_a_path_does_not_know_are_named(server: LiveServer, path: str) -> None:
    for method in ("PATCH", "TRACE", "OPTIONS", "DELETE", "PUT", "GET", "POST"):
        answer = server.admin.http.request(method, path)
        check_answer(server, answer)
        known = {route.method for route in EVERY if path_of(route) == path}
        if method in {"PATCH", "TRACE", "OPTIONS"} - known:
            problem(answer, 405, "method-not-allowed")
            assert known <= set(answer.headers["allow"].split(", "))
            assert method not in answer.headers["allow"]
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "id",
    [
        "0",
        "999999999999999999",
        "1234567890123456789",
        "-1",
        "1.0",
        "1e3",
        "0x1",
        "%31%00",
        "٣",
        "%ff",
        "%2e%2e",
        "{id}",
        "a" * 3_000,
    ],
)
def test_odd_ids_are_simply_not_found(server: LiveServer, id: str) -> None:
    for route in ROUTES:
        if "{id}" not in route.path:
            continue
        reports = route.path.endswith(("complete", "fail", "heartbeat", "release"))
        body = {"lease_token": "0" * 32} if reports else None
        if route.method == "PATCH":
            body = {"priority": "low"}
        answer = server.admin.http.request(route.method, route.path.replace("{id}", id), json=body)
        assert answer.status_code in (404, 405, 409), (words(route), answer.text)
        check_answer(server, answer)


@pytest.mark.parametrize(
    "target",
    [
        b"/jobs/\xff\xfe",
        b"/types/\xc3\xbc",
        b"/jobs?q=\xff",
        b"/jobs#x",
        b"http://evil.example/jobs",
        b"*",
        b"/\\..\\x",
    ],
)
def test_odd_targets_are_answered_and_never_with_a_server_error(server: LiveServer, target: bytes) -> None:
    head = b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head + str(server.admin.token).encode() + b"\r\n\r\n")
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    assert answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4")), answer[:300]
    assert b"x-request-id: " in answer
    assert b"Traceback" not in answer


# --- never a server error, whatever the body ------------------------------------------------------

NUMBERS = [
    0,
    -1,
    61,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    10**40,
    -0.0,
    1e308,
    5e-324,
    float("inf"),
    float("nan"),
]
TEXTS = [
    "",
    " ",
    "a",
    "default",
    "a-type",
    "\x00",
    "\ud800",
    "ü",
    "'",
    "low",
    "-1",
    "0" * 32,
    "2026-12-01T08:30:00Z",
]
TEXTS += [
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00+14:00",
    "2026-02-30T00:00:00Z",
    "x" * 5_000,
    "admin",
    "exponential",
]
SCALARS = st.sampled_from([None, True, False, *NUMBERS]) | st.sampled_from(TEXTS) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TEXTS), inner, max_size=3),
    max_leaves=6,
)


def bodies(struct: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Bodies with the struct's fields, each with a fitting or an odd value."""
    known: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(struct):
        known[field.name] = VALUES
    for name, entry in (("jobs", EnqueueRequest), ("outcomes", OutcomeRequest), ("beats", BeatRequest)):
        if name in known:
            known[name] = st.lists(bodies(entry), max_size=3) | VALUES
    if "type" in known:
        known["type"] = st.just("a-type") | VALUES
    if "outcome" in known:
        known["outcome"] = st.sampled_from(["complete", "fail", "release"]) | VALUES
    if "lease_token" in known:
        known["lease_token"] = st.just("0" * 32) | VALUES
    if "progress" in known:
        known["progress"] = st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("current", "total", "message"), VALUES)
        )
    required = [field.name for field in msgspec.structs.fields(struct) if field.required]
    return st.fixed_dictionaries(
        {name: known[name] for name in required},
        optional={name: value for name, value in known.items() if name not in required},
    )


@pytest.fixture(scope="module")
def victim(server: LiveServer) -> Api:
    """Everything allowed, on types and tokens that may be spoilt."""
    server.admin.put("/types/a-type", {})
    return server.token("admin")


@pytest.mark.parametrize("route", WITH_BODY, ids=words)
def test_no_body_ends_in_a_server_error(server: LiveServer, victim: Api, route: Route) -> None:
    assert route.body is not None

    @settings(max_examples=30, deadline=None, derandomize=True, database=None)
    @given(body=bodies(route.body) | VALUES)
    def play(body: Any) -> None:
        text = json.dumps(body).encode()
        answer = victim.http.request(
            route.method, path_of(route), content=text, headers={"Content-Type": "application/json"}
        )
        check_answer(server, answer)
        if answer.content:
            json.loads(answer.content, parse_constant=pytest.fail)

    play()
