"""Many jobs in one request: each with its own verdict, in the order asked, or all or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.live_server import LiveServer, fields, problem


def items(answer: Any, status: int = 200) -> list[dict[str, Any]]:
    assert answer.status_code == status, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_each_job_of_a_batch_has_its_own_verdict(server: LiveServer) -> None:
    name = server.type()
    verdicts = items(
        server.admin.post(
            "/jobs/batch",
            {
                "jobs": [
                    {"type": name, "payload": 1},
                    {"type": "nobody.put.this"},
                    {"type": name, "priority": "nonsense"},
                    {"type": name, "tags": []},
                    17,
                    {"type": "rota.rpc"},
                    {"type": name, "payload": 2},
                ]
            },
        )
    )
    assert [verdict["status"] for verdict in verdicts] == [201, 422, 422, 422, 422, 403, 201]
    assert [verdict["job"]["payload"] for verdict in (verdicts[0], verdicts[-1])] == [1, 2]
    assert verdicts[0]["job"]["id"] < verdicts[-1]["job"]["id"]
    assert verdicts[1]["problem"]["errors"][0]["field"] == "type"
    assert verdicts[3]["problem"]["type"] == "/problems/not-available-yet"


def test_the_same_key_twice_in_one_batch_is_201_then_200(server: LiveServer) -> None:
    name = server.type()
    job = {"type": name, "idempotency_key": "twice"}
    one, two, other = items(server.admin.post("/jobs/batch", {"jobs": [job, job, {**job, "payload": 5}]}))
    assert (one["status"], two["status"]) == (201, 200)
    assert one["job"]["id"] == two["job"]["id"] == other["job"]["id"]
    assert (two["idempotency_replayed"], other["idempotency_mismatch"]) == (True, True)


def test_an_atomic_batch_is_stored_as_a_whole(server: LiveServer) -> None:
    name = server.type()
    verdicts = items(server.admin.post("/jobs/batch?atomic=true", {"jobs": [{"type": name}] * 3}), 201)
    assert [verdict["status"] for verdict in verdicts] == [201] * 3


@pytest.mark.parametrize(
    ("fault", "status", "code", "field"),
    [
        ({"type": "nobody.put.this"}, 422, "validation-failed", "jobs[2].type"),
        ({"type": "rota.rpc"}, 403, "forbidden", "jobs[2].type"),
        ({}, 422, "validation-failed", "jobs[2].type"),
        ({"type": "x", "unique_key": "a"}, 422, "not-available-yet", "jobs[2].unique_key"),
    ],
)
def test_one_fault_stops_an_atomic_batch(
    server: LiveServer, fault: dict[str, Any], status: int, code: str, field: str
) -> None:
    name = server.type()
    jobs = [{"type": name}, {"type": name}, fault]
    answer = server.admin.post("/jobs/batch?atomic=true", {"jobs": jobs})
    assert problem(answer, status, code)["errors"][0]["field"] == field
    assert server.admin.get("/jobs", type=name).json()["items"] == []


def test_a_batch_holds_5000_jobs_and_no_more(server: LiveServer) -> None:
    name = server.type()
    jobs = [{"type": name}] * 5_000
    verdicts = items(server.admin.post("/jobs/batch", {"jobs": jobs}))
    assert {verdict["status"] for verdict in verdicts} == {201}
    ids = [verdict["job"]["id"] for verdict in verdicts]
    assert ids == sorted(set(ids))
    assert fields(server.admin.post("/jobs/batch", {"jobs": [*jobs, {"type": name}]})) == ["jobs"]


def test_an_empty_batch_is_answered_with_nothing(server: LiveServer) -> None:
    assert items(server.admin.post("/jobs/batch", {"jobs": []})) == []
    assert items(server.admin.post("/jobs/batch/finish", {"outcomes": []})) == []
    assert items(server.admin.post("/jobs/batch/heartbeat", {"beats": []})) == []


def test_batches_may_be_larger_than_1_mib(server: LiveServer) -> None:
    name = server.type()
    jobs = [{"type": name, "payload": "x" * 60_000}] * 40
    assert {each["status"] for each in items(server.admin.post("/jobs/batch", {"jobs": jobs}))} == {201}


def test_batches_over_32_mib_are_413(server: LiveServer) -> None:
    problem(server.admin.post("/jobs/batch", b" " * (32 * 1_048_576 + 1)), 413, "too-large")


def test_a_batch_claim_takes_up_to_its_limit(server: LiveServer) -> None:
    name = server.type()
    server.admin.post("/jobs/batch", {"jobs": [{"type": name}] * 5})
    claimed = items(server.admin.post("/jobs/batch/claim", {"types": [name], "limit": 3}))
    assert [job["id"] for job in claimed] == sorted(job["id"] for job in claimed)
    assert len({job["lease_token"] for job in claimed}) == 3
    assert len(items(server.admin.post("/jobs/batch/claim", {"types": [name], "limit": 3}))) == 2
    assert items(server.admin.post("/jobs/batch/claim", {"types": [name], "limit": 3})) == []


@pytest.mark.parametrize("limit", [0, 1001, -1, 10**20])
def test_the_limit_of_a_batch_claim_is_checked(server: LiveServer, limit: int) -> None:
    assert fields(server.admin.post("/jobs/batch/claim", {"limit": limit})) == ["limit"]


def test_a_batch_claim_stops_at_8_mib_of_payload(server: LiveServer) -> None:
    name = server.type()
    jobs = [{"type": name, "payload": "x" * 65_000}] * 140
    server.admin.post("/jobs/batch", {"jobs": jobs})
    claimed = items(server.admin.post("/jobs/batch/claim", {"types": [name], "limit": 1000}))
    assert 120 <= len(claimed) < 140


def test_many_jobs_are_finished_each_in_its_way(server: LiveServer) -> None:
    name = server.type(backoff={"strategy": "none"})
    server.admin.post("/jobs/batch", {"jobs": [{"type": name}] * 7})
    held = items(server.admin.post("/jobs/batch/claim", {"types": [name], "limit": 7}))
    names = [{"id": job["id"], "lease_token": job["lease_token"]} for job in held]
    outcomes = [
        {**names[0], "outcome": "complete", "result": {"n": 1}},
        {**names[1], "outcome": "fail", "error": "oh", "retryable": False},
        {**names[2], "outcome": "release", "snooze_seconds": 3600},
        {**names[3], "outcome": "complete", "lease_token": "0" * 32},
        {**names[4], "outcome": "complete", "result": "x" * 70_000},
        {**names[5], "outcome": "complete", "error": "has no meaning here"},
        {**names[6], "id": 2**63, "outcome": "complete"},
    ]
    verdicts = items(server.admin.post("/jobs/batch/finish", {"outcomes": outcomes}))
    assert [verdict["status"] for verdict in verdicts] == [200, 200, 200, 409, 422, 422, 422]
    assert verdicts[3]["problem"]["type"] == "/problems/job-not-held"
    assert verdicts[4]["problem"]["errors"][0]["field"] == "result"
    states = [server.admin.job(job["id"])["status"] for job in held]
    assert states == ["completed", "failed", "pending", "running", "running", "running", "running"]
    assert server.admin.job(held[0]["id"])["result"] == {"n": 1}


def test_a_lone_surrogate_in_one_error_spoils_no_result(server: LiveServer) -> None:
    name = server.type()
    server.admin.post("/jobs/batch", {"jobs": [{"type": name}] * 3})
    held = items(server.admin.post("/jobs/batch/claim", {"types": [name], "limit": 3}))
    outcomes: list[dict[str, Any]] = [
        {"outcome": "fail", "error": "half \ud800", "retryable": False},
        {"outcome": "complete", "result": {"fine": "\\ and 😀"}},
        {"outcome": "complete", "result": "half \udc00"},
    ]
    named = [
        {"id": job["id"], "lease_token": job["lease_token"], **outcome}
        for job, outcome in zip(held, outcomes, strict=True)
    ]
    answer = server.admin.post("/jobs/batch/finish", json.dumps({"outcomes": named}).encode())
    assert [verdict["status"] for verdict in items(answer)] == [200, 200, 422]
    assert server.admin.job(held[0]["id"])["error"] == "half \\ud800"
    assert server.admin.job(held[1]["id"])["result"] == {"fine": "\\ and 😀"}


def test_many_leases_are_extended_at_once(server: LiveServer) -> None:
    name = server.type()
    server.admin.enqueue(name)
    job = server.admin.claim(name)
    beats = [
        {"id": job["id"], "lease_token": job["lease_token"], "lease_seconds": 120, "log": "still here"},
        {"id": job["id"], "lease_token": "0" * 32},
        {"id": job["id"], "lease_token": job["lease_token"], "lease_seconds": 1},
    ]
    verdicts = items(server.admin.post("/jobs/batch/heartbeat", {"beats": beats}))
    assert [verdict["status"] for verdict in verdicts] == [200, 409, 422]
    assert verdicts[0]["lease_expires_at"] > job["lease_expires_at"]
    assert verdicts[0]["cancel_requested"] is False


@pytest.mark.parametrize(
    ("path", "field"),
    [("/jobs/batch", "jobs"), ("/jobs/batch/finish", "outcomes"), ("/jobs/batch/heartbeat", "beats")],
)
def test_millions_of_tiny_items_are_refused_before_they_are_decoded(
    server: LiveServer, path: str, field: str
) -> None:
    body = b'{"%s":[' % field.encode() + b"{}," * 5_000 + b"{}]}"
    refused = problem(server.admin.post(path, body), 422, "validation-failed")
    assert refused["errors"] == [
        {"field": field, "code": "too-many", "message": "holds more than 5,000 items; send less at once"}
    ]


def test_a_batch_of_5_000_items_is_taken(server: LiveServer) -> None:
    name = server.type()
    verdicts = items(server.admin.post("/jobs/batch", {"jobs": [{"type": name, "payload": [1, 2]}] * 5_000}))
    assert {verdict["status"] for verdict in verdicts} == {201}
