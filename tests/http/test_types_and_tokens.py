"""Types and tokens over HTTP: statuses, rights and what is never shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live_server import LiveServer, created, fields, fresh, problem


def test_a_type_is_created_replaced_and_deleted(server: LiveServer) -> None:
    name = fresh("type")
    answer = server.admin.put(f"/types/{name}", {"description": "first", "max_retries": 9})
    assert created(answer)["max_retries"] == 9
    assert answer.headers["location"] == f"/types/{name}"
    answer = server.admin.put(f"/types/{name}", {"description": "second"})
    assert (answer.status_code, answer.json()["max_retries"]) == (200, 3)
    assert server.admin.get(f"/types/{name}").json()["description"] == "second"
    assert name in [each["name"] for each in server.admin.get("/types").json()["items"]]
    answer = server.admin.delete(f"/types/{name}")
    assert (answer.status_code, answer.content) == (204, b"")
    problem(server.admin.get(f"/types/{name}"), 404, "not-found")
    problem(server.admin.delete(f"/types/{name}"), 404, "not-found")
    problem(server.admin.post(f"/types/{name}/pause"), 404, "not-found")


@pytest.mark.parametrize("name", ["UPPER", "-dash", "a" * 65, "rota.rpc", "a b", "ü"])
def test_type_names_are_checked(server: LiveServer, name: str) -> None:
    assert fields(server.admin.put(f"/types/{name}", {})) == ["name"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_retries", 10_001),
        ("lease_seconds", 1),
        ("max_payload_bytes", 65_537),
        ("default_priority", "urgent"),
        ("queue", "NO NAME"),
        ("timeout_seconds", 0),
        ("retries", 3),
        ("description", "two\nlines"),
    ],
)
def test_the_fields_of_a_type_are_checked(server: LiveServer, field: str, value: Any) -> None:
    assert fields(server.admin.put(f"/types/{fresh('type')}", {field: value})) == [field]


@pytest.mark.parametrize("field", ["concurrency_limit", "rate_limit"])
def test_type_fields_of_parts_not_built_yet_are_refused_as_such(server: LiveServer, field: str) -> None:
    assert fields(server.admin.put(f"/types/{fresh('type')}", {field: None}), "not-available-yet") == [field]


def test_wrong_fields_inside_the_backoff_are_named(server: LiveServer) -> None:
    path = f"/types/{fresh('type')}"
    assert fields(server.admin.put(path, {"backoff": {"strategy": "random"}})) == ["backoff.strategy"]
    assert fields(server.admin.put(path, {"backoff": {"bass": 1}})) == ["backoff.bass"]
    assert fields(server.admin.put(path, {"backoff": {"jitter": 2}})) == ["backoff.jitter"]


def test_types_are_read_within_the_range_by_anyone_who_works_with_them(server: LiveServer) -> None:
    mine, other = server.type(), server.type()
    for preset in ("producer", "worker", "observer"):
        api = server.token(preset, types=[mine])
        assert [each["name"] for each in api.get("/types").json()["items"]] == [mine]
        problem(api.get(f"/types/{other}"), 404, "not-found")
        problem(api.put(f"/types/{mine}", {}), 403, "forbidden")
        problem(api.post(f"/types/{mine}/pause"), 403, "forbidden")


def test_a_new_token_is_shown_once_and_works(server: LiveServer) -> None:
    body = created(server.admin.post("/tokens", {"name": fresh("token"), "preset": "producer"}))
    assert body["token"].startswith(f"rota_{body['key_id']}_")
    assert (body["scopes"], body["max_priority"]) == (["jobs:enqueue"], "medium")
    server.api(body["token"]).enqueue(server.type())
    listed = server.admin.get("/tokens")
    assert body["token"] not in listed.text
    assert body["name"] in [each["name"] for each in listed.json()["items"]]
    problem(server.admin.post("/tokens", {"name": body["name"], "preset": "producer"}), 409, "name-taken")


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        ({"name": "no spaces"}, "name"),
        ({"preset": "root"}, "preset"),
        ({"preset": None, "scopes": ["jobs:all"]}, "scopes"),
        ({"expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"rate_limit_per_minute": 0}, "rate_limit_per_minute"),
        ({"max_priority": "urgent"}, "max_priority"),
        ({"id": "tok_x"}, "id"),
    ],
)
def test_the_fields_of_a_token_are_checked(server: LiveServer, fault: dict[str, Any], field: str) -> None:
    body = {"name": fresh("token"), "preset": "producer", **fault}
    assert fields(server.admin.post("/tokens", body)) == [field]


def test_rotation_gives_a_new_secret_and_ends_the_old_one(server: LiveServer) -> None:
    old = created(server.admin.post("/tokens", {"name": fresh("token"), "preset": "observer"}))
    answer = server.admin.post(f"/tokens/{old['key_id']}/rotate")
    new = answer.json()
    assert (answer.status_code, new["key_id"], new["name"]) == (200, old["key_id"], old["name"])
    assert server.api(new["token"]).get("/types").status_code == 200
    problem(server.api(old["token"]).get("/types"), 401, "unauthenticated")


def test_a_rotated_token_keeps_its_jobs(server: LiveServer) -> None:
    old = created(server.admin.post("/tokens", {"name": fresh("token"), "preset": "producer"}))
    job = server.api(old["token"]).enqueue(server.type())
    new = server.admin.post(f"/tokens/{old['key_id']}/rotate", {"grace_seconds": 60}).json()
    assert server.api(new["token"]).job(job["id"])["id"] == job["id"]
    assert server.api(old["token"]).job(job["id"])["id"] == job["id"], "the old secret works for the grace"


def test_nobody_grants_what_they_lack(server: LiveServer) -> None:
    keeper = server.token(scopes=["tokens:manage", "jobs:read"], max_priority="low")
    name = {"name": fresh("token")}
    problem(keeper.post("/tokens", {**name, "preset": "admin"}), 403, "forbidden")
    problem(
        keeper.post("/tokens", {**name, "scopes": ["jobs:read"], "max_priority": "high"}), 403, "forbidden"
    )
    created(keeper.post("/tokens", {**name, "scopes": ["jobs:read"]}))
    admin = next(each for each in keeper.get("/tokens").json()["items"] if each["name"] == "admin")
    for verb in ("rotate", "revoke"):
        problem(keeper.post(f"/tokens/{admin['key_id']}/{verb}"), 403, "forbidden")
        problem(keeper.post(f"/tokens/abcdefabcdef/{verb}"), 404, "not-found")


def test_tokens_are_for_those_who_manage_them(server: LiveServer) -> None:
    operator = server.token("operator")
    problem(operator.get("/tokens"), 403, "forbidden")
    problem(operator.post("/tokens", {"name": fresh("token"), "preset": "observer"}), 403, "forbidden")


def test_putting_a_type_again_leaves_its_pause_alone(server: LiveServer) -> None:
    name = server.type()
    assert server.admin.post(f"/types/{name}/pause").json()["paused"] is True
    assert server.admin.put(f"/types/{name}", {"max_retries": 7}).json()["paused"] is True
    assert server.admin.put(f"/types/{name}", {"paused": False}).json()["paused"] is False
