"""Preset × call × own, foreign or out of range: every cell of the table, played against a live server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from docs.access import PAGE, page
from rota.api.routes import ROUTES
from tests.live_server import LiveServer, created, fresh
from tests.security.access_expectations import expected
from tests.security.stage import REPORT, Case, Stage

CALLS = [f"{route.method} {route.path}" for route in ROUTES]


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


def change(case: Case) -> str:
    job = case.stage.delayed(case.type, case.preset, case.owner)
    return case.outcome(case.holder.http.patch(f"/jobs/{job['id']}", json={"priority": "medium"}))


def delete(case: Case) -> str:
    job = case.stage.cancelled(case.type, case.preset, case.owner, key=None)
    return str(case.holder.delete(f"/jobs/{job['id']}").status_code)


def act(case: Case) -> str:
    """`hidden`: the call succeeds and does nothing to the job."""
    job = case.stage.cancelled(case.type, case.preset, case.owner, key=None)
    wanted = {"action": "delete", "filter": {"type": case.type}, "dry_run": False}
    answer = case.holder.post("/jobs/actions", wanted)
    if answer.status_code != 200:
        return str(answer.status_code)
    there = case.stage.server.admin.get(f"/jobs/{job['id']}").status_code == 200
    assert there == (answer.json()["matched"] == 0)
    return "hidden" if there else "200"


def list_queues(case: Case) -> str:
    """A queue out of range is left out; of one within it, jobs of types out of range are not counted."""

    def delayed() -> int | str:
        answer = case.holder.get("/queues")
        if answer.status_code != 200:
            return str(answer.status_code)
        counts = {item["name"]: item["delayed"] for item in answer.json()["items"]}
        return int(counts.get(case.stage.queue_of(case.type), 0))

    before = delayed()
    if isinstance(before, str):
        return before
    case.stage.producer.enqueue(case.type, delay_seconds=3_600)
    return "hidden" if delayed() == before else "200"


def put_queue(case: Case) -> str:
    return str(case.holder.put(f"/queues/{fresh('made')}", {}).status_code)


def on_queue(verb: str) -> Callable[[Case], str]:
    return lambda case: str(case.holder.post(f"/queues/{case.stage.spare_queue}/{verb}").status_code)


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


def announce(case: Case) -> str:
    """Only a range of types limits what a worker may say that it runs."""
    instance = case.stage.announced(case.type) if case.relation == "foreign" else fresh("worker")
    holder, type = case.holder, case.type
    if case.relation == "out":
        holder, type = case.stage.holders[case.preset, "types"], case.stage.far
    return str(holder.put(f"/workers/{instance}", {"handlers": [{"name": type}]}).status_code)


def list_workers(case: Case) -> str:
    instance = case.stage.announced(case.type)
    found = case.listed(case.holder.get("/workers", limit="200"), "instance", instance)
    return found if isinstance(found, str) else "200"


def drain_worker(case: Case) -> str:
    instance = case.stage.announced(case.type)
    workers = case.stage.server.admin.get("/workers", limit="200").json()["items"]
    (id,) = (worker["id"] for worker in workers if worker["instance"] == instance)
    return str(case.holder.post(f"/workers/{id}/drain").status_code)


def list_handlers(case: Case) -> str:
    case.stage.announced(case.type)
    found = case.listed(case.holder.get("/handlers", limit="200"), "name", case.type)
    return found if isinstance(found, str) else "200"


def create_token(case: Case) -> str:
    return str(case.holder.post("/tokens", wanted_token(case)).status_code)


def on_token(verb: str) -> Callable[[Case], str]:
    def call(case: Case) -> str:
        made = created(case.stage.server.admin.post("/tokens", wanted_token(case)))
        return str(case.holder.post(f"/tokens/{made['key_id']}/{verb}").status_code)

    return call


def list_tokens(case: Case) -> str:
    made = created(case.stage.server.admin.post("/tokens", wanted_token(case)))
    found = case.listed(case.holder.get("/tokens"), "key_id", made["key_id"])
    return found if isinstance(found, str) else "200"


def wanted_token(case: Case) -> dict[str, Any]:
    """A token without a range has more rights than one that has one."""
    within = {"types": [case.stage.near], "queues": [case.stage.queue]}
    limits = {} if case.relation in ("more", "out") else within
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
    "PATCH /jobs/{id}": change,
    "DELETE /jobs/{id}": delete,
    "POST /jobs/actions": act,
    "GET /queues": list_queues,
    "PUT /queues/{name}": put_queue,
    "POST /queues/{name}/pause": on_queue("pause"),
    "POST /queues/{name}/resume": on_queue("resume"),
    "GET /types": list_types,
    "GET /types/{name}": on_type("GET"),
    "PUT /types/{name}": put_type,
    "DELETE /types/{name}": delete_type,
    "POST /types/{name}/pause": on_type("POST", "/pause"),
    "POST /types/{name}/resume": on_type("POST", "/resume"),
    "PUT /workers/{instance}": announce,
    "GET /workers": list_workers,
    "POST /workers/{id}/drain": drain_worker,
    "GET /handlers": list_handlers,
    "POST /tokens": create_token,
    "GET /tokens": list_tokens,
    "POST /tokens/{key_id}/rotate": on_token("rotate"),
    "POST /tokens/{key_id}/revoke": on_token("revoke"),
    "POST /tokens/{key_id}/resume": on_token("resume"),
    "GET /audit": plain("/audit"),
    "GET /health/live": plain("/health/live"),
    "GET /health/ready": plain("/health/ready"),
    "GET /metrics": plain("/metrics"),
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
        ("DELETE", "/jobs/{job}"),
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
