"""V-07: an API that takes payloads of any size lets one producer fill memory and disk."""

from __future__ import annotations

import pytest

from tests.live_server import LiveServer, fields, problem
from tests.security.evidence import check_answer, jobs_of

LIMIT = 65_536


def json_of(size: int) -> str:
    """A JSON text of exactly this many bytes."""
    return '"' + "x" * (size - 2) + '"'


def enqueue(type: str, payload: str) -> bytes:
    return f'{{"type":"{type}","payload":{payload}}}'.encode()


def test_v07_payload_over_64_kib_is_refused_to_the_byte(server: LiveServer) -> None:
    producer, type = server.token("producer"), server.type()
    assert producer.post("/jobs", enqueue(type, json_of(LIMIT))).status_code == 201
    answer = producer.post("/jobs", enqueue(type, json_of(LIMIT + 1)))
    assert fields(answer) == ["payload"]
    check_answer(server, answer)
    assert len(jobs_of(server, type)) == 1


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param("[" + " " * (LIMIT - 1) + "]", id="blanks"),
        pytest.param('"' + "ü" * (LIMIT // 2) + '"', id="two bytes a character"),
        pytest.param('"' + "\\u0061" * (LIMIT // 6 + 1) + '"', id="escapes"),
        pytest.param("[" + "1," * (LIMIT // 2) + "1]", id="many small values"),
    ],
)
def test_v07_payload_over_64_kib_counts_the_bytes_as_sent(server: LiveServer, payload: str) -> None:
    producer, type = server.token("producer"), server.type()
    assert len(payload.encode()) > LIMIT
    assert fields(producer.post("/jobs", enqueue(type, payload))) == ["payload"]
    assert jobs_of(server, type) == []


def test_v07_payload_over_64_kib_in_a_batch_stops_only_itself(server: LiveServer) -> None:
    producer, type = server.token("producer"), server.type()
    jobs = b",".join(enqueue(type, json_of(size)) for size in (LIMIT + 1, LIMIT, 2 * LIMIT))
    answer = producer.post("/jobs/batch", b'{"jobs":[' + jobs + b"]}")
    assert [item["status"] for item in answer.json()["items"]] == [422, 201, 422]
    atomic = producer.post("/jobs/batch?atomic=true", b'{"jobs":[' + jobs + b"]}")
    assert fields(atomic) == ["jobs[0].payload"]
    assert len(jobs_of(server, type)) == 1


def test_v07_payload_over_64_kib_is_not_made_possible_by_a_type(server: LiveServer) -> None:
    assert fields(server.admin.put("/types/v07-wide", {"max_payload_bytes": LIMIT + 1})) == [
        "max_payload_bytes"
    ]
    narrow = server.type(max_payload_bytes=10)
    assert server.admin.post("/jobs", enqueue(narrow, json_of(10))).status_code == 201
    assert fields(server.admin.post("/jobs", enqueue(narrow, json_of(11)))) == ["payload"]


def test_v07_payload_over_64_kib_as_a_result_leaves_the_job_running(server: LiveServer) -> None:
    worker, type = server.token("worker"), server.type()
    server.admin.enqueue(type)
    job = worker.claim(type)
    body = f'{{"lease_token":"{job["lease_token"]}","result":{json_of(LIMIT + 1)}}}'.encode()
    assert fields(worker.post(f"/jobs/{job['id']}/complete", body)) == ["result"]
    assert server.admin.job(job["id"])["status"] == "running"
    outcome = body[:-1] + f',"id":{job["id"]},"outcome":"complete"}}'.encode()
    answer = worker.post("/jobs/batch/finish", b'{"outcomes":[' + outcome + b"]}")
    assert [item["status"] for item in answer.json()["items"]] == [422]
    assert server.admin.job(job["id"])["status"] == "running"


def test_v07_payload_over_64_kib_never_reaches_the_decoder_beyond_1_mib(server: LiveServer) -> None:
    answer = server.admin.post("/jobs", enqueue(server.type(), json_of(1_048_576)))
    problem(answer, 413, "too-large")
    check_answer(server, answer)
