"""Values that no database, reader or worker should have to meet, by every way in which they can come."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live_server import Api, LiveServer, fields
from tests.security.evidence import check_answer, jobs_of

DEEP = b"[" * 20_000 + b"]" * 20_000
UNSTORABLE = [
    pytest.param(rb'{"a":"\u0000"}', id="U+0000"),
    pytest.param(rb'{"\u0000":1}', id="U+0000 in a key"),
    pytest.param(rb'"\ud800"', id="lone surrogate"),
    pytest.param(rb'{"a\udfff":1}', id="lone surrogate in a key"),
    pytest.param(b"NaN", id="NaN"),
    pytest.param(b"[-Infinity]", id="Infinity"),
    pytest.param(b"1e999", id="1e999"),
    pytest.param(DEEP, id="20,000 brackets"),
    pytest.param(b'{"a":' * 20_000 + b"1" + b"}" * 20_000, id="20,000 braces"),
]
TEXT = rb"before \u0000 \ud800 \udc00\ud800 after"
SHOWN = r"before \u0000 \ud800 \udc00\ud800 after"


def held(server: LiveServer) -> tuple[Api, dict[str, Any]]:
    type = server.type()
    worker = server.token("worker")
    server.admin.enqueue(type)
    return worker, worker.claim(type)


@pytest.mark.parametrize("value", UNSTORABLE)
def test_an_unstorable_payload_is_refused_and_nothing_is_stored(server: LiveServer, value: bytes) -> None:
    type = server.type()
    job = b'{"type":"' + type.encode() + b'","payload":' + value + b"}"
    for path, body in (
        ("/jobs", job),
        ("/jobs/batch", b'{"jobs":[' + job + b"]}"),
        ("/jobs/batch?atomic=true", b'{"jobs":[' + job + b"]}"),
    ):
        answer = server.admin.post(path, body)
        check_answer(server, answer)
        statuses = [item["status"] for item in answer.json().get("items", [])] or [answer.status_code]
        assert statuses == [422], answer.text
    assert jobs_of(server, type) == []


@pytest.mark.parametrize("value", UNSTORABLE)
def test_an_unstorable_result_is_refused_and_the_job_can_still_end(server: LiveServer, value: bytes) -> None:
    worker, job = held(server)
    known = b'"lease_token":"' + job["lease_token"].encode() + b'","result":' + value
    single = worker.post(f"/jobs/{job['id']}/complete", b"{" + known + b"}")
    check_answer(server, single)
    assert single.status_code == 422, single.text
    outcome = b'{"id":%d,"outcome":"complete",' % job["id"] + known + b"}"
    batch = worker.post("/jobs/batch/finish", b'{"outcomes":[' + outcome + b"]}")
    check_answer(server, batch)
    assert batch.status_code == 422 or batch.json()["items"][0]["status"] == 422, batch.text
    assert server.admin.job(job["id"])["status"] == "running"
    ended = worker.finish(job, "fail", error="result-not-storable", retryable=False)
    assert ended.json()["status"] == "failed"


@pytest.mark.parametrize("way", ["single", "batch"])
def test_odd_characters_in_texts_are_escaped_and_the_attempt_counts(server: LiveServer, way: str) -> None:
    worker, job = held(server)
    lease = b'"lease_token":"' + job["lease_token"].encode() + b'",'
    beat = lease + b'"log":"' + TEXT + b'","progress":{"message":"' + TEXT + b'"}'
    failure = lease + b'"retryable":false,"error":"' + TEXT + b'"'
    if way == "single":
        answers = [
            worker.post(f"/jobs/{job['id']}/heartbeat", b"{" + beat + b"}"),
            worker.post(f"/jobs/{job['id']}/fail", b"{" + failure + b"}"),
        ]
        assert [answer.status_code for answer in answers] == [200, 200]
    else:
        entry = b'{"id":%d,' % job["id"]
        answers = [
            worker.post("/jobs/batch/heartbeat", b'{"beats":[' + entry + beat + b"}]}"),
            worker.post(
                "/jobs/batch/finish", b'{"outcomes":[' + entry + b'"outcome":"fail",' + failure + b"}]}"
            ),
        ]
        assert [answer.json()["items"][0]["status"] for answer in answers] == [200, 200]
    stored = server.admin.job(job["id"])
    assert stored["status"] == "failed"
    assert stored["error"] == stored["progress"]["message"] == SHOWN
    (attempt,) = server.admin.get(f"/jobs/{job['id']}/attempts").json()["items"]
    (line,) = server.admin.get(f"/jobs/{job['id']}/logs").json()["items"]
    assert (attempt["error"], line["text"]) == (SHOWN, SHOWN)


@pytest.mark.parametrize(
    "path", ["/jobs", "/jobs/batch", "/jobs/claim", "/jobs/1/fail", "/jobs/1/heartbeat", "/tokens"]
)
def test_20000_brackets_are_never_a_server_error_wherever_they_stand(server: LiveServer, path: str) -> None:
    for body in (
        DEEP,
        b'{"type":' + DEEP + b"}",
        b'{"surprise":' + DEEP + b"}",
        DEEP[:20_000],
        b'{"jobs":[' + DEEP + b"]}",
    ):
        answer = server.admin.post(path, body)
        check_answer(server, answer)
        statuses = [item["status"] for item in answer.json().get("items", [])] or [answer.status_code]
        assert all(400 <= status < 500 for status in statuses)


@pytest.mark.parametrize(
    "number", ["1970670598291982290", "-0", "0.1000000000000000055511151231257827", "1E400", "1e-999"]
)
def test_numbers_keep_their_digits_on_every_way_and_over_a_replay(server: LiveServer, number: str) -> None:
    type = server.type()
    value = f'{{"id":{number}}}'
    enqueued = server.admin.post("/jobs", f'{{"type":"{type}","payload":{value}}}'.encode())
    if number == "1E400":
        assert fields(enqueued) == ["payload"]
        return
    id = enqueued.json()["id"]
    worker = server.token("worker")
    texts = [enqueued.text, server.admin.get(f"/jobs/{id}").text, server.admin.get("/jobs", type=type).text]
    server.admin.post(f"/jobs/{id}/cancel")
    texts.append(server.admin.post(f"/jobs/{id}/replay").text)
    claim = worker.post("/jobs/batch/claim", {"types": [type], "limit": 1})
    texts.append(claim.text)
    assert [f'"payload":{value},' in text for text in texts] == [True] * 5
    lease = claim.json()["items"][0]["lease_token"]
    done = worker.post(f"/jobs/{id}/complete", f'{{"lease_token":"{lease}","result":{value}}}'.encode())
    for text in (done.text, server.admin.get(f"/jobs/{id}").text):
        assert f'"result":{value},' in text
