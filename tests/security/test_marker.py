"""A marker in everything confidential is looked for on every surface: other readers, refusals and the log."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from rota.api.route import Route
from rota.api.routes import ROUTES
from rota.domain.job import STATUSES
from rota.openapi import documentation
from tests.live_server import Api, LiveServer, fresh
from tests.security.evidence import named

MARKER: Final = "m4rk3r"
READS = [route for route in (*ROUTES, *documentation(ROUTES)) if route.method == "GET"]


@dataclass
class Told:
    """Jobs that hold the marker wherever a job can hold text, and those who told it."""

    producer: Api
    worker: Api
    type: str
    jobs: dict[str, int]
    lease_tokens: list[str]
    key_ids: list[str]


def tell(server: LiveServer) -> Told:
    """One job in each state; payload, key, error, log, progress message and result hold the marker."""
    producer, made = named(server, "producer")
    worker, made_too = named(server, "worker")
    type = server.type(max_retries=5, lease_seconds=600)
    jobs: dict[str, int] = {}
    leases: list[str] = []
    for state in ("completed", "failed", "cancelled", "running", "retried", "pending"):
        key = fresh(f"{MARKER}-key")
        id = producer.enqueue(type, payload={"a": f"{MARKER}-payload"}, idempotency_key=key)["id"]
        jobs[state] = id
        if state == "pending":
            break
        job = worker.claim(type)
        assert job["id"] == id
        leases.append(job["lease_token"])
        beat = {"log": f"{MARKER}-log", "progress": {"current": 1, "message": f"{MARKER}-progress"}}
        assert worker.finish(job, "heartbeat", **beat).status_code == 200
        if state == "completed":
            assert worker.finish(job, "complete", result=[f"{MARKER}-result"]).status_code == 200
        elif state != "running":
            if state == "cancelled":
                server.admin.post(f"/jobs/{id}/cancel")
            failure = {"error": f"{MARKER}-error", "retryable": state == "retried", "retry_in_seconds": 600}
            assert worker.finish(job, "fail", **failure).status_code == 200
    return Told(producer, worker, type, jobs, leases, [made["key_id"], made_too["key_id"]])


@pytest.fixture(scope="module")
def told(server: LiveServer) -> Told:
    return tell(server)


def paths(told: Told, route: Route) -> list[str]:
    """Every address under which a reading route could show one of the jobs."""
    ids = [str(id) for id in told.jobs.values()]
    names = {"{id}": ids, "{name}": [told.type], "{code}": ["forbidden"], "{key_id}": told.key_ids}
    found = [route.path]
    for variable, values in names.items():
        if variable in route.path:
            found = [route.path.replace(variable, value) for value in values]
    if route.path == "/jobs":
        found += [f"/jobs?status={status}" for status in STATUSES]
        found += [
            f"/jobs?type={told.type}",
            "/jobs?limit=200",
            f"/jobs?q={MARKER}",
            "/jobs?created_after=1970-01-01T00:00:00Z",
        ]
    return found


def everything(answer: httpx2.Response) -> str:
    return f"{answer.headers!r}\n{answer.text}"


def surfaces(told: Told, reader: Api) -> list[str]:
    """The surfaces that show the marker to a reader."""
    return [path for route in READS for path in paths(told, route) if MARKER in everything(reader.get(path))]


@pytest.mark.parametrize(
    "rights",
    [
        pytest.param({"preset": "observer"}, id="observer"),
        pytest.param({"preset": "producer"}, id="foreign producer"),
        pytest.param({"preset": "worker"}, id="foreign worker"),
        pytest.param({"preset": "integrator"}, id="integrator"),
        pytest.param({"preset": "operator", "types": ["another-type"]}, id="operator of another type"),
        pytest.param({"preset": "operator", "queues": ["another-queue"]}, id="operator of another queue"),
        pytest.param({"scopes": ["detail:read", "types:read", "metrics:read"]}, id="details of no job"),
        pytest.param(
            {"scopes": ["jobs:read", "jobs:manage", "jobs:enqueue", "jobs:work"]}, id="all but details"
        ),
    ],
)
def test_no_surface_shows_the_marker_to_who_may_not_read_it(
    server: LiveServer, told: Told, rights: dict[str, Any]
) -> None:
    assert surfaces(told, server.token(**rights)) == []


def test_no_surface_shows_the_marker_without_a_token(server: LiveServer, told: Told) -> None:
    assert surfaces(told, server.api(None)) == []


def test_the_marker_is_there_for_who_may_read_it(server: LiveServer, told: Told) -> None:
    """Otherwise its absence elsewhere would prove nothing."""
    parts: dict[str, set[str]] = {}
    for name, reader in {
        "operator": server.token("operator"),
        "producer": told.producer,
        "worker": told.worker,
        "admin": server.admin,
    }.items():
        text = "".join(everything(reader.get(path)) for route in READS for path in paths(told, route))
        known = ("payload", "result", "error", "log", "progress", "key")
        parts[name] = {part for part in known if f"{MARKER}-{part}" in text}
    assert parts == {
        "operator": {"payload", "result", "error", "log", "progress"},
        "producer": {"payload", "result", "progress", "key"},
        "worker": {"payload", "progress"},
        "admin": {"payload", "result", "error", "log", "progress", "key"},
    }


def test_changing_a_job_shows_no_more_than_reading_it(server: LiveServer) -> None:
    told = tell(server)
    manager = server.token(scopes=["jobs:manage"])
    for state, verb in itertools.product(told.jobs, ("cancel", "replay", "cancel")):
        assert MARKER not in everything(manager.post(f"/jobs/{told.jobs[state]}/{verb}"))


def test_a_job_that_comes_again_shows_its_producer_no_error(server: LiveServer) -> None:
    told = tell(server)
    key = told.producer.job(told.jobs["failed"])["idempotency_key"]
    body = {"type": told.type, "payload": 1, "idempotency_key": key}
    single = told.producer.post("/jobs", body)
    batch = told.producer.post("/jobs/batch", {"jobs": [body]})
    atomic = told.producer.post("/jobs/batch?atomic=true", {"jobs": [body]})
    for answer in (single, batch, atomic):
        assert f"{MARKER}-payload" in answer.text
        assert f"{MARKER}-error" not in answer.text


# --- the log --------------------------------------------------------------------------------------


def play_everything(server: LiveServer) -> list[str]:
    """A busy run with the marker in all that clients send; the secrets that were used."""
    told = tell(server)
    observer, operator = server.token("observer"), server.token("operator")
    for reader in (told.producer, told.worker, observer, operator, server.admin, server.api(None)):
        surfaces(told, reader)
    admin = server.admin
    admin.get(f"/{MARKER}/x")
    admin.get("/jobs", cursor=MARKER, **{MARKER: MARKER})
    for body in (f'{{"type":"{MARKER}'.encode(), f'{{"{MARKER}":1}}'.encode(), MARKER.encode()):
        for path in ("/jobs", "/jobs/batch", "/tokens", "/jobs/1/complete", "/jobs/batch/finish"):
            admin.post(path, body)
    admin.put(f"/types/{MARKER}!", {"description": MARKER})
    admin.post(
        "/jobs", {"type": told.type}, Idempotency_Key=f"{MARKER}-header", Cookie=MARKER, Referer=MARKER
    )
    admin.http.get("/jobs", headers={"Host": f"{MARKER}.example"})
    admin.post(f"/jobs/{told.jobs['running']}/heartbeat", {"lease_token": MARKER, "log": MARKER})
    wrong = server.api(f"rota_{MARKER}aaaaaa_{MARKER:A<43}")
    wrong.get("/jobs")
    raw = {"Content-Type": "application/json", "Content-Encoding": MARKER}
    admin.http.post("/jobs", content=b"{}", headers=raw)
    rotated = admin.post(f"/tokens/{told.key_ids[0]}/rotate").json()["token"]
    admin.post(f"/tokens/{told.key_ids[1]}/revoke")
    apis = (told.producer, told.worker, observer, operator, admin)
    return [str(api.token) for api in apis] + [rotated, *told.lease_tokens, MARKER]


def test_the_log_holds_nothing_confidential_even_at_level_debug(tmp_path: Path) -> None:
    with LiveServer(tmp_path, log_level="debug") as server:
        secrets = play_everything(server)
        key = (server.data / "secret.key").read_text().strip()
    assert "admin_token_written" in server.log, "nothing was logged, so nothing was proved"
    assert [secret for secret in (*secrets, key) if secret in server.log] == []
    assert "Traceback" not in server.log
    halves = [secret[len(secret) // 2 :] for secret in secrets if secret != MARKER]
    assert [half for half in halves if half in server.log] == []
