"""Claim, complete, fail, heartbeat, release: what a worker does with a job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live_server import Api, LiveServer, fields, fresh, problem


def held(server: LiveServer, api: Api | None = None, **type_fields: Any) -> dict[str, Any]:
    """A job that ``api`` (else the admin) has just claimed."""
    name = server.type(**type_fields)
    server.admin.enqueue(name)
    return (api or server.admin).claim(name)


def test_a_claim_hands_out_the_job_with_its_lease(server: LiveServer) -> None:
    name = server.type(lease_seconds=60)
    queued = server.admin.enqueue(name, payload={"n": 1})
    job = server.admin.claim(name, instance="host-1")
    assert (job["id"], job["status"], job["payload"]) == (queued["id"], "running", {"n": 1})
    assert (job["lease_seconds"], job["heartbeat_seconds"], job["worker_id"]) == (60, 20, "admin/host-1")
    assert len(bytes.fromhex(job["lease_token"])) == 16


def test_the_lease_token_is_in_no_other_answer(server: LiveServer) -> None:
    job = held(server)
    for answer in (server.admin.get(f"/jobs/{job['id']}"), server.admin.get("/jobs", type=job["type"])):
        assert job["lease_token"] not in answer.text


def test_a_claim_may_ask_for_its_own_lease_but_not_ten_times_the_types(server: LiveServer) -> None:
    name = server.type(lease_seconds=3)
    server.admin.enqueue(name)
    server.admin.enqueue(name)
    assert server.admin.claim(name, lease_seconds=20)["lease_seconds"] == 20
    assert server.admin.claim(name, lease_seconds=50)["lease_seconds"] == 30


def test_the_highest_priority_comes_first_then_the_lowest_id(server: LiveServer) -> None:
    name = server.type()
    low = server.admin.enqueue(name)
    high = [server.admin.enqueue(name, priority="high") for _ in range(2)]
    claimed = [server.admin.claim(name)["id"] for _ in range(3)]
    assert claimed == [high[0]["id"], high[1]["id"], low["id"]]


def test_a_worker_cannot_say_who_it_is(server: LiveServer) -> None:
    assert fields(server.admin.post("/jobs/claim", {"worker_id": "somebody"})) == ["worker_id"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("types", []),
        ("types", ["nobody.put.this"]),
        ("types", ["a"] * 101),
        ("queues", []),
        ("queues", ["NOT A NAME"]),
        ("queues", ["a"] * 101),
        ("instance", ""),
        ("instance", "a/b"),
        ("instance", "x" * 65),
        ("lease_seconds", 1),
        ("lease_seconds", 86_401),
        ("wait_seconds", -1),
        ("wait_seconds", 61),
        ("claim_id", "no-uuid"),
    ],
)
def test_a_claim_is_checked(server: LiveServer, field: str, value: Any) -> None:
    assert fields(server.admin.post("/jobs/claim", {field: value})) == [field]


def test_a_claim_out_of_range_is_403_and_one_without_names_stays_within_it(server: LiveServer) -> None:
    mine, other = server.type(), server.type()
    worker = server.token("worker", types=[mine])
    server.admin.enqueue(other, priority="critical")
    job = server.admin.enqueue(mine)
    problem(worker.post("/jobs/claim", {"types": [mine, other]}), 403, "forbidden")
    problem(worker.post("/jobs/claim", {"types": ["nobody.put.this"]}), 403, "forbidden")
    assert worker.post("/jobs/claim", {}).json()["id"] == job["id"]
    assert worker.post("/jobs/claim", {}).status_code == 204
    problem(server.token("worker", queues=["a"]).post("/jobs/claim", {"queues": ["b"]}), 403, "forbidden")


def test_a_worker_sees_of_its_job_all_but_error_and_key(server: LiveServer) -> None:
    name, worker = server.type(backoff={"strategy": "none"}), server.token("worker")
    server.admin.enqueue(name, payload={"a": 1}, idempotency_key="secret")
    worker.finish(worker.claim(name), "fail", error="broken")
    job = worker.claim(name)
    assert (job["payload"], job["error"], job["has_error"], job["idempotency_key"]) == (
        {"a": 1},
        None,
        True,
        None,
    )
    assert worker.finish(job, "complete", result=[1]).json()["result"] == [1]


def test_complete_ends_the_job_and_may_be_repeated(server: LiveServer) -> None:
    job = held(server)
    done = server.admin.finish(job, "complete", result={"ok": True})
    assert (done.status_code, done.json()["status"], done.json()["result"]) == (
        200,
        "completed",
        {"ok": True},
    )
    assert server.admin.finish(job, "complete").status_code == 200
    problem(server.admin.finish(job, "fail"), 409, "job-not-held")


@pytest.mark.parametrize("verb", ["complete", "fail", "heartbeat", "release"])
def test_nothing_is_done_without_the_lease_token(server: LiveServer, verb: str) -> None:
    job = held(server)
    assert fields(server.admin.post(f"/jobs/{job['id']}/{verb}", {})) == ["lease_token"]
    for wrong in ("0" * 32, "", "zz", "0" * 31, " " * 32, "é" * 32):
        problem(server.admin.post(f"/jobs/{job['id']}/{verb}", {"lease_token": wrong}), 409, "job-not-held")
    problem(server.admin.post(f"/jobs/999999999/{verb}", {"lease_token": "0" * 32}), 409, "job-not-held")
    assert server.admin.job(job["id"])["status"] == "running"


@pytest.mark.parametrize("verb", ["complete", "fail", "heartbeat", "release"])
def test_another_workers_job_cannot_be_touched_even_with_its_lease_token(
    server: LiveServer, verb: str
) -> None:
    job = held(server, server.token("worker"))
    problem(server.token("worker").finish(job, verb), 409, "job-not-held")
    assert server.admin.job(job["id"])["status"] == "running"


def test_a_failure_is_retried_and_then_final(server: LiveServer) -> None:
    name = server.type(max_retries=1, backoff={"strategy": "none"})
    server.admin.enqueue(name)
    first = server.admin.finish(server.admin.claim(name), "fail", error="no luck").json()
    assert (first["status"], first["retry_count"], first["error"]) == ("pending", 1, "no luck")
    last = server.admin.finish(server.admin.claim(name), "fail").json()
    assert (last["status"], last["has_error"], last["error"]) == ("failed", True, "the worker gave no reason")


def test_a_failure_may_forbid_the_retry_or_set_its_delay(server: LiveServer) -> None:
    assert server.admin.finish(held(server), "fail", retryable=False).json()["status"] == "failed"
    job = held(server)
    assert server.admin.finish(job, "fail", retry_in_seconds=3600).json()["status"] == "pending"
    assert server.admin.post("/jobs/claim", {"types": [job["type"]]}).status_code == 204
    assert fields(server.admin.finish(held(server), "fail", retry_in_seconds=31 * 86_400)) == [
        "retry_in_seconds"
    ]


def test_error_texts_are_cleaned_and_never_refused(server: LiveServer) -> None:
    job = held(server)
    text = rb"nul \u0000, half \ud800, pair \ud83d\ude00, password=hunter2 in /etc/shadow"
    body = b'{"lease_token":"' + job["lease_token"].encode() + b'","retryable":false,"error":"' + text + b'"}'
    answer = server.admin.post(f"/jobs/{job['id']}/fail", body)
    assert answer.status_code == 200, answer.text
    error = answer.json()["error"]
    assert error.startswith("nul \\u0000, half \\ud800, pair 😀, password=")
    assert "hunter2" not in error
    assert "shadow" not in error


def test_error_texts_are_cut_at_8_kib(server: LiveServer) -> None:
    error = server.admin.finish(held(server), "fail", error="x y " * 5_000, retryable=False).json()["error"]
    assert 8_000 < len(error.encode()) <= 8_192


def test_a_heartbeat_extends_the_lease_and_keeps_what_is_reported(server: LiveServer) -> None:
    job = held(server, lease_seconds=30)
    beaten = server.admin.finish(
        job,
        "heartbeat",
        lease_seconds=200,
        started=True,
        progress={"current": 3, "total": 10, "message": "three \u0000"},
        log="line one",
    )
    assert beaten.status_code == 200
    assert beaten.json()["cancel_requested"] is False
    assert beaten.json()["lease_expires_at"] > job["lease_expires_at"]
    seen = server.admin.job(job["id"])
    assert seen["progress"] == {"current": 3, "total": 10, "message": "three \\u0000"}
    assert seen["started_at"] is not None
    logs = server.admin.get(f"/jobs/{job['id']}/logs").json()
    assert [line["text"] for line in logs["items"]] == ["line one"]


def test_a_heartbeat_tells_of_a_cancellation(server: LiveServer) -> None:
    job = held(server)
    asked = server.admin.post(f"/jobs/{job['id']}/cancel")
    assert (asked.json()["status"], asked.json()["cancel_requested"]) == ("running", True)
    assert server.admin.finish(job, "heartbeat").json()["cancel_requested"] is True
    assert server.admin.finish(job, "release").json()["status"] == "cancelled"


def test_a_release_gives_the_job_back_uncounted(server: LiveServer) -> None:
    job = held(server)
    back = server.admin.finish(job, "release").json()
    assert (back["status"], back["retry_count"], back["worker_id"]) == ("pending", 0, None)
    again = server.admin.claim(job["type"])
    assert again["id"] == job["id"]
    problem(server.admin.finish(job, "complete"), 409, "job-not-held")
    server.admin.finish(again, "release", snooze_seconds=3600)
    assert server.admin.post("/jobs/claim", {"types": [job["type"]]}).status_code == 204


def test_cancel_and_replay_follow_the_states(server: LiveServer) -> None:
    name = server.type()
    job = server.admin.enqueue(name)
    path = f"/jobs/{job['id']}"
    problem(server.admin.post(f"{path}/replay"), 409, "not-replayable")
    assert server.admin.post(f"{path}/cancel").json()["status"] == "cancelled"
    problem(server.admin.post(f"{path}/cancel"), 409, "job-ended")
    assert server.admin.post(f"{path}/replay").json()["status"] == "pending"
    problem(server.admin.post("/jobs/999999999/cancel"), 404, "not-found")
    problem(server.token("worker").post(f"{path}/cancel"), 403, "forbidden")


def test_a_paused_type_hands_nothing_out(server: LiveServer) -> None:
    name = server.type()
    server.admin.enqueue(name)
    server.admin.post(f"/types/{name}/pause")
    assert server.admin.post("/jobs/claim", {"types": [name]}).status_code == 204
    server.admin.post(f"/types/{name}/resume")
    server.admin.claim(name)


def test_a_revoked_workers_jobs_go_back_at_once(server: LiveServer) -> None:
    token = server.admin.post("/tokens", {"name": fresh("token"), "preset": "worker"}).json()
    job = held(server, server.api(token["token"]))
    server.admin.post(f"/tokens/{token['key_id']}/revoke")
    assert server.admin.claim(job["type"])["id"] == job["id"]


def test_a_claim_may_be_repeated_under_its_claim_id(server: LiveServer) -> None:
    name = server.type()
    server.admin.enqueue(name)
    claim_id = "0b3e5a3e-8f7a-4c55-9d3a-1f1f1f1f1f1f"
    first = server.admin.claim(name, claim_id=claim_id)
    again = server.admin.claim(name, claim_id=claim_id, repeat=True)
    assert (again["id"], again["lease_token"]) == (first["id"], first["lease_token"])
