"""``GET /jobs/{id}?wait_seconds=``: answered when the job has ended, or when time is up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.live_server import Api, LiveServer, created, fields, fresh, problem


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def waiting(pool: ThreadPoolExecutor, api: Api, id: int, seconds: float = 20) -> Future[Any]:
    future = pool.submit(api.get, f"/jobs/{id}", wait_seconds=seconds)
    time.sleep(0.3)  # the server tells nobody who waits
    assert not future.done()
    return future


@pytest.mark.parametrize("verb", ["complete", "fail", "cancel", "delete"])
def test_the_end_of_a_job_is_told_at_once(server: LiveServer, pool: ThreadPoolExecutor, verb: str) -> None:
    name = server.type(max_retries=0)
    job = server.admin.enqueue(name)
    answer = waiting(pool, server.token("observer"), job["id"])
    begun = time.monotonic()
    if verb in ("complete", "fail"):
        assert server.admin.finish(server.admin.claim(name), verb).status_code == 200
    elif verb == "cancel":
        assert server.admin.post(f"/jobs/{job['id']}/cancel").status_code == 200
    else:
        body = {"action": "cancel", "dry_run": False, "filter": {"type": name}}
        assert server.admin.post("/jobs/actions", body).json()["done"] == 1
    ended = answer.result(timeout=5).json()
    assert time.monotonic() - begun < 0.45  # sooner than any look at the database
    assert ended["status"] in {"completed", "failed", "cancelled"}


def test_a_batch_of_outcomes_is_told_too(server: LiveServer, pool: ThreadPoolExecutor) -> None:
    name = server.type()
    job = server.admin.enqueue(name)
    answer = waiting(pool, server.admin, job["id"])
    held = server.admin.claim(name)
    outcome = {"id": job["id"], "lease_token": held["lease_token"], "outcome": "complete"}
    assert server.admin.post("/jobs/batch/finish", {"outcomes": [outcome]}).status_code == 200
    assert answer.result(timeout=5).json()["status"] == "completed"


def test_a_retry_is_no_end(server: LiveServer, pool: ThreadPoolExecutor) -> None:
    name = server.type()
    job = server.admin.enqueue(name)
    answer = waiting(pool, server.admin, job["id"], 1.5)
    server.admin.finish(server.admin.claim(name), "fail", error="e", retry_in_seconds=0)
    assert answer.result(timeout=5).json()["status"] == "pending"


def test_time_that_is_up_is_answered_with_the_job_as_it_is(server: LiveServer) -> None:
    job = server.admin.enqueue(server.type())
    begun = time.monotonic()
    answer = server.admin.get(f"/jobs/{job['id']}", wait_seconds=0.3)
    assert answer.json()["status"] == "pending"
    assert 0.25 < time.monotonic() - begun < 3


def test_an_end_in_another_process_is_found(server: LiveServer, pool: ThreadPoolExecutor) -> None:
    name = server.type()
    job = server.admin.enqueue(name)
    answer = waiting(pool, server.admin, job["id"])
    with LiveServer(server.data.parent) as neighbour:
        neighbour.admin.finish(neighbour.admin.claim(name), "complete")
        assert answer.result(timeout=3).json()["status"] == "completed"


def test_a_revoked_token_waits_no_longer(server: LiveServer, pool: ThreadPoolExecutor) -> None:
    job = server.admin.enqueue(server.type())
    made = created(server.admin.post("/tokens", {"name": fresh("token"), "preset": "observer"}))
    answer = waiting(pool, server.api(made["token"]), job["id"])
    assert server.admin.post(f"/tokens/{made['key_id']}/revoke").status_code == 200
    problem(answer.result(timeout=3), 401, "unauthenticated")


def test_an_unknown_job_is_404_at_once(server: LiveServer) -> None:
    problem(server.admin.get(f"/jobs/{10**17}", wait_seconds=20), 404, "not-found")


@pytest.mark.parametrize("seconds", ["-1", "61", "soon"])
def test_an_odd_time_is_refused(server: LiveServer, seconds: str) -> None:
    job = server.admin.enqueue(server.type())
    assert fields(server.admin.get(f"/jobs/{job['id']}", wait_seconds=seconds)) == ["wait_seconds"]
