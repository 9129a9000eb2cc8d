"""Payloads and results come back byte for byte, or are refused with a reason."""

from __future__ import annotations

import pytest

from tests.live_server import LiveServer, created, fields, problem


def enqueue(server: LiveServer, type: str, payload: bytes) -> bytes:
    """The body that enqueues a payload given as JSON text."""
    return b'{"type":"' + type.encode() + b'","payload":' + payload + b"}"


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b"null",
        b"[]",
        b"0",
        b'""',
        b"12345678901234567890123456789012345678901234567890",
        b"9" * 400,
        b"0.1000000000000000055511151231257827",
        b"1.50",
        b"1E5",
        b"1e-400",
        b'{"b":1,"a":2,"b":3}',
        '"é 漢 😀"'.encode(),
        rb'"\u00e9\ud83d\ude00"',
        rb'"\\u0000 is spelt, not there"',
        rb'{"sql":"\u0027; DROP TABLE rota_jobs; --"}',
        b"[" * 100 + b"]" * 100,
        b'"' + b"[" * 500 + b'"',
        b"[" + b"[]," * 200 + b"[]]",
    ],
)
def test_a_payload_comes_back_as_it_was_sent(server: LiveServer, payload: bytes) -> None:
    name = server.type()
    answer = server.admin.post("/jobs", enqueue(server, name, payload))
    created(answer)
    assert b'"payload":' + payload + b"," in answer.content
    assert b'"payload":' + payload + b"," in server.admin.get("/jobs", type=name).content
    assert b'"payload":' + payload + b"," in server.admin.post("/jobs/claim", {"types": [name]}).content


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (rb'{"a":"\u0000"}', "nul-character"),
        (rb'{"\\\u0000":1}', "nul-character"),
        (b"1e999", "number-too-large"),
        (b'{"a":[-1e400]}', "number-too-large"),
        (b"9" * 5000, "number-too-large"),
        (b"[" * 101 + b"]" * 101, "too-deep"),
        (b'{"a":' * 101 + b"1" + b"}" * 101, "too-deep"),
        (b'"\xff"', "not-text"),
        (b'"\xed\xa0\x80"', "not-text"),
    ],
)
def test_what_cannot_be_stored_is_422(server: LiveServer, payload: bytes, code: str) -> None:
    answer = server.admin.post("/jobs", enqueue(server, server.type(), payload))
    assert fields(answer) == ["payload"]
    assert answer.json()["errors"][0]["code"] == code


@pytest.mark.parametrize(
    "payload",
    [b"NaN", b"[Infinity]", b"-Infinity", rb'"\ud800"', rb'"\udc00"', rb'"\ud800\u0041"', b"[" * 50_000],
)
def test_what_no_json_may_hold_is_422_too(server: LiveServer, payload: bytes) -> None:
    problem(server.admin.post("/jobs", enqueue(server, server.type(), payload)), 422, "validation-failed")


def test_a_payload_may_hold_64_kib_and_no_byte_more(server: LiveServer) -> None:
    name = server.type()
    most = b'"' + b"x" * 65_534 + b'"'
    created(server.admin.post("/jobs", enqueue(server, name, most)))
    assert fields(server.admin.post("/jobs", enqueue(server, name, most[:-1] + b'x"'))) == ["payload"]


def test_a_type_may_lower_the_limit(server: LiveServer) -> None:
    name = server.type(max_payload_bytes=10)
    created(server.admin.post("/jobs", enqueue(server, name, b'"12345678"')))
    assert fields(server.admin.post("/jobs", enqueue(server, name, b'"123456789"'))) == ["payload"]


def test_a_result_comes_back_as_it_was_sent(server: LiveServer) -> None:
    name = server.type()
    server.admin.enqueue(name)
    job = server.admin.claim(name)
    body = (
        b'{"lease_token":"'
        + job["lease_token"].encode()
        + b'","result":{"n":1.50,"big":1234567890123456789012}}'
    )
    answer = server.admin.post(f"/jobs/{job['id']}/complete", body)
    assert answer.status_code == 200
    assert (
        b'"result":{"n":1.50,"big":1234567890123456789012},' in server.admin.get(f"/jobs/{job['id']}").content
    )


@pytest.mark.parametrize(
    "result",
    [b"1e999", rb'"\u0000"', rb'"\ud800"', b"NaN", b'"' + b"x" * 65_535 + b'"', b"[" * 101 + b"]" * 101],
)
def test_a_refused_result_leaves_the_job_running(server: LiveServer, result: bytes) -> None:
    name = server.type()
    server.admin.enqueue(name)
    job = server.admin.claim(name)
    body = b'{"lease_token":"' + job["lease_token"].encode() + b'","result":' + result + b"}"
    problem(server.admin.post(f"/jobs/{job['id']}/complete", body), 422, "validation-failed")
    assert server.admin.job(job["id"])["status"] == "running"
    assert server.admin.finish(job, "complete").status_code == 200
