"""Queues over HTTP: listed, made, paused, resumed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live_server import Api, LiveServer, created, fields, fresh, problem


def queue(api: Api, name: str) -> dict[str, Any] | None:
    items = api.get("/queues").json()["items"]
    return next((item for item in items if item["name"] == name), None)


def test_a_made_queue_takes_jobs_and_another_does_not(server: LiveServer) -> None:
    name, made = server.type(), fresh("queue")
    assert fields(server.admin.post("/jobs", {"type": name, "queue": made})) == ["queue"]
    answer = server.admin.put(f"/queues/{made}", {})
    assert (answer.status_code, answer.json()["paused"]) == (201, False)
    assert server.admin.put(f"/queues/{made}", {}).status_code == 200
    assert server.admin.enqueue(name, queue=made)["queue"] == made


def test_the_list_shows_what_waits(server: LiveServer) -> None:
    made = fresh("queue")
    name = server.type(queue=made)
    server.admin.enqueue(name)
    server.admin.enqueue(name)
    server.admin.enqueue(name, delay_seconds=60)
    server.admin.claim(name)
    shown = queue(server.admin, made)
    assert shown is not None
    assert 0 <= shown.pop("oldest_ready_seconds") < 60
    assert shown == {"name": made, "paused": False, "ready": 1, "delayed": 1, "running": 1}
    assert queue(server.admin, "default") is not None


def test_a_paused_queue_hands_out_nothing(server: LiveServer) -> None:
    made = fresh("queue")
    name = server.type(queue=made)
    job = server.admin.enqueue(name)
    paused = server.admin.post(f"/queues/{made}/pause")
    assert (paused.status_code, paused.json()["paused"]) == (200, True)
    shown = queue(server.admin, made)
    assert shown is not None
    assert shown["paused"]
    assert server.admin.post("/jobs/claim", {"types": [name]}).status_code == 204
    assert server.admin.put(f"/queues/{made}", {}).json()["paused"]
    assert not server.admin.post(f"/queues/{made}/resume").json()["paused"]
    assert server.admin.claim(name)["id"] == job["id"]


def test_what_is_out_of_range_can_be_neither_seen_nor_stopped(server: LiveServer) -> None:
    mine, other = fresh("queue"), fresh("queue")
    for each in (mine, other):
        created(server.admin.put(f"/queues/{each}", {}))
    operator = server.token("operator", queues=[mine])
    assert [item["name"] for item in operator.get("/queues").json()["items"]] == [mine]
    assert operator.post(f"/queues/{mine}/pause").status_code == 200
    for each in (other, "never-made"):
        problem(operator.post(f"/queues/{each}/pause"), 404, "not-found")
    problem(operator.put(f"/queues/{other}", {}), 403, "forbidden")


def test_a_token_for_some_types_stops_no_queue(server: LiveServer) -> None:
    operator = server.token("operator", types=[server.type()])
    for verb in ("pause", "resume"):
        problem(operator.post(f"/queues/default/{verb}"), 403, "forbidden")
    problem(operator.put(f"/queues/{fresh('queue')}", {}), 403, "forbidden")


@pytest.mark.parametrize("name", ["Upper", "-dash", "a" * 65])
def test_odd_names_are_refused(server: LiveServer, name: str) -> None:
    assert fields(server.admin.put(f"/queues/{name}", {})) == ["name"]
