"""What a running server tells of itself: metrics, the log of requests, and traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rota.telemetry import METRICS
from tests.live_server import LiveServer, fresh, problem

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def scraped(server: LiveServer) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = server.token("observer").get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples: dict[Any, float], name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


def test_the_page_of_metrics_has_each_metric_with_its_meaning(server: LiveServer) -> None:
    text = server.admin.get("/metrics").text
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(found) == {name.removesuffix("_total") for name in METRICS}
    for name, metric in METRICS.items():
        family = found[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.meaning)


def test_metrics_take_a_token_with_their_scope(server: LiveServer) -> None:
    problem(server.api(None).get("/metrics"), 401, "unauthenticated")
    problem(server.token("producer").get("/metrics"), 403, "forbidden")


def test_metrics_count_jobs_by_queue_type_and_event(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server:
        name = server.type()
        for _ in range(5):
            server.admin.enqueue(name)
        server.admin.enqueue(name, delay_seconds=600)
        server.admin.finish(server.admin.claim(name), "complete")
        server.admin.finish(server.admin.claim(name), "fail", error="x", retryable=False)
        server.admin.claim(name)
        samples = scraped(server)
    lane = {"queue": "default", "type": name}
    counts = {"enqueued": 6, "claimed": 3, "completed": 1, "failed": 1}
    assert {event: value(samples, "rota_jobs_total", event=event, **lane) for event in counts} == counts
    now = {"rota_ready_jobs": 2, "rota_delayed_jobs": 1, "rota_running_jobs": 1}
    assert {metric: value(samples, metric, **lane) for metric in now} == now
    assert value(samples, "rota_oldest_ready_seconds", **lane) > 0
    assert value(samples, "rota_requests_total", route="POST /jobs", status="201") == 6
    assert value(samples, "rota_request_seconds_count", route="POST /jobs/claim") == 3
    assert value(samples, "rota_wal_bytes") > 0
    assert value(samples, "rota_check_ok", check="writer") == 1


def test_what_was_asked_for_is_no_label(server: LiveServer) -> None:
    told = fresh("m4rk3r")
    for path in (f"/{told}", f"/types/{told}", f"/jobs?q={told}", f"/jobs/{told}/{told}"):
        server.admin.get(path)
    server.admin.post("/jobs", {"type": told})
    server.admin.post("/jobs", {"type": server.type(), "queue": told})
    server.admin.http.request(told.upper().replace("-", ""), "/jobs")
    assert told not in server.admin.get("/metrics").text
    samples = scraped(server)
    assert value(samples, "rota_requests_total", route="none", status="404") >= 1
    assert value(samples, "rota_requests_total", route="GET /types/{name}", status="404") >= 1


def test_refusals_of_tokens_and_limits_are_counted(server: LiveServer) -> None:
    before = scraped(server)
    problem(server.api("rota_wrong").get("/jobs"), 401, "unauthenticated")
    limited = server.token("observer", rate_limit_per_minute=1)
    assert [limited.get("/types").status_code for _ in range(2)] == [200, 429]
    after = scraped(server)
    for name in ("rota_authentication_failures_total", "rota_rate_limited_total"):
        assert value(after, name) > value(before, name)


def test_requests_are_logged_with_their_id_the_route_and_the_job(tmp_path: Path) -> None:
    with LiveServer(tmp_path, log_level="debug", log_json=True) as server:
        name = server.type()
        made = server.admin.post("/jobs", {"type": name})
        shown = server.admin.get(f"/jobs/{made.json()['id']}?wait_seconds=0")
        log = server.log
    lines = {one.get("request_id"): one for one in map(json.loads, log.splitlines())}
    for answer, route in ((made, "POST /jobs"), (shown, "GET /jobs/{id}")):
        line = lines[answer.headers["x-request-id"]]
        said = {key: line[key] for key in ("event", "level", "route", "status", "job")}
        assert said == {
            "event": "request",
            "level": "debug",
            "route": route,
            "status": answer.status_code,
            "job": made.json()["id"],
        }
        assert set(line) - set(said) == {"ms", "request_id", "timestamp"}


def test_ordinary_requests_are_not_logged_at_level_info(tmp_path: Path) -> None:
    with LiveServer(tmp_path, log_json=True) as server:
        name = server.type()
        server.admin.enqueue(name)
        server.admin.claim(name)
        assert server.admin.post("/jobs/claim", {"types": [name], "wait_seconds": 1.2}).status_code == 204
        log = server.log
    assert [line for line in log.splitlines() if json.loads(line)["event"] == "request"] == []


def test_a_failed_request_is_logged_at_level_info(tmp_path: Path) -> None:
    with LiveServer(tmp_path, log_json=True, min_free_disk_mb=10**9) as server:
        refused = server.admin.post("/jobs", {"type": server.type()})
        log = server.log
    (line,) = [one for one in map(json.loads, log.splitlines()) if one["event"] == "request"]
    assert (line["level"], line["route"], line["status"]) == ("info", "POST /jobs", 503)
    assert line["request_id"] == refused.headers["x-request-id"]


# --- traces ---------------------------------------------------------------------------------------


def test_a_worker_gets_the_trace_that_its_job_was_enqueued_in(server: LiveServer) -> None:
    name = server.type()
    server.admin.post("/jobs", {"type": name}, traceparent=TRACE)
    server.admin.post("/jobs/batch", {"jobs": [{"type": name}, {"type": name}]}, traceparent=TRACE)
    server.admin.post("/jobs/batch?atomic=true", {"jobs": [{"type": name}]}, traceparent=TRACE)
    assert server.admin.claim(name)["traceparent"] == TRACE
    rest = server.admin.post("/jobs/batch/claim", {"types": [name], "limit": 9}).json()["items"]
    assert [job["traceparent"] for job in rest] == [TRACE] * 3


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00-1-2-01",
        TRACE.upper(),
        TRACE + "-00",
        TRACE.replace("00-4", "ff-4"),
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01",
        "m4rk3r",
    ],
)
def test_a_trace_that_is_none_is_dropped_and_the_job_taken(server: LiveServer, header: str) -> None:
    name = server.type()
    assert server.admin.post("/jobs", {"type": name}, traceparent=header).status_code == 201
    assert server.admin.claim(name)["traceparent"] is None


def test_only_the_worker_sees_the_trace(server: LiveServer) -> None:
    name = server.type()
    made = server.admin.post("/jobs", {"type": name}, traceparent=TRACE)
    assert "traceparent" not in made.text
    assert TRACE not in server.admin.get(f"/jobs/{made.json()['id']}").text
