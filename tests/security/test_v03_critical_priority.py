"""V-03: an API that takes any priority lets a plain producer push its jobs before everybody else's."""

from __future__ import annotations

import pytest

from tests.live_server import LiveServer, problem
from tests.security.evidence import check_answer, jobs_of


@pytest.mark.parametrize("priority", ["critical", "high", "CRITICAL", "Critical"])
def test_v03_critical_priority_is_refused_to_a_plain_producer(server: LiveServer, priority: str) -> None:
    producer, type = server.token("producer"), server.type()
    answer = producer.post("/jobs", {"type": type, "priority": priority})
    problem(answer, 403, "forbidden")
    check_answer(server, answer)
    jobs = {"jobs": [{"type": type, "priority": priority}]}
    (item,) = producer.post("/jobs/batch", jobs).json()["items"]
    assert item["status"] == 403
    problem(producer.post("/jobs/batch?atomic=true", jobs), 403, "forbidden")
    assert jobs_of(server, type) == []


def test_v03_critical_priority_of_a_type_is_lowered_to_the_ceiling(server: LiveServer) -> None:
    type = server.type(default_priority="critical")
    assert server.token("producer").enqueue(type)["priority"] == "medium"
    assert server.token("producer", max_priority="low").enqueue(type)["priority"] == "low"
    assert server.admin.enqueue(type)["priority"] == "critical"


def test_v03_critical_priority_does_not_come_with_a_known_key(server: LiveServer) -> None:
    producer, type = server.token("producer"), server.type()
    job = producer.enqueue(type, idempotency_key="k")
    again = {"type": type, "idempotency_key": "k", "priority": "critical"}
    problem(producer.post("/jobs", again), 403, "forbidden")
    assert server.admin.job(job["id"])["priority"] == "low"


def test_v03_critical_priority_cannot_be_granted_by_who_lacks_it(server: LiveServer) -> None:
    manager = server.token(scopes=["tokens:manage", "jobs:enqueue"], max_priority="high")
    asked = {"name": "v03-climber", "scopes": ["jobs:enqueue"], "max_priority": "critical"}
    assert problem(manager.post("/tokens", asked), 403, "forbidden")["errors"][0]["field"] == "max_priority"
    problem(manager.post("/tokens", {"name": "v03-admin", "preset": "admin"}), 403, "forbidden")


def test_v03_critical_priority_of_a_type_needs_the_ceiling(server: LiveServer) -> None:
    writer = server.token(scopes=["types:write"])
    problem(writer.put("/types/v03-urgent", {"default_priority": "critical"}), 403, "forbidden")
