"""V-05: an API that finishes by id alone lets every worker end every other worker's job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live_server import Api, LiveServer, fields, problem
from tests.security.evidence import check_answer

VERBS = ["complete", "fail", "release", "heartbeat"]
REPORTS: dict[str, dict[str, Any]] = {
    "complete": {"result": "stolen"},
    "fail": {"error": "stolen", "retryable": False},
    "release": {"snooze_seconds": 60},
    "heartbeat": {"lease_seconds": 2, "log": "stolen", "progress": {"message": "stolen"}},
}


def held_job(server: LiveServer) -> tuple[Api, dict[str, Any]]:
    """A worker and the job that it holds."""
    type = server.type()
    worker = server.token("worker")
    server.admin.enqueue(type)
    return worker, worker.claim(type)


def state(server: LiveServer, id: int) -> tuple[dict[str, Any], list[Any]]:
    """Everything about a job that a report could have changed."""
    return server.admin.job(id), server.admin.get(f"/jobs/{id}/logs").json()["items"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("thief", ["worker", "admin"])
def test_v05_finishing_anothers_job_even_with_its_lease_token(
    server: LiveServer, verb: str, thief: str
) -> None:
    holder, job = held_job(server)
    before = state(server, job["id"])
    other = server.admin if thief == "admin" else server.token("worker")
    answer = other.finish(job, verb, **REPORTS[verb])
    problem(answer, 409, "job-not-held")
    check_answer(server, answer)
    assert state(server, job["id"]) == before
    assert holder.finish(job, "complete", result="mine").json()["result"] == "mine"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("lease_token", ["0" * 32, "", "x", "0" * 33, "'", "0" * 31 + "\u0000"])
def test_v05_finishing_anothers_job_under_a_guessed_lease_token(
    server: LiveServer, verb: str, lease_token: str
) -> None:
    holder, job = held_job(server)
    before = state(server, job["id"])
    guess = {**job, "lease_token": lease_token}
    problem(holder.finish(guess, verb, **REPORTS[verb]), 409, "job-not-held")
    assert state(server, job["id"]) == before


@pytest.mark.parametrize("verb", VERBS)
def test_v05_finishing_anothers_job_without_a_lease_token(server: LiveServer, verb: str) -> None:
    holder, job = held_job(server)
    assert fields(holder.post(f"/jobs/{job['id']}/{verb}", REPORTS[verb])) == ["lease_token"]
    assert server.admin.job(job["id"])["status"] == "running"


@pytest.mark.parametrize("verb", VERBS)
def test_v05_finishing_anothers_job_that_was_ones_own_before(server: LiveServer, verb: str) -> None:
    first, job = held_job(server)
    assert first.finish(job, "release").status_code == 200
    second = server.token("worker")
    again = second.claim(job["type"])
    assert again["id"] == job["id"]
    before = state(server, job["id"])
    problem(first.finish(job, verb, **REPORTS[verb]), 409, "job-not-held")
    problem(second.finish(job, verb, **REPORTS[verb]), 409, "job-not-held")
    assert state(server, job["id"]) == before


def test_v05_finishing_anothers_job_in_a_batch(server: LiveServer) -> None:
    thief, own = held_job(server)
    holder, job = held_job(server)
    before = state(server, job["id"])
    stolen = {"id": job["id"], "lease_token": job["lease_token"]}
    outcomes = [
        {**stolen, "outcome": "complete", "result": "stolen"},
        {**stolen, "outcome": "fail", "error": "stolen"},
        {**stolen, "outcome": "release"},
        {"id": own["id"], "lease_token": job["lease_token"], "outcome": "complete"},
        {"id": job["id"], "lease_token": own["lease_token"], "outcome": "complete"},
        {"id": own["id"], "lease_token": own["lease_token"], "outcome": "complete"},
    ]
    items = thief.post("/jobs/batch/finish", {"outcomes": outcomes}).json()["items"]
    assert [item["status"] for item in items] == [409, 409, 409, 409, 409, 200]
    (beat,) = thief.post("/jobs/batch/heartbeat", {"beats": [{**stolen, "log": "stolen"}]}).json()["items"]
    assert beat["status"] == 409
    assert state(server, job["id"]) == before
    assert holder.finish(job, "complete").status_code == 200


def test_v05_finishing_anothers_job_after_the_token_was_revoked(server: LiveServer) -> None:
    holder, job = held_job(server)
    key_id = str(holder.token)[5:17]
    assert server.admin.post(f"/tokens/{key_id}/revoke").status_code == 200
    problem(holder.finish(job, "complete"), 401, "unauthenticated")
    assert server.admin.job(job["id"])["status"] == "pending"
    problem(server.token("worker").finish(job, "complete"), 409, "job-not-held")


def test_v05_finishing_anothers_job_never_learns_the_lease_token(server: LiveServer) -> None:
    _, job = held_job(server)
    for path in (f"/jobs/{job['id']}", f"/jobs?type={job['type']}", f"/jobs/{job['id']}/attempts"):
        answer = server.admin.get(path)
        assert answer.status_code == 200
        assert job["lease_token"] not in answer.text
