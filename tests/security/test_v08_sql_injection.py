"""V-08: an API that puts its input into SQL hands the database to whoever enqueues a job."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from tests.live_server import LiveServer, fields, fresh, problem
from tests.security.evidence import check_answer, jobs_of

ATTACKS = [
    "'; DROP TABLE rota_jobs; --",
    "' OR '1'='1",
    "' UNION SELECT hash, key_id FROM rota_tokens --",
    '"; UPDATE rota_tokens SET scopes = \'["jobs:read"]\'; --',
    "x'); DELETE FROM rota_types; --",
    "1; PRAGMA writable_schema = 1",
    "%",
    "__%",
    "*",
    "?1 :type @type $type",
    "\\'; SELECT 1; --",
]
CONTROL = "an ordinary payload"


def tables(server: LiveServer) -> dict[str, Any]:
    """The schema, and how many rows there are of what no attack may change."""
    uri = f"file:{server.data / 'rota.db'}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        schema = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
        tokens = connection.execute("SELECT id, hash, scopes, max_priority FROM rota_tokens").fetchall()
        types = connection.execute("SELECT name, paused, deleted FROM rota_types").fetchall()
    return {"schema": schema, "tokens": sorted(tokens), "types": sorted(types)}


@pytest.fixture
def untouched(server: LiveServer) -> Iterator[str]:
    """The type of a stored job; afterwards nothing but jobs has changed, and the job is still that."""
    type = server.type()
    job = server.admin.enqueue(type, payload=CONTROL)
    server.admin.get("/types")
    before = tables(server)
    yield type
    assert tables(server) == before
    assert server.admin.job(job["id"]) == job


@pytest.mark.parametrize("attack", ATTACKS)
def test_v08_sql_in_type_and_other_names_is_refused(server: LiveServer, untouched: str, attack: str) -> None:
    admin = server.admin
    refused = [
        (admin.post("/jobs", {"type": attack}), "type"),
        (admin.post("/jobs", {"type": untouched, "queue": attack}), "queue"),
        (admin.post("/jobs", {"type": untouched, "priority": attack}), "priority"),
        (admin.post("/jobs", {"type": untouched, "run_at": attack}), "run_at"),
        (admin.post("/jobs/claim", {"types": [attack]}), "types"),
        (admin.post("/jobs/claim", {"queues": [attack]}), "queues"),
        (admin.post("/jobs/claim", {"instance": attack}), "instance"),
        (admin.post("/jobs/claim", {"claim_id": attack}), "claim_id"),
        (admin.put(f"/types/{untouched}", {"queue": attack}), "queue"),
        (admin.post("/tokens", {"name": attack, "preset": "admin"}), "name"),
        (admin.post("/tokens", {"name": fresh("t"), "preset": attack}), "preset"),
        (admin.post("/tokens", {"name": fresh("t"), "scopes": [attack]}), "scopes"),
        (admin.post("/tokens", {"name": fresh("t"), "preset": "admin", "types": [attack]}), "types"),
        (admin.post("/tokens", {"name": fresh("t"), "preset": "admin", "queues": [attack]}), "queues"),
    ]
    for answer, field in refused:
        assert fields(answer) == [field]
        check_answer(server, answer)


@pytest.mark.parametrize("attack", ATTACKS)
def test_v08_sql_in_payload_and_texts_is_kept_as_text(
    server: LiveServer, untouched: str, attack: str
) -> None:
    type = untouched
    admin = server.admin
    admin.post(f"/types/{type}/pause")
    job = admin.enqueue(type, payload={attack: attack}, idempotency_key=attack, priority="critical")
    assert job["payload"] == {attack: attack}
    assert job["idempotency_key"] == attack
    again = admin.post("/jobs", {"type": type, "payload": {attack: attack}}, Idempotency_Key=attack)
    assert (again.status_code, again.json()["id"]) == (200, job["id"])
    assert admin.post("/jobs", {"type": type, "idempotency_key": attack + "x"}).status_code == 201
    admin.post(f"/types/{type}/resume")
    held = admin.claim(type)
    assert held["id"] == job["id"]
    beat = admin.finish(held, "heartbeat", log=attack, progress={"current": 1, "message": attack})
    assert beat.status_code == 200
    assert admin.finish(held, "fail", error=attack, retryable=False).status_code == 200
    stored = admin.job(job["id"])
    assert stored["payload"] == {attack: attack}
    assert stored["progress"]["message"] == attack
    assert stored["error"] == attack
    assert [line["text"] for line in admin.get(f"/jobs/{job['id']}/logs").json()["items"]] == [attack]


@pytest.mark.parametrize("attack", ATTACKS)
def test_v08_sql_in_filters_finds_what_it_says_and_nothing_else(
    server: LiveServer, untouched: str, attack: str
) -> None:
    admin = server.admin
    mine = admin.enqueue(untouched, payload=[attack])["id"]
    for name in ("type", "queue"):
        answer = admin.get("/jobs", **{name: attack})
        assert (answer.status_code, answer.json()["items"]) == (200, [])
    for name in ("status", "created_after", "created_before", "schedule_id", "cursor", "limit", attack):
        assert admin.get("/jobs", **{name: attack}).status_code == 422
    cursor = base64.urlsafe_b64encode(f"jobs.{attack}".encode()).decode().rstrip("=")
    assert fields(admin.get("/jobs", cursor=cursor)) == ["cursor"]
    assert admin.get(f"/jobs/{mine}/logs", cursor=cursor).status_code == 422
    if "\\" not in attack and '"' not in attack:  # these are escaped in JSON, and q looks at the text as sent
        found = admin.get("/jobs", type=untouched, q=attack).json()["items"]
        assert [job["id"] for job in found] == [mine]


@pytest.mark.parametrize("attack", ATTACKS)
def test_v08_sql_in_paths_finds_nothing(server: LiveServer, untouched: str, attack: str) -> None:
    admin = server.admin.http
    segment = quote(attack, safe="")
    calls = [
        admin.get(f"/jobs/{segment}"),
        admin.post(f"/jobs/{segment}/cancel"),
        admin.get(f"/types/{segment}"),
        admin.delete(f"/types/{segment}"),
        admin.post(f"/types/{segment}/pause"),
        admin.post(f"/tokens/{segment}/revoke"),
        admin.post(f"/tokens/{segment}/rotate"),
        admin.get(f"/problems/{segment}"),
    ]
    for answer in calls:
        problem(answer, 404, "not-found")
        check_answer(server, answer)
    assert fields(admin.put(f"/types/{segment}", json={})) == ["name"]


def test_v08_sql_in_ranges_admits_nothing_more(server: LiveServer) -> None:
    """Names of things to come may hold quotes: they stay names."""
    own, other = server.type(), server.type()
    for type in (own, other):
        server.admin.enqueue(type)
    reader = server.token("observer", types=[own], schedules=ATTACKS, groups=ATTACKS)
    assert {job["type"] for job in reader.get("/jobs").json()["items"]} == {own}
    server.admin.post(f"/tokens/{str(reader.token)[5:17]}/revoke")
    assert len(jobs_of(server, other)) == 1
