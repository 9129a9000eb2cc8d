"""V-01: a job API without authentication lets everybody on the network enqueue, take and read jobs."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.live_server import LiveServer, problem
from tests.security.evidence import check_answer, jobs_of, named


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"X-Forwarded-For": "127.0.0.1"}, id="said to come from loopback"),
        pytest.param({"Cookie": "token=rota_aaaaaaaaaaaa_" + "A" * 43}, id="a cookie"),
        pytest.param({"X-Api-Key": "admin"}, id="another header"),
        pytest.param({"Authorization": "Basic YWRtaW46YWRtaW4="}, id="a password"),
        pytest.param({"Authorization": "Bearer rota_aaaaaaaaaaaa_" + "A" * 43}, id="a made-up token"),
    ],
)
def test_v01_no_authentication_no_job(server: LiveServer, headers: dict[str, str]) -> None:
    type = server.type()
    stranger = server.api(None).http
    waiting = server.admin.enqueue(type)["id"]
    attempts = [
        stranger.post("/jobs", json={"type": type}, headers=headers),
        stranger.post("/jobs/batch", json={"jobs": [{"type": type}]}, headers=headers),
        stranger.post("/jobs/claim", json={"types": [type]}, headers=headers),
        stranger.post(f"/jobs/{waiting}/cancel", headers=headers),
        stranger.get(f"/jobs/{waiting}", headers=headers),
        stranger.get("/jobs", headers=headers),
        stranger.post("/tokens", json={"name": "intruder", "preset": "admin"}, headers=headers),
    ]
    for answer in attempts:
        problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        check_answer(server, answer)
    assert [(job["id"], job["status"]) for job in jobs_of(server, type)] == [(waiting, "pending")]


def test_v01_no_authentication_by_a_token_in_the_address(server: LiveServer) -> None:
    for name in ("token", "access_token", "authorization", "api_key"):
        answer = server.api(None).http.get("/jobs", params={name: str(server.admin.token)})
        problem(answer, 401, "unauthenticated")


def test_v01_no_authentication_once_a_token_was_revoked(server: LiveServer) -> None:
    made = server.admin.post("/tokens", {"name": "v01-revoked", "preset": "producer"}).json()
    type = server.type()
    producer = server.api(made["token"])
    producer.enqueue(type)
    server.admin.post(f"/tokens/{made['key_id']}/revoke")
    problem(producer.post("/jobs", {"type": type}), 401, "unauthenticated")
    assert len(jobs_of(server, type)) == 1


def test_v01_no_authentication_by_the_name_of_a_token_alone(server: LiveServer) -> None:
    """The key id is no secret: it stands in lists."""
    key_id = server.admin.get("/tokens").json()["items"][-1]["key_id"]
    problem(server.api(f"rota_{key_id}_{'A' * 43}").get("/jobs"), 401, "unauthenticated")


@pytest.mark.parametrize("work_comes", [False, True])
def test_v01_no_authentication_for_a_claim_that_waits_when_its_token_is_revoked(
    server: LiveServer, work_comes: bool
) -> None:
    type = server.type()
    worker, made = named(server, "worker")
    with ThreadPoolExecutor(1) as beside:
        begun = time.monotonic()
        waiting = beside.submit(worker.post, "/jobs/claim", {"types": [type], "wait_seconds": 15})
        time.sleep(0.3)  # nothing tells from outside that a claim has begun to wait
        assert server.admin.post(f"/tokens/{made['key_id']}/revoke").status_code == 200
        if work_comes:
            server.admin.enqueue(type)
        problem(waiting.result(), 401, "unauthenticated")
        assert time.monotonic() - begun < 10
    assert [job["status"] for job in jobs_of(server, type)] == ["pending"] * work_comes
