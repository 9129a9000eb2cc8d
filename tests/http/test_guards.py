"""What stands before every call: host, token, scope, body, and the form of every answer."""

from __future__ import annotations

import socket

import pytest

from rota.problems import SECURITY_HEADERS
from tests.live_server import LiveServer, fresh, problem

JSON = {"Content-Type": "application/json"}


def raw(server: LiveServer, request: bytes) -> bytes:
    """The whole answer to a request sent as it is on a connection of its own."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


@pytest.mark.parametrize("path", ["/jobs", "/jobs/1", "/types", "/tokens", "/nothing/here", "/jobs/x"])
def test_without_a_token_nothing_is_told_not_even_what_exists(server: LiveServer, path: str) -> None:
    answer = server.api(None).get(path)
    problem(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "header",
    [
        "Bearer rota_aaaaaaaaaaaa_" + "A" * 43,
        "Bearer " + "x" * 5000,
        "Bearer ümläut".encode().decode("latin-1"),
        "Basic YWRtaW46YWRtaW4=",
        "Bearer",
        "",
    ],
)
def test_a_wrong_token_is_401_whatever_it_looks_like(server: LiveServer, header: str) -> None:
    answer = server.api(None).http.get("/jobs", headers={b"Authorization": header.encode("latin-1")})
    problem(answer, 401, "unauthenticated")


def test_a_token_without_the_scope_is_403_and_the_answer_names_it(server: LiveServer) -> None:
    answer = server.token("producer").post("/jobs/claim", {})
    assert "jobs:work" in problem(answer, 403, "forbidden")["detail"]


def test_an_integrator_reaches_nothing_outside_the_open_api(server: LiveServer) -> None:
    problem(server.token("integrator").get("/types"), 403, "forbidden")


def test_a_body_is_not_read_before_the_token_is_judged(server: LiveServer) -> None:
    answer = raw(
        server,
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000000\r\nConnection: close\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "[::2]"])
def test_a_strange_host_is_refused(server: LiveServer, host: str) -> None:
    problem(server.admin.http.get("/types", headers={"Host": host}), 400, "malformed")
    problem(server.admin.http.get("/health/ready", headers={"Host": host}), 400, "malformed")
    assert server.admin.http.get("/health/live", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80"])
def test_the_own_hosts_are_known_on_any_port(server: LiveServer, host: str) -> None:
    assert server.admin.http.get("/types", headers={"Host": host}).status_code == 200


def test_unknown_paths_are_404_for_token_holders(server: LiveServer) -> None:
    for path in (
        "/nothing",
        "/jobs/",
        "/jobs/x",
        "/jobs/1234567890123456789",
        "/jobs/1/2",
        "/schedules",
        "/{id}",
    ):
        problem(server.admin.get(path), 404, "not-found")
    problem(server.admin.post("/jobs/nothing", {}), 404, "not-found")


def test_a_wrong_method_is_405_and_literal_paths_win_over_ids(server: LiveServer) -> None:
    answer = server.admin.get("/jobs/claim")
    problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "POST"
    answer = server.admin.delete("/jobs")
    problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, HEAD, POST"
    problem(server.api(None).post("/health/live"), 405, "method-not-allowed")


def test_head_answers_like_get_without_the_body(server: LiveServer) -> None:
    answer = server.admin.http.head("/types")
    assert answer.status_code == 200
    assert answer.content == b""
    assert int(answer.headers["content-length"]) > 0


def test_every_answer_carries_the_security_headers_and_a_request_id(server: LiveServer) -> None:
    answers = [
        server.api(None).get("/health/live"),
        server.api(None).get("/jobs"),
        server.admin.get("/nothing"),
        server.admin.post("/jobs/claim", {}),
        server.admin.get("/jobs"),
        server.admin.http.get("/", follow_redirects=False),
    ]
    for answer in answers:
        for name, value in SECURITY_HEADERS:
            assert answer.headers[name.decode()] == value.decode(), answer.url
        assert answer.headers["x-request-id"]
        assert "server" not in answer.headers


def test_a_safe_request_id_is_taken_over_and_an_unsafe_one_replaced(server: LiveServer) -> None:
    assert (
        server.admin.http.get("/types", headers={"X-Request-Id": "a.b-1"}).headers["x-request-id"] == "a.b-1"
    )
    for unsafe in ("a b", "<script>", "x" * 65):
        answer = server.admin.http.get("/types", headers={"X-Request-Id": unsafe})
        assert answer.headers["x-request-id"] != unsafe


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", None]
)
def test_a_body_that_is_not_json_is_415(server: LiveServer, media: str | None) -> None:
    headers = {} if media is None else {"Content-Type": media}
    problem(server.admin.http.post("/jobs", content=b"{}", headers=headers), 415, "unsupported-media-type")


@pytest.mark.parametrize("media", ["application/json;charset=UTF-8", "Application/JSON", "application/json;"])
def test_json_may_be_named_in_every_usual_way(server: LiveServer, media: str) -> None:
    answer = server.admin.http.post("/jobs/claim", content=b"{}", headers={"Content-Type": media})
    assert answer.status_code in (200, 204)


def test_any_content_encoding_is_415(server: LiveServer) -> None:
    answer = server.admin.http.post("/jobs", content=b"{}", headers={**JSON, "Content-Encoding": "gzip"})
    problem(answer, 415, "unsupported-media-type")


def test_empty_bodies_need_no_content_type(server: LiveServer) -> None:
    assert server.admin.post("/jobs/claim").status_code in (200, 204)
    name = server.type()
    assert server.admin.post(f"/types/{name}/pause").json()["paused"] is True
    assert server.admin.post(f"/types/{name}/resume", {}).json()["paused"] is False
    problem(server.admin.post(f"/types/{name}/pause", {"sure": True}), 422, "validation-failed")


def test_a_body_over_1_mib_is_413_declared_or_chunked(server: LiveServer) -> None:
    large = b'{"type":"' + b"x" * 1_048_576 + b'"}'
    problem(server.admin.post("/jobs", large), 413, "too-large")
    chunked = server.admin.http.post("/jobs", content=iter([large[:700_000], large[700_000:]]), headers=JSON)
    problem(chunked, 413, "too-large")


def test_chunked_bodies_are_taken(server: LiveServer) -> None:
    name = server.type()
    body = f'{{"type":"{name}"}}'.encode()
    answer = server.admin.http.post("/jobs", content=iter([body[:5], body[5:]]), headers=JSON)
    assert answer.status_code == 201


def test_headers_that_decide_something_may_not_repeat(server: LiveServer) -> None:
    answer = raw(
        server,
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\n"
        b"Authorization: Bearer " + str(server.admin.token).encode() + b"\r\nConnection: close\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("body", [b"{", b"x", b'{"type":"a"} x', b'{"type":"\xff"}', b"\xef\xbb\xbf{}"])
def test_broken_json_is_400(server: LiveServer, body: bytes) -> None:
    problem(server.admin.post("/jobs", body), 400, "malformed")


@pytest.mark.parametrize(
    "query", ["a=1", "limit=5&limit=6", "limit=0", "limit=201", "limit=x", "limit=%ff", "x", "cursor=!"]
)
def test_query_parameters_are_checked(server: LiveServer, query: str) -> None:
    problem(server.admin.get(f"/jobs?{query}"), 422, "validation-failed")


def test_calls_without_parameters_refuse_any(server: LiveServer) -> None:
    problem(server.admin.get("/types", a="1"), 422, "validation-failed")
    problem(server.admin.http.post("/jobs?a=1", json={"type": server.type()}), 422, "validation-failed")


def test_the_rate_limit_is_429_and_says_when_to_come_back(server: LiveServer) -> None:
    slow = server.token("observer", rate_limit_per_minute=3)
    answers = [slow.get("/types") for _ in range(5)]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert refused, "five calls passed a limit of three"
    problem(refused[0], 429, "rate-limited")
    assert 1 <= int(refused[0].headers["retry-after"]) <= 60


def test_the_items_of_a_batch_count_for_the_rate_limit(server: LiveServer) -> None:
    slow = server.token("producer", rate_limit_per_minute=10)
    jobs = [{"type": server.type()}] * 11
    problem(slow.post("/jobs/batch", {"jobs": jobs}), 429, "rate-limited")


def test_a_revoked_token_is_refused_at_once(server: LiveServer) -> None:
    name = fresh("token")
    token = server.admin.post("/tokens", {"name": name, "preset": "observer"}).json()
    api = server.api(token["token"])
    assert api.get("/types").status_code == 200
    assert server.admin.post(f"/tokens/{token['key_id']}/revoke").status_code == 200
    problem(api.get("/types"), 401, "unauthenticated")


@pytest.mark.parametrize("path", ["/%6aobs", "/jobs%2F1", "/jobs/%31"])
def test_a_path_with_escapes_is_no_path_of_ours(server: LiveServer, path: str) -> None:
    token = (server.admin.token or "").encode()
    request = b"GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n"
    assert raw(server, request % (path.encode(), token)).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("host", ["localhost:abc", "localhost:80:80", "localhost:", "[::1", "::1"])
def test_a_malformed_host_is_refused(server: LiveServer, host: str) -> None:
    request = f"GET /docs HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    assert raw(server, request).startswith(b"HTTP/1.1 400 ")


def test_no_transfer_encoding_but_chunked_is_taken(server: LiveServer) -> None:
    token = (server.admin.token or "").encode()
    answer = raw(
        server,
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        % token,
    )
    assert answer.startswith(b"HTTP/1.1 400 ")
