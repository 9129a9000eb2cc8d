"""V-04: an API that believes the worker id in a body lets one worker act in another's name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live_server import LiveServer, fields
from tests.security.evidence import named


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/jobs/claim", {}, "worker_id"),
        ("/jobs/batch/claim", {"limit": 1}, "worker_id"),
        ("/jobs/claim", {}, "owner"),
        ("/jobs/{id}/heartbeat", {"lease_token": "{lease}"}, "worker_id"),
        ("/jobs/{id}/complete", {"lease_token": "{lease}"}, "worker_id"),
        ("/jobs/{id}/fail", {"lease_token": "{lease}"}, "worker_id"),
        ("/jobs/{id}/release", {"lease_token": "{lease}"}, "worker_id"),
    ],
)
def test_v04_spoofed_worker_id_is_refused(
    server: LiveServer, path: str, body: dict[str, Any], field: str
) -> None:
    type = server.type()
    worker, victim = server.token("worker"), named(server, "worker")[1]["name"]
    for _ in range(2):
        server.admin.enqueue(type)
    held = worker.claim(type)
    body = {key: held["lease_token"] if value == "{lease}" else value for key, value in body.items()}
    answer = worker.post(path.format(id=held["id"]), {**body, field: victim})
    assert fields(answer) == [field]
    assert server.admin.job(held["id"])["status"] == "running"
    assert worker.get("/jobs", type=type).json()["items"][0]["id"] == held["id"]


@pytest.mark.parametrize("place", ["outcomes", "beats"])
def test_v04_spoofed_worker_id_in_a_batch_is_refused(server: LiveServer, place: str) -> None:
    type = server.type()
    worker = server.token("worker")
    server.admin.enqueue(type)
    held = worker.claim(type)
    entry = {"id": held["id"], "lease_token": held["lease_token"], "worker_id": "somebody"}
    if place == "outcomes":
        answer = worker.post("/jobs/batch/finish", {"outcomes": [{**entry, "outcome": "complete"}]})
    else:
        answer = worker.post("/jobs/batch/heartbeat", {"beats": [entry]})
    assert fields(answer)[0].endswith("worker_id")
    assert server.admin.job(held["id"])["status"] == "running"


@pytest.mark.parametrize("instance", ["", "a/b", "../victim", "a b", "ü", "a" * 65, "a\n", "victim/1"])
def test_v04_spoofed_worker_id_by_way_of_the_instance(server: LiveServer, instance: str) -> None:
    worker = server.token("worker")
    assert fields(worker.post("/jobs/claim", {"instance": instance})) == ["instance"]
    assert fields(worker.post("/jobs/batch/claim", {"instance": instance, "limit": 1})) == ["instance"]


def test_v04_spoofed_worker_id_never_replaces_the_tokens_name(server: LiveServer) -> None:
    type = server.type()
    worker, token = named(server, "worker")
    for _ in range(2):
        server.admin.enqueue(type)
    headers = {"X-Worker-Id": "victim", "Worker-Id": "victim", "User-Agent": "victim"}
    plain = worker.post("/jobs/claim", {"types": [type]}, **headers).json()
    several = worker.claim(type, instance="host-1.4711")
    assert plain["worker_id"] == token["name"]
    assert several["worker_id"] == f"{token['name']}/host-1.4711"
    assert server.admin.job(several["id"])["worker_id"] == f"{token['name']}/host-1.4711"
