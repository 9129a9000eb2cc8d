"""Reading jobs: who sees which, what is masked, filters and cursors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live_server import Api, LiveServer, fields, fresh, problem


def ids(api: Api, **params: Any) -> list[int]:
    """The ids of all pages, in order."""
    found: list[int] = []
    while True:
        answer = api.get("/jobs", **params)
        assert answer.status_code == 200, answer.text
        found += [job["id"] for job in answer.json()["items"]]
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return found
        params["cursor"] = cursor


def failed_job(server: LiveServer, producer: Api | None = None) -> dict[str, Any]:
    name = server.type()
    (producer or server.admin).enqueue(name, payload={"p": 1}, idempotency_key=fresh("key"))
    job = server.admin.claim(name)
    server.admin.finish(job, "heartbeat", log="a line", progress={"message": "half"})
    server.admin.finish(job, "fail", error="broken", retryable=False)
    return server.admin.job(job["id"])


def test_lists_are_newest_first_and_paged_without_gaps(server: LiveServer) -> None:
    name = server.type()
    jobs = [server.admin.enqueue(name)["id"] for _ in range(7)]
    assert ids(server.admin, type=name, limit=3) == jobs[::-1]
    page = server.admin.get("/jobs", type=name, limit=3).json()
    assert len(page["items"]) == 3
    assert page["next_cursor"]


def test_filters_narrow_the_list(server: LiveServer) -> None:
    name = server.type(queue="filtered")
    pending, done, dead = (server.admin.enqueue(name)["id"] for _ in range(3))
    for verb, fields_ in (("complete", {}), ("fail", {"retryable": False})):
        server.admin.finish(server.admin.claim(name), verb, **fields_)
    assert sorted(ids(server.admin, queue="filtered")) == [pending, done, dead]
    by_status = {
        status: ids(server.admin, type=name, status=status)
        for status in ("pending", "completed", "failed", "completed,failed")
    }
    assert len(by_status["pending"]) == len(by_status["completed"]) == len(by_status["failed"]) == 1
    assert by_status["completed,failed"] == sorted(by_status["completed"] + by_status["failed"], reverse=True)
    created = server.admin.job(done)["created_at"]
    assert pending in ids(server.admin, type=name, created_before="2100-01-01T00:00:00Z")
    assert ids(server.admin, type=name, created_after="2100-01-01T00:00:00Z") == []
    assert ids(server.admin, type=name, created_before="2000-01-01T00:00:00Z") == []
    assert created.endswith("Z")


def test_text_is_found_in_contents_by_those_who_may_read_them(server: LiveServer) -> None:
    name = server.type()
    job = server.admin.enqueue(name, payload={"order": "needle-4711"})
    assert ids(server.admin, type=name, q="needle-4711") == [job["id"]]
    problem(server.token("observer").get("/jobs", q="needle-4711"), 403, "forbidden")


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("status", "done", "validation-failed"),
        ("status", "pending,", "validation-failed"),
        ("schedule_id", "x", "validation-failed"),
        ("schedule_id", str(2**63), "validation-failed"),
        ("schedule_id", "-1", "validation-failed"),
        ("created_after", "yesterday", "validation-failed"),
        ("cursor", "AAAA", "validation-failed"),
        ("cursor", "bG9ncy4x", "validation-failed"),
        ("q", "", "validation-failed"),
        ("key", "k", "not-available-yet"),
        ("tag", "t", "not-available-yet"),
    ],
)
def test_filters_are_checked(server: LiveServer, name: str, value: str, code: str) -> None:
    assert fields(server.admin.get("/jobs", **{name: value}), code) == [name]


def test_a_producer_sees_its_own_jobs_without_their_errors(server: LiveServer) -> None:
    one, two = server.token("producer"), server.token("producer")
    job = failed_job(server, one)
    seen = one.job(job["id"])
    assert (seen["payload"], seen["error"], seen["has_error"]) == ({"p": 1}, None, True)
    assert seen["idempotency_key"] == job["idempotency_key"]
    assert ids(one) == [job["id"]]
    assert ids(two) == []
    problem(two.get(f"/jobs/{job['id']}"), 404, "not-found")


def test_a_worker_sees_only_what_it_holds(server: LiveServer) -> None:
    name, worker = server.type(), server.token("worker")
    server.admin.enqueue(name, payload={"p": 1}, idempotency_key=fresh("key"))
    waiting = server.admin.enqueue(name)
    job = worker.claim(name)
    seen = worker.job(job["id"])
    assert (seen["payload"], seen["idempotency_key"]) == ({"p": 1}, None)
    problem(worker.get(f"/jobs/{waiting['id']}"), 404, "not-found")
    worker.finish(job, "complete")
    problem(worker.get(f"/jobs/{job['id']}"), 404, "not-found")


def test_an_observer_sees_every_job_and_no_contents(server: LiveServer) -> None:
    job = failed_job(server)
    observer = server.token("observer")
    for seen in (observer.job(job["id"]), observer.get("/jobs", type=job["type"]).json()["items"][0]):
        assert (seen["status"], seen["has_error"]) == ("failed", True)
        assert (seen["payload"], seen["result"], seen["error"], seen["idempotency_key"]) == (None,) * 4
        assert (seen["progress"] or {}).get("message") is None
    for part in ("attempts", "logs"):
        problem(observer.get(f"/jobs/{job['id']}/{part}"), 403, "forbidden")


def test_an_operator_sees_contents_attempts_and_logs(server: LiveServer) -> None:
    job = failed_job(server)
    operator = server.token("operator")
    seen = operator.job(job["id"])
    assert (seen["payload"], seen["error"], seen["idempotency_key"]) == ({"p": 1}, "broken", None)
    (attempt,) = operator.get(f"/jobs/{job['id']}/attempts").json()["items"]
    assert (attempt["attempt"], attempt["error"], attempt["worker_id"]) == (1, "broken", "admin")
    (line,) = operator.get(f"/jobs/{job['id']}/logs").json()["items"]
    assert (line["attempt"], line["text"]) == (1, "a line")


def test_logs_are_paged_in_the_order_written(server: LiveServer) -> None:
    name = server.type()
    server.admin.enqueue(name)
    job = server.admin.claim(name)
    for number in range(5):
        server.admin.finish(job, "heartbeat", log=f"line {number}")
    path, texts, params = f"/jobs/{job['id']}/logs", [], {"limit": 2}
    while True:
        page = server.admin.get(path, **params).json()
        texts += [line["text"] for line in page["items"]]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
    assert texts == [f"line {number}" for number in range(5)]


def test_out_of_range_is_absent_by_every_door(server: LiveServer) -> None:
    job = failed_job(server)
    mine = server.type()
    own = server.admin.enqueue(mine)
    limited = server.token("operator", types=[mine])
    assert ids(limited) == [own["id"]]
    for path in ("", "/attempts", "/logs"):
        problem(limited.get(f"/jobs/{job['id']}{path}"), 404, "not-found")
    for verb in ("cancel", "replay"):
        problem(limited.post(f"/jobs/{job['id']}/{verb}"), 404, "not-found")
    assert server.admin.job(job["id"])["status"] == "failed"


def test_whoever_manages_jobs_reaches_them_but_sees_no_more_than_before(server: LiveServer) -> None:
    job = failed_job(server)
    manager = server.token(scopes=["jobs:manage"])
    replayed = manager.post(f"/jobs/{job['id']}/replay").json()
    assert (replayed["status"], replayed["payload"], replayed["error"]) == ("pending", None, None)
    problem(manager.get(f"/jobs/{job['id']}"), 403, "forbidden")


def test_unknown_jobs_are_404(server: LiveServer) -> None:
    for path in ("/jobs/999999999", "/jobs/999999999/attempts", "/jobs/999999999/logs", "/jobs/0"):
        problem(server.admin.get(path), 404, "not-found")


@pytest.mark.parametrize("query", ["schedule_id=null", "created_after=null", "limit=null"])
def test_the_word_null_is_no_value_of_a_parameter(server: LiveServer, query: str) -> None:
    problem(server.admin.get(f"/jobs?{query}"), 422, "validation-failed")
