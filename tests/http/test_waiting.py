"""Claims that wait: they get work at once, notice a client that leaves, and end when the server stops."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.live_server import Api, LiveServer, created, fresh, problem


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as threads:
        yield threads


def claim_on(connection: socket.socket, api: Api, **body: object) -> None:
    """Send a claim and do not wait for its answer."""
    content = json.dumps(body).encode()
    connection.sendall(
        b"POST /jobs/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
        % (str(api.token).encode(), len(content), content)
    )


def until_waiting(server: LiveServer, api: Api, claims: int) -> None:
    """Return when so many claims of ``api`` have been parked: a claim looks before it waits."""
    # The server tells nobody who waits; what it has read is behind the answer to a later request.
    for _ in range(claims + 2):
        assert api.get("/types").status_code == 200
    time.sleep(0.2)  # between the look and the wait nothing can be asked


def test_a_waiting_claim_gets_a_job_at_once(server: LiveServer, pool: ThreadPoolExecutor) -> None:
    name, worker = server.type(), server.token("worker")
    waiting = pool.submit(worker.claim, name, wait_seconds=20)
    until_waiting(server, server.admin, 1)
    enqueued = time.monotonic()
    job = server.admin.enqueue(name)
    assert waiting.result(timeout=5)["id"] == job["id"]
    assert time.monotonic() - enqueued < 1


def test_a_claim_that_finds_nothing_is_204_when_its_time_is_up(server: LiveServer) -> None:
    begun = time.monotonic()
    answer = server.admin.post("/jobs/claim", {"types": [server.type()], "wait_seconds": 0.3})
    assert (answer.status_code, answer.content) == (204, b"")
    assert 0.25 < time.monotonic() - begun < 3


def test_a_client_that_left_while_waiting_gets_no_job(server: LiveServer) -> None:
    name, worker = server.type(), server.token("worker")
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        claim_on(connection, worker, types=[name], wait_seconds=60)
        until_waiting(server, server.admin, 1)
    until_waiting(server, server.admin, 1)
    job = server.admin.enqueue(name)
    claimed = server.admin.claim(name)
    assert (claimed["id"], claimed["retry_count"]) == (job["id"], 0)


def test_clients_that_leave_while_they_claim_lose_no_job(server: LiveServer) -> None:
    name, worker = server.type(), server.token("worker")
    jobs = {server.admin.enqueue(name)["id"] for _ in range(30)}
    for _ in range(60):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            claim_on(connection, worker, types=[name])
    deadline = time.monotonic() + 15
    seen: set[int] = set()
    while seen < jobs and time.monotonic() < deadline:
        answer = server.admin.post("/jobs/batch/claim", {"types": [name], "limit": 100, "wait_seconds": 1})
        seen |= {job["id"] for job in answer.json()["items"]}
    # What the kernel took for a client that then left is its worker's loss: a lapsed lease gives it back.
    running = [server.admin.job(id) for id in jobs - seen]
    assert all(job["worker_id"] == running[0]["worker_id"] for job in running)
    assert len(running) < len(jobs) / 2


def test_a_revoked_token_stops_waiting_within_seconds(server: LiveServer, pool: ThreadPoolExecutor) -> None:
    token = created(server.admin.post("/tokens", {"name": fresh("token"), "preset": "worker"}))
    worker = server.api(token["token"])
    waiting = pool.submit(worker.post, "/jobs/claim", {"types": [server.type()], "wait_seconds": 60})
    until_waiting(server, server.admin, 1)
    server.admin.post(f"/tokens/{token['key_id']}/revoke")
    problem(waiting.result(timeout=5), 401, "unauthenticated")


def test_waiters_beyond_512_of_one_token_are_answered_at_once(server: LiveServer) -> None:
    name, worker, other = server.type(), server.token("worker"), server.token("worker")
    parked = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(512)]
    try:
        for connection in parked:
            claim_on(connection, worker, types=[name], wait_seconds=60)
        until_waiting(server, server.admin, 1)
        begun = time.monotonic()
        answer = worker.post("/jobs/claim", {"types": [name], "wait_seconds": 60})
        assert (answer.status_code, time.monotonic() - begun < 5) == (204, True)
        server.admin.enqueue(server.type())
        begun = time.monotonic()
        assert other.post("/jobs/claim", {"types": [name], "wait_seconds": 1}).status_code == 204
        assert time.monotonic() - begun > 0.9, "another token's claim could not wait"
    finally:
        for connection in parked:
            connection.close()


def test_a_server_that_stops_lets_waiting_claims_go_and_keeps_what_it_took(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server:
        name, worker = server.type(), server.token("worker")
        job = server.admin.enqueue(name, delay_seconds=3600)
        answers: list[httpx2.Response] = []
        waiting = threading.Thread(
            target=lambda: answers.append(worker.post("/jobs/claim", {"types": [name], "wait_seconds": 60}))
        )
        waiting.start()
        until_waiting(server, server.admin, 1)
        begun = time.monotonic()
        assert json.loads((server.data / "server.json").read_text())["url"] == server.url
        assert server.stop() == 0
        waiting.join(timeout=5)
        assert answers[0].status_code == 204
        assert time.monotonic() - begun < 5
        assert not (server.data / "server.json").exists()
    with LiveServer(tmp_path) as again:
        assert again.admin.job(job["id"])["status"] == "pending"
