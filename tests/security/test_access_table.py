"""Preset × call × own, foreign or out of range: every cell of the table, played against a live server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from docs.access import PAGE, page
from rota.api.routes import ROUTES
from tests.live_server import Api, LiveServer, created, fresh
from tests.security.access_expectations import PRESETS, VISIBLE, expected
from tests.security.evidence import shown

CALLS = [f"{route.method} {route.path}" for route in ROUTES]
REPORT: dict[str, dict[str, Any]] = {
    "complete": {"result": "a result"},
    "fail": {"error": "an error"},
    "release": {},
    "heartbeat": {"log": "a line", "progress": {"message": "progress"}},
}


class Stage:
    """The tokens, types and jobs that the table is played with."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        self.queue = fresh("queue")
        self.near, self.new, self.far = (self.type(self.queue) for _ in range(3))
        self.aside = self.type("default")
        ranges: dict[str, dict[str, list[str]]] = {
            "unlimited": {},
            "ranged": {"types": [self.near, self.new], "queues": [self.queue]},
            "types": {"types": [self.near, self.aside]},
            "queues": {"queues": [self.queue]},
        }
        self.holders = {
            (preset, kind): server.token(preset, **limits)
            for preset in PRESETS
            for kind, limits in ranges.items()
        }
        self.producer, self.worker = server.token("producer"), server.token("worker")
        self._kept: dict[tuple[str, str, Api | None], dict[str, Any]] = {}

    def type(self, queue: str) -> str:
        return self.server.type(queue=queue, lease_seconds=600, max_retries=10_000)

    def kinds(self, relation: str) -> list[str]:
        """Which tokens of a preset stand in this relation to something."""
        return {"out": ["types", "queues"], "any": ["unlimited"], "more": ["ranged"]}.get(
            relation, ["unlimited", "ranged"]
        )

    def type_for(self, relation: str, kind: str) -> str:
        """The name of a type that lies in this relation to a token of this kind."""
        if relation != "out":
            return self.near
        return self.far if kind == "types" else self.aside

    def queue_of(self, type: str) -> str:
        return "default" if type == self.aside else self.queue

    def running(self, type: str, preset: str, owner: Api | None) -> dict[str, Any]:
        """A running job with everything in it; ``owner`` has enqueued it as a producer, or holds it."""
        key = ("running", type, owner)
        if key not in self._kept:
            producer = owner if owner is not None and preset in ("producer", "admin") else self.producer
            worker = owner if owner is not None and preset in ("worker", "admin") else self.worker
            id = producer.enqueue(type, payload="a payload", idempotency_key=fresh("key"), priority="medium")[
                "id"
            ]
            first = self.claim(worker, id, type)
            assert worker.finish(first, "fail", error="an error", retry_in_seconds=0).status_code == 200
            job = self.claim(worker, id, type)
            assert worker.finish(job, "heartbeat", **REPORT["heartbeat"]).status_code == 200
            self._kept[key] = job
        return self._kept[key]

    def claim(self, worker: Api, id: int, type: str) -> dict[str, Any]:
        """Claim until this very job is held: others of its type may wait too."""
        while (job := worker.claim(type))["id"] != id:
            pass
        return job

    def cancelled(self, type: str, preset: str, owner: Api | None) -> dict[str, Any]:
        key = ("cancelled", type, owner)
        if key not in self._kept:
            producer = owner if owner is not None and preset in ("producer", "admin") else self.producer
            job = producer.enqueue(type, payload="a payload", idempotency_key=fresh("key"))
            assert self.server.admin.post(f"/jobs/{job['id']}/cancel").json()["status"] == "cancelled"
            self._kept[key] = job
        return self._kept[key]

    def changed(self) -> None:
        """A call went through: the jobs are no longer as they were made."""
        self._kept.clear()


class Case:
    """One cell of the table."""

    def __init__(self, stage: Stage, preset: str, kind: str, relation: str) -> None:
        self.stage, self.preset, self.relation = stage, preset, relation
        self.holder = stage.holders[preset, kind]
        self.type = stage.type_for(relation, kind)
        self.owner = self.holder if relation == "own" else None

    @property
    def job(self) -> dict[str, Any]:
        return self.stage.running(self.type, self.preset, self.owner)

    def checked(self, job: dict[str, Any], relation: str | None = None) -> None:
        """The answer shows exactly those fields that it may, out of those that there are."""
        there = shown(self.stage.server.admin.job(job["id"]))
        allowed = VISIBLE[self.preset, relation or self.relation]
        assert shown(job) == there & allowed, (self.preset, self.relation, job)

    def outcome(self, answer: httpx2.Response, relation: str | None = None) -> str:
        """The status of an answer whose body, if it is a success, is a job."""
        if answer.status_code < 300:
            self.checked(answer.json(), relation)
        return str(answer.status_code)

    def item(self, answer: httpx2.Response) -> str:
        """The status of the only item of a batch."""
        if answer.status_code != 200:
            return str(answer.status_code)
        (item,) = answer.json()["items"]
        if "job" in item:
            self.checked(item["job"], "own")
        return str(item["status"])

    def listed(self, answer: httpx2.Response, key: str, wanted: object) -> dict[str, Any] | str:
        if answer.status_code != 200:
            return str(answer.status_code)
        return next((item for item in answer.json()["items"] if item[key] == wanted), "hidden")


def enqueue(case: Case) -> str:
    return case.outcome(
        case.holder.post("/jobs", {"type": case.type, "payload": 1, "idempotency_key": fresh("k")}), "own"
    )


def enqueue_batch(case: Case) -> str:
    jobs = [{"type": case.type, "payload": 1, "idempotency_key": fresh("k")}]
    return case.item(case.holder.post("/jobs/batch", {"jobs": jobs}))


def list_jobs(case: Case) -> str:
    wanted = case.job["id"]
    found = case.listed(case.holder.get("/jobs", limit="200"), "id", wanted)
    if isinstance(found, str):
        return found
    case.checked(found)
    return "200"


def get_job(case: Case) -> str:
    return case.outcome(case.holder.get(f"/jobs/{case.job['id']}"))


def list_attempts(case: Case) -> str:
    answer = case.holder.get(f"/jobs/{case.job['id']}/attempts")
    assert answer.status_code >= 300 or answer.json()["items"][0]["error"] == "an error"
    return str(answer.status_code)


def list_logs(case: Case) -> str:
    answer = case.holder.get(f"/jobs/{case.job['id']}/logs")
    assert answer.status_code >= 300 or answer.json()["items"][0]["text"] == "a line"
    return str(answer.status_code)


def claim(case: Case) -> str:
    case.stage.producer.enqueue(case.type, payload=1)
    return case.outcome(case.holder.post("/jobs/claim", asked_of(case)), "own")


def claim_batch(case: Case) -> str:
    case.stage.producer.enqueue(case.type, payload=1)
    answer = case.holder.post("/jobs/batch/claim", {**asked_of(case), "limit": 1})
    if answer.status_code == 200:
        (job,) = answer.json()["items"]
        case.checked(job, "own")
    return str(answer.status_code)


def asked_of(case: Case) -> dict[str, Any]:
    """A claim for the lane; what is refused when it is named is not handed out unnamed either."""
    if case.relation == "out" and case.preset in ("worker", "admin"):
        items = case.holder.post("/jobs/batch/claim", {"limit": 1000}).json()["items"]
        assert case.type not in {job["type"] for job in items}
    return {"types": [case.type], "queues": [case.stage.queue_of(case.type)]}


def report(verb: str) -> Callable[[Case], str]:
    def call(case: Case) -> str:
        answer = case.holder.finish(case.job, verb, **REPORT[verb])
        return str(answer.status_code) if verb == "heartbeat" else case.outcome(answer)

    return call


def finish_batch(case: Case) -> str:
    outcome = {"id": case.job["id"], "lease_token": case.job["lease_token"], "outcome": "complete"}
    return case.item(case.holder.post("/jobs/batch/finish", {"outcomes": [outcome]}))


def heartbeat_batch(case: Case) -> str:
    beat = {"id": case.job["id"], "lease_token": case.job["lease_token"]}
    return case.item(case.holder.post("/jobs/batch/heartbeat", {"beats": [beat]}))


def cancel(case: Case) -> str:
    return case.outcome(case.holder.post(f"/jobs/{case.job['id']}/cancel"))


def replay(case: Case) -> str:
    job = case.stage.cancelled(case.type, case.preset, case.owner)
    return case.outcome(case.holder.post(f"/jobs/{job['id']}/replay"))


def list_types(case: Case) -> str:
    found = case.listed(case.holder.get("/types"), "name", case.type)
    return found if isinstance(found, str) else "200"


def on_type(method: str, verb: str = "") -> Callable[[Case], str]:
    def call(case: Case) -> str:
        return str(case.holder.http.request(method, f"/types/{case.type}{verb}").status_code)

    return call


def put_type(case: Case) -> str:
    name, queue = case.type, case.stage.queue_of(case.type)
    if case.relation == "in":
        case.stage.server.admin.delete(f"/types/{case.stage.new}")
        name = case.stage.new
    return str(case.holder.put(f"/types/{name}", {"queue": queue, "lease_seconds": 600}).status_code)


def delete_type(case: Case) -> str:
    answer = on_type("DELETE")(case)
    if answer == "204":
        restored = {"queue": case.stage.queue_of(case.type), "lease_seconds": 600, "max_retries": 10_000}
        created(case.stage.server.admin.put(f"/types/{case.type}", restored))
    return answer


def create_token(case: Case) -> str:
    return str(case.holder.post("/tokens", wanted_token(case)).status_code)


def on_token(verb: str) -> Callable[[Case], str]:
    def call(case: Case) -> str:
        made = created(case.stage.server.admin.post("/tokens", wanted_token(case)))
        return str(case.holder.post(f"/tokens/{made['key_id']}/{verb}").status_code)

    return call


def wanted_token(case: Case) -> dict[str, Any]:
    """A token without a range has more rights than one that has one."""
    limits = {} if case.relation == "more" else {"types": [case.stage.near], "queues": [case.stage.queue]}
    return {"name": fresh("token"), "preset": "producer", **limits}


def plain(path: str) -> Callable[[Case], str]:
    return lambda case: str(case.holder.get(path).status_code)


PROBES: dict[str, Callable[[Case], str]] = {
    "POST /jobs": enqueue,
    "GET /jobs": list_jobs,
    "GET /jobs/{id}": get_job,
    "GET /jobs/{id}/attempts": list_attempts,
    "GET /jobs/{id}/logs": list_logs,
    "POST /jobs/claim": claim,
    "POST /jobs/{id}/complete": report("complete"),
    "POST /jobs/{id}/fail": report("fail"),
    "POST /jobs/{id}/heartbeat": report("heartbeat"),
    "POST /jobs/{id}/release": report("release"),
    "POST /jobs/{id}/cancel": cancel,
    "POST /jobs/{id}/replay": replay,
    "POST /jobs/batch": enqueue_batch,
    "POST /jobs/batch/claim": claim_batch,
    "POST /jobs/batch/finish": finish_batch,
    "POST /jobs/batch/heartbeat": heartbeat_batch,
    "GET /types": list_types,
    "GET /types/{name}": on_type("GET"),
    "PUT /types/{name}": put_type,
    "DELETE /types/{name}": delete_type,
    "POST /types/{name}/pause": on_type("POST", "/pause"),
    "POST /types/{name}/resume": on_type("POST", "/resume"),
    "POST /tokens": create_token,
    "GET /tokens": plain("/tokens"),
    "POST /tokens/{key_id}/rotate": on_token("rotate"),
    "POST /tokens/{key_id}/revoke": on_token("revoke"),
    "GET /health/live": plain("/health/live"),
    "GET /health/ready": plain("/health/ready"),
    "GET /problems/{code}": plain("/problems/forbidden"),
    "GET /": plain("/"),
}


@pytest.fixture(scope="module")
def stage(server: LiveServer) -> Stage:
    return Stage(server)


def test_every_call_of_the_route_table_has_an_expectation() -> None:
    assert list(dict.fromkeys(call for call, _ in expected())) == CALLS
    assert list(PROBES) == CALLS


@pytest.mark.parametrize("call", CALLS)
def test_access_is_as_the_table_says(stage: Stage, call: str) -> None:
    told: dict[tuple[str, str, str], str] = {}
    wanted: dict[tuple[str, str, str], str] = {}
    for (stated, relation), cells in expected().items():
        if stated != call:
            continue
        for preset, cell in cells.items():
            for kind in stage.kinds(relation) if cell != "-" else ():
                wanted[relation, preset, kind] = cell
                told[relation, preset, kind] = PROBES[call](Case(stage, preset, kind, relation))
                if not call.startswith("GET ") and told[relation, preset, kind] < "300":
                    stage.changed()
    assert told == wanted
    stage.server.admin.post(f"/types/{stage.near}/resume")


def test_the_page_about_access_is_what_the_route_table_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again with: python -m docs.access"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/jobs/{job}"),
        ("GET", "/jobs/{job}/attempts"),
        ("GET", "/jobs/{job}/logs"),
        ("POST", "/jobs/{job}/cancel"),
        ("POST", "/jobs/{job}/replay"),
        ("GET", "/types/{type}"),
        ("POST", "/types/{type}/pause"),
        ("POST", "/types/{type}/resume"),
        ("DELETE", "/types/{type}"),
    ],
)
def test_what_is_out_of_range_looks_as_if_it_did_not_exist(stage: Stage, method: str, path: str) -> None:
    case = Case(stage, "admin", "types", "out")
    there = case.holder.http.request(method, path.format(job=case.job["id"], type=case.type))
    missing = case.holder.http.request(method, path.format(job=10**17, type="never-put"))
    answers = [{**answer.json(), "request_id": ""} for answer in (there, missing)]
    assert there.status_code == 404
    assert answers[0] == answers[1]
