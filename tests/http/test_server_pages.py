"""What everybody may read: health, the contract, the explanations of problems."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from rota.errors import BY_CODE, StartError
from tests.live_server import LiveServer, problem


def test_health_is_one_word_for_strangers_and_its_parts_for_metrics_readers(server: LiveServer) -> None:
    assert server.api(None).get("/health/live").json() == {"status": "ok"}
    assert server.api(None).get("/health/ready").json() == {"status": "ok"}
    assert server.token("producer").get("/health/ready").json() == {"status": "ok"}
    parts = server.token("observer").get("/health/ready").json()
    assert parts == {"status": "ok", "checks": {"database": "ok", "writer": "ok", "disk": "ok"}}


def test_the_contract_is_served_without_a_token(server: LiveServer) -> None:
    document = server.api(None).get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert "/jobs/{id}/complete" in document["paths"]


def test_the_root_leads_to_the_docs(server: LiveServer) -> None:
    answer = server.api(None).http.get("/", follow_redirects=True)
    assert answer.url.path == "/docs"
    assert "/jobs/batch/finish" in answer.text


def test_pages_load_nothing_and_say_so_in_their_policy(server: LiveServer) -> None:
    for path in ("/docs", "/problems/conflict"):
        answer = server.api(None).get(path)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
        assert re.findall(r"(?:src|href)='?(?!/)\w+:", answer.text) == []
        assert "<script" not in answer.text


def test_every_problem_has_its_page_and_nothing_is_echoed(server: LiveServer) -> None:
    reader = server.api(None)
    for code, kind in BY_CODE.items():
        if kind is not StartError:
            answer = reader.get(f"/problems/{code}")
            assert (answer.status_code, escape(kind.title) in answer.text) == (200, True), code
    answer = reader.get("/problems/<script>alert(1)")
    problem(answer, 404, "not-found")
    assert "script" not in answer.text


def test_the_server_tells_of_a_new_data_folder_and_of_its_end(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server:
        (line,) = (line for line in server.log.splitlines() if "makes_new_data_folder" in line)
        assert line.endswith(f" path={server.data}")
        assert "Everything is on disk" not in server.log
    assert "Everything is on disk" in server.log
    with LiveServer(tmp_path) as again:
        assert again.log.count("makes_new_data_folder") == 1


def test_a_full_disk_is_told_and_stops_new_jobs_and_nothing_else(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server:
        name = server.type()
        server.admin.enqueue(name)
    with LiveServer(tmp_path, min_free_disk_mb=10**9) as server:
        for answer in (
            server.admin.post("/jobs", {"type": name}),
            server.admin.post("/jobs/batch", {"jobs": [{"type": name}]}),
            server.admin.post("/jobs/batch?atomic=true", {"jobs": [{"type": name}]}),
        ):
            problem(answer, 503, "unavailable")
            assert int(answer.headers["retry-after"]) > 0
        ready = server.admin.get("/health/ready")
        assert ready.status_code == 503
        assert ready.json()["checks"] == {"database": "ok", "writer": "ok", "disk": "low"}
        assert server.admin.finish(server.admin.claim(name), "complete").status_code == 200
