"""Delete, change and actions on many jobs, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live_server import Api, LiveServer, fields, fresh, problem


def dead(server: LiveServer, type: str, **fields_: Any) -> dict[str, Any]:
    """A job that failed for good."""
    server.admin.enqueue(type, **fields_)
    job = server.admin.claim(type)
    answer = server.admin.finish(job, "fail", error="broken", retryable=False)
    assert answer.json()["status"] == "failed"
    ended: dict[str, Any] = answer.json()
    return ended


def act(api: Api, action: str, *, dry_run: bool = False, **filters: Any) -> dict[str, Any]:
    answer = api.post("/jobs/actions", {"action": action, "dry_run": dry_run, "filter": filters})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


# --- one ------------------------------------------------------------------------------------------


def test_a_deleted_job_is_404_afterwards(server: LiveServer) -> None:
    job = dead(server, server.type())
    answer = server.admin.delete(f"/jobs/{job['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    problem(server.admin.get(f"/jobs/{job['id']}"), 404, "not-found")
    problem(server.admin.delete(f"/jobs/{job['id']}"), 404, "not-found")


def test_a_running_a_waiting_and_a_guarded_job_are_not_deleted(server: LiveServer) -> None:
    name = server.type()
    guarded = dead(server, name, idempotency_key=fresh("key"))
    problem(server.admin.delete(f"/jobs/{guarded['id']}"), 409, "conflict")
    server.admin.enqueue(name)
    held = server.admin.claim(name)
    problem(server.admin.delete(f"/jobs/{held['id']}"), 409, "job-running")
    waiting = server.admin.enqueue(name)
    problem(server.admin.delete(f"/jobs/{waiting['id']}"), 409, "conflict")


def test_priority_and_time_of_a_pending_job_are_changed(server: LiveServer) -> None:
    name = server.type()
    first, second = server.admin.enqueue(name), server.admin.enqueue(name, delay_seconds=3_600)
    changed = server.admin.http.patch(f"/jobs/{second['id']}", json={"priority": "HIGH", "run_at": None})
    assert (changed.status_code, changed.json()["priority"], changed.json()["run_at"]) == (200, "high", None)
    assert server.admin.claim(name)["id"] == second["id"]
    at = "2090-01-01T00:00:00.000Z"
    put_off = server.admin.http.patch(f"/jobs/{first['id']}", json={"run_at": at})
    assert fields(put_off) == ["run_at"]  # more than ten years ahead
    soon = server.admin.http.patch(f"/jobs/{first['id']}", json={"run_at": "2030-01-01T00:00:00.000Z"})
    assert soon.json()["run_at"] == "2030-01-01T00:00:00.000Z"
    problem(server.admin.http.patch(f"/jobs/{second['id']}", json={"priority": "low"}), 409, "job-running")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"priority": None}, "priority"),
        ({"priority": "urgent"}, "priority"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"payload": 1}, "payload"),
    ],
)
def test_a_change_that_is_none_is_refused(server: LiveServer, body: Any, field: str) -> None:
    job = server.admin.enqueue(server.type())
    assert fields(server.admin.http.patch(f"/jobs/{job['id']}", json=body)) == [field]


def test_nobody_changes_a_job_above_their_ceiling(server: LiveServer) -> None:
    job = server.admin.enqueue(server.type())
    operator = server.token("operator")
    assert operator.http.patch(f"/jobs/{job['id']}", json={"priority": "high"}).status_code == 200
    problem(operator.http.patch(f"/jobs/{job['id']}", json={"priority": "critical"}), 403, "forbidden")


# --- many -----------------------------------------------------------------------------------------


def test_a_dry_run_counts_and_changes_nothing(server: LiveServer) -> None:
    name = server.type()
    jobs = [dead(server, name) for _ in range(3)]
    server.admin.enqueue(name)
    for _ in range(2):
        answer = act(server.admin, "replay", dry_run=True, type=name)
        assert answer == {"matched": 3, "done": 0, "remaining": 3, "next_cursor": None}
    assert all(server.admin.job(job["id"])["status"] == "failed" for job in jobs)


def test_all_that_match_are_replayed_and_nothing_else(server: LiveServer) -> None:
    name, other = server.type(), server.type()
    jobs, apart = [dead(server, name) for _ in range(3)], dead(server, other)
    assert act(server.admin, "replay", type=name, status="failed") == {
        "matched": 3,
        "done": 3,
        "remaining": 0,
        "next_cursor": None,
    }
    assert [server.admin.job(job["id"])["status"] for job in [*jobs, apart]] == [*["pending"] * 3, "failed"]
    assert act(server.admin, "replay", type=name)["matched"] == 0
    assert act(server.admin, "cancel", type=name)["done"] == 3
    assert act(server.admin, "delete", type=name)["done"] == 3
    problem(server.admin.get(f"/jobs/{jobs[0]['id']}"), 404, "not-found")


def test_a_key_holds_its_job_back_without_being_counted_as_done(server: LiveServer) -> None:
    name = server.type()
    guarded = dead(server, name, idempotency_key=fresh("key"))
    dead(server, name)
    answer = act(server.admin, "delete", type=name)
    assert (answer["matched"], answer["done"], answer["remaining"]) == (2, 1, 0)
    assert server.admin.job(guarded["id"])["status"] == "failed"


def test_an_action_stays_within_the_range_of_its_token(server: LiveServer) -> None:
    name, other = server.type(), server.type()
    jobs = [dead(server, name), dead(server, other)]
    ranged = server.token("operator", types=[name])
    answer = ranged.post("/jobs/actions", {"action": "replay", "dry_run": False, "all": True})
    assert (answer.json()["matched"], answer.json()["done"]) == (1, 1)
    assert [server.admin.job(job["id"])["status"] for job in jobs] == ["pending", "failed"]


def test_a_filter_on_contents_needs_detail_read(server: LiveServer) -> None:
    name = server.type()
    dead(server, name, payload={"to": "ann"})
    manager = server.token(scopes=["jobs:manage", "jobs:read"])
    body = {"action": "replay", "dry_run": True, "filter": {"type": name, "q": "ann"}}
    problem(manager.post("/jobs/actions", body), 403, "forbidden")
    assert server.admin.post("/jobs/actions", body).json()["matched"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "replay", "filter": {"type": "x"}}, "dry_run"),
        ({"action": "replay", "dry_run": True}, "all"),
        ({"action": "replay", "dry_run": True, "filter": {}}, "all"),
        ({"action": "burn", "dry_run": True, "all": True}, "action"),
        ({"action": "replay", "dry_run": True, "filter": {"status": "running"}}, "filter.status"),
        ({"action": "delete", "dry_run": True, "filter": {"status": "odd"}}, "filter.status"),
        ({"action": "delete", "dry_run": True, "filter": {"created_after": "now"}}, "filter.created_after"),
        ({"action": "delete", "dry_run": True, "filter": {"nothing": 1}}, "filter.nothing"),
        ({"action": "delete", "dry_run": True, "all": True, "cursor": "odd"}, "cursor"),
    ],
)
def test_an_action_that_is_not_clear_is_refused(server: LiveServer, body: Any, field: str) -> None:
    assert fields(server.admin.post("/jobs/actions", body)) == [field]


def test_a_filter_that_is_not_built_yet_is_named(server: LiveServer) -> None:
    body = {"action": "replay", "dry_run": True, "filter": {"tag": "x"}}
    assert fields(server.admin.post("/jobs/actions", body), "not-available-yet") == ["filter.tag"]


def test_more_than_ten_thousand_take_several_calls(server: LiveServer) -> None:
    name = server.type()
    for _ in range(3):
        jobs = [{"type": name}] * 4_000
        assert server.admin.post("/jobs/batch", {"jobs": jobs}).status_code == 200
    body: dict[str, Any] = {"action": "cancel", "dry_run": False, "filter": {"type": name}}
    first = server.admin.post("/jobs/actions", body).json()
    assert (first["matched"], first["done"], first["remaining"]) == (12_000, 10_000, 2_000)
    second = server.admin.post("/jobs/actions", {**body, "cursor": first["next_cursor"]}).json()
    assert (second["matched"], second["done"], second["remaining"]) == (2_000, 2_000, 0)
    assert second["next_cursor"] is None
