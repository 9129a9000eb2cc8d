"""The audit over HTTP: refusals come into it, secrets do not, few read it and nobody deletes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from rota.api.routes import ROUTES
from tests.live_server import Api, LiveServer, created, fresh, problem
from tests.security.evidence import named

MARKER = "m4rk3r-audit"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server of its own: how many refusals are told apart in a minute is limited."""
    with LiveServer(tmp_path_factory.mktemp("audited")) as live:
        yield live


def entries(server: LiveServer, **wanted: str) -> list[dict[str, Any]]:
    answer = server.admin.get("/audit", limit="200", **wanted)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def refusals(server: LiveServer, actor: str, least: int) -> list[dict[str, Any]]:
    """Refused requests of a token, when there are at least so many rows: they are written each second."""
    deadline = time.monotonic() + 10
    while len(found := entries(server, actor=actor, action="request")) < least:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)  # the rows come with a task of the server's own
    return found


def test_a_change_tells_who_made_it_from_where_and_in_which_request(server: LiveServer) -> None:
    operator, made = named(server, "operator")
    type = server.type()
    answer = operator.post(f"/types/{type}/pause")
    (entry,) = [each for each in entries(server, object=f"type:{type}") if each["action"] == "type.pause"]
    assert entry["actor"]["name"] == made["name"]
    assert entry["actor"]["kind"] == "token"
    assert entry["address"] == "127.0.0.1"
    assert entry["request_id"] == answer.headers["x-request-id"]
    assert (entry["fields"], entry["values"], entry["outcome"]) == (["paused"], {"paused": True}, "done")


def test_a_refused_request_is_noted_with_its_route_and_not_its_path(server: LiveServer) -> None:
    observer, made = named(server, "observer")
    problem(observer.post("/tokens", {"name": MARKER, "preset": "admin"}), 403, "forbidden")
    problem(observer.delete(f"/types/{MARKER}"), 403, "forbidden")
    found = refusals(server, made["name"], 2)
    assert {each["object"]["id"] for each in found} == {"POST /tokens", "DELETE /types/{name}"}
    assert {each["outcome"] for each in found} == {"refused"}
    assert MARKER not in repr(found)


def test_a_flood_of_refusals_leaves_few_rows(server: LiveServer) -> None:
    observer, made = named(server, "observer")
    for _ in range(200):
        assert observer.post("/tokens", {}).status_code == 403
    assert len(refusals(server, made["name"], 1)) <= 4


def test_what_the_token_may_not_grant_is_a_refusal_too(server: LiveServer) -> None:
    manager, made = named(server, "admin", max_priority="low")
    problem(
        manager.post("/tokens", {"name": fresh("t"), "preset": "producer", "max_priority": "critical"}),
        403,
        "forbidden",
    )
    (found,) = refusals(server, made["name"], 1)
    assert found["object"]["id"] == "POST /tokens"


def test_no_secret_comes_into_it_whatever_is_changed(server: LiveServer) -> None:
    producer, made = named(server, "producer")
    worker, made_too = named(server, "worker")
    type = server.type(description=MARKER)
    ids = [producer.enqueue(type, payload=MARKER, idempotency_key=fresh(MARKER))["id"] for _ in range(3)]
    job = worker.claim(type)
    worker.finish(job, "fail", error=MARKER, retryable=False)
    server.admin.post(f"/jobs/{job['id']}/replay")
    server.admin.post(f"/jobs/{ids[1]}/cancel")
    server.admin.delete(f"/jobs/{ids[1]}")
    cancelling = {"action": "cancel", "filter": {"q": MARKER}, "dry_run": False}
    server.admin.post("/jobs/actions", cancelling)
    server.admin.put(f"/types/{type}", {"description": f"{MARKER} again"})
    rotated = created_token(server, made["key_id"], "rotate")
    server.admin.post(f"/tokens/{made_too['key_id']}/revoke")
    told = repr(entries(server))
    assert type in told
    for secret in (MARKER, str(producer.token), str(worker.token), str(server.admin.token), rotated):
        assert secret not in told
        assert secret.rpartition("_")[2] not in told
    assert job["lease_token"] not in told


def created_token(server: LiveServer, key_id: str, verb: str) -> str:
    answer = server.admin.post(f"/tokens/{key_id}/{verb}")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"])


def test_only_a_token_with_the_scope_and_without_a_range_reads_it(server: LiveServer) -> None:
    for preset in ("producer", "worker", "observer", "operator", "integrator"):
        problem(server.token(preset).get("/audit"), 403, "forbidden")
    assert server.token(scopes=["audit:read"]).get("/audit").status_code == 200
    limited: Api = server.token(scopes=["audit:read"], types=["another-type"])
    problem(limited.get("/audit"), 403, "forbidden")


def test_no_call_changes_or_deletes_it(server: LiveServer) -> None:
    assert [route.method for route in ROUTES if route.path.startswith("/audit")] == ["GET"]
    for method in ("DELETE", "PUT", "POST", "PATCH"):
        assert server.admin.http.request(method, "/audit").status_code == 405


def test_a_bad_filter_or_cursor_is_told(server: LiveServer) -> None:
    for wrong in ({"from": "yesterday"}, {"cursor": "x"}, {"limit": "0"}, {"nothing": "1"}, {"actor": ""}):
        problem(server.admin.get("/audit", **wrong), 422, "validation-failed")


def test_resuming_changes_nothing_for_a_good_token_and_never_brings_a_revoked_one_back(
    server: LiveServer,
) -> None:
    made = created(server.admin.post("/tokens", {"name": fresh("token"), "preset": "observer"}))
    answer = server.admin.post(f"/tokens/{made['key_id']}/resume")
    assert answer.status_code == 200
    assert answer.json()["suspended_at"] is None
    server.admin.post(f"/tokens/{made['key_id']}/revoke")
    problem(server.admin.post(f"/tokens/{made['key_id']}/resume"), 409, "conflict")
    problem(server.admin.post("/tokens/aaaaaaaaaaaa/resume"), 404, "not-found")
