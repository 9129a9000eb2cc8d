"""POST /jobs: what is taken, what is refused, and what a repeat gets."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.live_server import LiveServer, created, fields, problem


def stamp(seconds: float) -> str:
    """An instant that many seconds from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_job_gets_the_defaults_of_its_type(server: LiveServer) -> None:
    name = server.type(
        queue="mail", default_priority="high", max_retries=7, timeout_seconds=12, lease_seconds=20
    )
    answer = server.admin.post("/jobs", {"type": name, "payload": {"to": "a"}})
    job = created(answer)
    assert answer.headers["location"] == f"/jobs/{job['id']}"
    assert (job["queue"], job["priority"], job["max_retries"], job["timeout_seconds"]) == (
        "mail",
        "high",
        7,
        12,
    )
    assert (job["status"], job["retry_count"], job["payload"]) == ("pending", 0, {"to": "a"})


def test_what_the_producer_says_goes_before_the_type(server: LiveServer) -> None:
    server.type(queue="other-queue")
    name = server.type(default_priority="low", max_retries=7, timeout_seconds=12)
    job = server.admin.enqueue(
        name, priority="CRITICAL", max_retries=0, timeout_seconds=1.5, queue="other-queue"
    )
    assert (job["queue"], job["priority"], job["max_retries"], job["timeout_seconds"]) == (
        *("other-queue", "critical", 0),
        1.5,
    )


def test_an_unknown_type_is_422_and_a_reserved_one_403(server: LiveServer) -> None:
    assert fields(server.admin.post("/jobs", {"type": "nobody.put.this"})) == ["type"]
    problem(server.admin.post("/jobs", {"type": "rota.rpc"}), 403, "forbidden")


@pytest.mark.parametrize(
    "type", ["'; DROP TABLE rota_jobs; --", "../../etc/passwd", "", "a\u0000", "é" * 100]
)
def test_odd_type_names_are_refused_without_being_echoed(server: LiveServer, type: str) -> None:
    answer = server.admin.post("/jobs", {"type": type})
    problem(answer, 422, "validation-failed")
    assert not type or type not in answer.json()["detail"]


def test_a_type_or_queue_out_of_range_is_403_on_creation(server: LiveServer) -> None:
    mine, other = server.type(), server.type(queue="elsewhere")
    by_type = server.token("producer", types=[mine])
    by_type.enqueue(mine)
    problem(by_type.post("/jobs", {"type": other}), 403, "forbidden")
    problem(by_type.post("/jobs", {"type": "nobody.put.this"}), 403, "forbidden")
    by_queue = server.token("producer", queues=["default"])
    by_queue.enqueue(mine)
    problem(by_queue.post("/jobs", {"type": other}), 403, "forbidden")
    problem(by_queue.post("/jobs", {"type": mine, "queue": "elsewhere"}), 403, "forbidden")


def test_the_queue_must_be_default_or_named_by_a_type(server: LiveServer) -> None:
    name = server.type(queue="named-by-a-type")
    assert server.admin.enqueue(name, queue="default")["queue"] == "default"
    assert fields(server.admin.post("/jobs", {"type": name, "queue": "made-up"})) == ["queue"]


def test_the_ceiling_refuses_an_explicit_priority_and_lowers_a_default(server: LiveServer) -> None:
    name = server.type(default_priority="critical")
    producer = server.token("producer")
    assert producer.enqueue(name)["priority"] == "medium"
    assert producer.enqueue(name, priority="Low")["priority"] == "low"
    problem(producer.post("/jobs", {"type": name, "priority": "high"}), 403, "forbidden")
    problem(producer.post("/jobs", {"type": name, "priority": "CRITICAL"}), 403, "forbidden")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", "urgent"),
        ("max_retries", -1),
        ("max_retries", 10_001),
        ("max_retries", 10**30),
        ("max_retries", 1.5),
        ("delay_seconds", -1),
        ("delay_seconds", 1e12),
        ("delay_seconds", "soon"),
        ("run_at", "tomorrow"),
        ("run_at", "2026-12-01T08:30:00"),
        ("run_at", "9999-12-31T23:59:59Z"),
        ("timeout_seconds", 0),
        ("timeout_seconds", 1e9),
        ("idempotency_key", ""),
        ("idempotency_key", "x" * 256),
        ("idempotency_key", "ümlaut"),
        ("idempotency_key", "a\nb"),
        ("request_uid", "no-uuid"),
        ("payloads", {}),
        ("worker_id", "me"),
        ("status", "completed"),
    ],
)
def test_a_wrong_or_unknown_field_is_422_and_named(server: LiveServer, field: str, value: Any) -> None:
    assert fields(server.admin.post("/jobs", {"type": server.type(), field: value})) == [field]


@pytest.mark.parametrize("field", ["unique_key", "key", "depends_on", "expires_at", "tags"])
def test_fields_of_parts_not_built_yet_are_refused_as_such(server: LiveServer, field: str) -> None:
    answer = server.admin.post("/jobs", {"type": server.type(), field: None})
    assert fields(answer, "not-available-yet") == [field]


def test_a_missing_type_is_named(server: LiveServer) -> None:
    assert fields(server.admin.post("/jobs", {})) == ["type"]
    assert fields(server.admin.post("/jobs")) == ["type"]


def test_run_at_and_delay_are_exclusive(server: LiveServer) -> None:
    answer = server.admin.post("/jobs", {"type": server.type(), "run_at": stamp(9), "delay_seconds": 9})
    assert fields(answer) == ["run_at"]


def test_a_delayed_job_waits_and_one_whose_time_has_passed_does_not(server: LiveServer) -> None:
    later, past = server.type(), server.type()
    server.admin.enqueue(later, delay_seconds=3600)
    job = server.admin.enqueue(later, run_at=stamp(3600))
    assert job["run_at"].endswith("Z")
    assert server.admin.post("/jobs/claim", {"types": [later]}).status_code == 204
    server.admin.enqueue(past, run_at=stamp(-3600))
    assert server.admin.claim(past)["status"] == "running"


def test_a_delayed_job_is_handed_out_when_its_time_has_come(server: LiveServer) -> None:
    name = server.type()
    job = server.admin.enqueue(name, delay_seconds=0.3)
    assert server.admin.claim(name, wait_seconds=10)["id"] == job["id"]


def test_the_same_key_gives_the_stored_job(server: LiveServer) -> None:
    name, producer = server.type(), server.token("producer")
    first = created(producer.post("/jobs", {"type": name, "payload": 1}, Idempotency_Key="order 7"))
    assert first["idempotency_key"] == "order 7"
    again = producer.post("/jobs", {"type": name, "payload": 1, "idempotency_key": "order 7"})
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-mismatch" not in again.headers
    other = producer.post("/jobs", {"type": name, "payload": 2}, Idempotency_Key="order 7")
    assert (other.status_code, other.json()["payload"]) == (200, 1)
    assert other.headers["idempotency-mismatch"] == "true"


def test_a_key_in_header_and_body_must_be_the_same(server: LiveServer) -> None:
    body = {"type": server.type(), "idempotency_key": "a"}
    assert fields(server.admin.post("/jobs", body, Idempotency_Key="b")) == ["idempotency_key"]
    created(server.admin.post("/jobs", body, Idempotency_Key="a"))


def test_keys_belong_to_their_producer(server: LiveServer) -> None:
    name = server.type()
    one = created(server.token("producer").post("/jobs", {"type": name}, Idempotency_Key="k"))
    two = created(server.token("producer").post("/jobs", {"type": name}, Idempotency_Key="k"))
    assert one["id"] != two["id"]


def test_a_repeated_request_uid_never_doubles_a_job(server: LiveServer) -> None:
    body = {"type": server.type(), "request_uid": str(uuid.uuid4())}
    first = created(server.admin.post("/jobs", body))
    again = server.admin.post("/jobs", body)
    assert (again.status_code, again.json()["id"]) == (200, first["id"])


def test_validation_comes_before_the_key(server: LiveServer) -> None:
    name = server.type()
    server.admin.enqueue(name, idempotency_key="known")
    answer = server.admin.post("/jobs", {"type": name, "idempotency_key": "known", "max_retries": -1})
    assert fields(answer) == ["max_retries"]


def test_a_deleted_type_takes_no_jobs_until_it_is_put_again(server: LiveServer) -> None:
    name = server.type()
    assert server.admin.delete(f"/types/{name}").status_code == 204
    assert fields(server.admin.post("/jobs", {"type": name})) == ["type"]
    assert server.admin.put(f"/types/{name}", {}).status_code == 201
    server.admin.enqueue(name)
