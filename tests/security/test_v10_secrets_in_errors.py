"""V-10: an API that keeps exception texts as they are shows passwords and paths to whoever may read jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live_server import Api, LiveServer, fields, problem
from tests.security.evidence import database, named

TOKEN = "rota_abcdefghijkl_" + "S3cr3tS3cr3t" * 3 + "1234567"
SECRETS = {
    "postgres://app:hunter2hunter2@db.internal/orders is unreachable": "hunter2hunter2",
    "401 for Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl": "eyJhbGciOiJIUzI1NiJ9",
    f"rejected {TOKEN}": TOKEN,
    "KeyError: password='tr0ub4dor&3' in settings": "tr0ub4dor&3",
    "AWS said no to AKIAIOSFODNN7EXAMPLQ": "AKIAIOSFODNN7EXAMPLQ",
    "cannot open /home/deploy/.ssh/id_ed25519_v10": "id_ed25519_v10",
    'Traceback (most recent call last):\n  File "/srv/app/v10_handler.py", line 7, in run\n'
    "    pay(card)\nValueError: declined": "v10_handler",
}


def running(server: LiveServer, producer: Api, worker: Api) -> dict[str, Any]:
    type = server.type()
    producer.enqueue(type)
    return worker.claim(type)


@pytest.mark.parametrize(("text", "secret"), SECRETS.items())
@pytest.mark.parametrize("way", ["single", "batch"])
def test_v10_secrets_in_errors_are_gone_before_they_are_stored(
    server: LiveServer, way: str, text: str, secret: str
) -> None:
    producer, worker = server.token("producer"), server.token("worker")
    job = running(server, producer, worker)
    report = {"lease_token": job["lease_token"], "log": text, "progress": {"message": text}}
    failure = {"lease_token": job["lease_token"], "error": f"it broke: {text}", "retryable": False}
    if way == "single":
        assert worker.post(f"/jobs/{job['id']}/heartbeat", report).status_code == 200
        assert worker.post(f"/jobs/{job['id']}/fail", failure).status_code == 200
    else:
        beats = worker.post("/jobs/batch/heartbeat", {"beats": [{"id": job["id"], **report}]})
        ends = worker.post(
            "/jobs/batch/finish", {"outcomes": [{"id": job["id"], "outcome": "fail", **failure}]}
        )
        assert [answer.json()["items"][0]["status"] for answer in (beats, ends)] == [200, 200]
    stored = server.admin.job(job["id"])
    assert stored["error"].startswith("it broke: ")
    for path in ("", "/attempts", "/logs"):
        answer = server.admin.get(f"/jobs/{job['id']}{path}")
        assert answer.status_code == 200
        assert secret not in answer.text
    assert secret.encode() not in database(server)


def test_v10_secrets_in_errors_are_read_only_with_the_scope_for_details(server: LiveServer) -> None:
    producer, worker = server.token("producer"), server.token("worker")
    job = running(server, producer, worker)
    told = "the printer v10-on-fire is on fire"
    assert "v10-on-fire" not in worker.finish(job, "fail", error=told, retry_in_seconds=0).text
    again = worker.claim(job["type"])
    assert again["id"] == job["id"]
    readers = {name: server.token(name) for name in ("observer", "operator")}
    readers |= {"producer": producer, "worker": worker, "admin": server.admin}
    readers["reads details only"] = server.token(scopes=["detail:read", "types:read"])
    for name, reader in readers.items():
        texts = [reader.get(f"/jobs/{job['id']}{path}").text for path in ("", "/attempts")]
        texts.append(reader.get("/jobs", type=job["type"]).text)
        seen = ["v10-on-fire" in text for text in texts]
        assert seen == [name in ("operator", "admin")] * 3, name
    for name in ("observer", "producer", "worker"):
        shown = readers[name].job(job["id"])
        assert shown["error"] is None
        assert shown["has_error"] is True
        problem(readers[name].get(f"/jobs/{job['id']}/attempts"), 403, "forbidden")
        problem(readers[name].get(f"/jobs/{job['id']}/logs"), 403, "forbidden")
        problem(readers[name].get("/jobs", q="v10-on-fire"), 403, "forbidden")


def test_v10_secrets_in_errors_of_the_api_itself_are_not_echoed(server: LiveServer) -> None:
    """What a refused request held is not in the refusal."""
    secret = "hunter2hunter2hunter2"
    type = server.type()
    producer = server.token("producer")
    refused = [
        producer.post("/jobs", {"type": secret + "/"}),
        producer.post("/jobs", {"type": type, "queue": secret}),
        producer.post("/jobs", {"type": type, "priority": secret}),
        producer.post("/jobs", {"type": type, "max_retries": secret}),
        producer.post("/jobs", {"type": type, "payload": secret * 4000}),
        producer.post("/jobs", f'{{"type":"{type}","payload":"{secret}'.encode()),
        producer.post("/jobs", {"type": type, "idempotency_key": secret + "ü"}),
        producer.get("/jobs", cursor=secret),
        producer.get("/jobs", status=secret),
        producer.get("/jobs", q=secret),
        producer.get(f"/types/{secret}"),
        producer.get(f"/{secret}"),
        server.api(f"rota_aaaaaaaaaaaa_{secret:A<43}").get("/jobs"),
    ]
    for answer in refused:
        assert answer.status_code >= 400
        assert secret not in answer.text
    assert fields(refused[1]) == ["queue"]


def test_v10_secrets_in_errors_or_anywhere_never_include_a_token(server: LiveServer) -> None:
    """Only the answer that makes a token holds it; the database knows its hash alone."""
    api, made = named(server, "admin")
    secret = str(made["token"]).rpartition("_")[2]
    listed = api.get("/tokens")
    assert made["key_id"] in listed.text
    assert secret not in listed.text
    assert [field for field in listed.json()["items"][0] if "hash" in field] == []
    answers = [api.post("/tokens", {"name": made["name"], "preset": "admin"}), api.post("/tokens/x/rotate")]
    assert [secret in answer.text for answer in answers] == [False, False]
    assert secret.encode() not in database(server)
