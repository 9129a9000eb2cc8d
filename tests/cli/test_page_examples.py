"""The examples of the documentation, run as they stand there, in order, against a fresh server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_readme import tour_blocks, tour_script
from tests.live_server import LiveServer

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent

UNTIL = "until [ $(rota jobs list --type {} --json | grep -o '{}' | wc -l) -ge {} ]; do sleep 0.1; done"
WAITS = {
    "sleep 3": UNTIL.format("stock.pull", '"has_error":true', 3),
    "sleep 1": UNTIL.format("word.count", '"status":"completed"', 1),
}
"""A reader waits a moment; a test waits for what the moment is for."""


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def paste(page: str, server: LiveServer, folder: Path) -> str:
    """What the shell examples of a page print when they are pasted one after the other in a folder."""
    script = "\n".join(blocks(page, "sh"))
    for moment, instead in WAITS.items():
        script = script.replace(f"{moment}\n", f"{instead}\n")
    return run(script, server, folder)


def run(script: str, server: LiveServer, folder: Path) -> str:
    """What a script prints that has to succeed; it finds the server where the pages expect one."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    environ |= {
        "PATH": f"{BIN}:{environ['PATH']}",
        "ROTA_DATA": str(server.data),
        "ROTA_URL": server.url,
    }
    leave_nothing = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"
    script = f"set -eu\n{leave_nothing}\n{script}\nwait".replace("8520", str(server.port))
    ran = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.mark.timeout(120)
def test_examples_about_the_api(tmp_path: Path) -> None:
    with LiveServer(tmp_path) as server:
        told = paste("api.md", server, tmp_path)
        held = json.loads((tmp_path / "held.json").read_text())
        job = server.admin.job(held["id"])
    assert "/problems/validation-failed" in told
    assert re.findall(r"HTTP/1.1 (\d+)", told) == ["201", "201", "200"]
    assert "idempotency-replayed: true" in told
    assert held["worker_id"] == "mailer/host-1.4711"
    assert (job["status"], job["result"]) == ("completed", {"message_id": "m-1"})
    assert '"status":"cancelled"' in told
    _, second = told.split('{"items":[{"status":201,"job":')
    assert "/problems/validation-failed" in second
    assert len(json.loads((tmp_path / "batch.json").read_text())["items"]) > 0
    assert '"name":"report.build"' in second


@pytest.mark.timeout(120)
def test_examples_about_workers(tmp_path: Path) -> None:
    (program,) = blocks("workers.md", "python")
    (tmp_path / "chores.py").write_text(program, encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with LiveServer(tmp_path) as server:
        told = paste("workers.md", server, tmp_path)
        jobs = server.admin.get("/jobs").json()["items"]
        mail = next(job for job in jobs if job["type"] == "mail.send")
        lines = server.admin.get(f"/jobs/{mail['id']}/logs").json()["items"]
    assert mail["status"] == "completed", told
    assert mail["progress"] == {"current": 3, "total": 3, "message": "sent to Ann"}
    assert [line["text"] for line in lines] == [f"attempt 1 of job {mail['id']} is done"]
    assert sorted(job["result"] for job in jobs if job["type"] == "report.build") == [10, 20, 30]
    at_once = (job for job in jobs if job["type"] == "stock.pull" and not job["idempotency_key"])
    pulls = {job["payload"]["shop"]: job for job in at_once}
    assert [pulls[shop]["status"] for shop in ("closed", "gone", "busy")] == ["pending", "failed", "pending"]
    assert [pulls[shop]["retry_count"] for shop in ("closed", "gone", "busy", "broken")] == [0, 0, 1, 1]
    assert next(job for job in jobs if job["type"] == "word.count")["result"] == {"words": 6}, told


@pytest.mark.timeout(180)
def test_pages_may_be_followed_one_after_another_in_one_folder(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    tour = tour_blocks()[1:]
    ((_, program),) = (block for block in tour if block[0] == "python")
    (tmp_path / "tour.py").write_text(program, encoding="utf-8")
    (tmp_path / "chores.py").write_text(blocks("workers.md", "python")[0], encoding="utf-8")
    with LiveServer(tmp_path) as server:
        run(tour_script(tour), server, tmp_path)
        for page in ("api.md", "workers.md"):
            paste(page, server, tmp_path)
        for file in tmp_path.glob("*.token"):
            assert server.api(file.read_text().strip()).get("/types").status_code in {200, 403}, file.name
    assert len(list(tmp_path.glob("*.token"))) == 8


@pytest.mark.timeout(120)
def test_examples_about_python(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    programs = re.findall(r"into\s+`(\w+\.py)`:\n\n```python\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in programs] == ["shop.py", "buy.py", "night.py", "test_shop.py"]
    for name, program in programs:
        (tmp_path / name).write_text(program, encoding="utf-8")
    with LiveServer(tmp_path) as server:
        told = paste("python.md", server, tmp_path)
        types = [job["type"] for job in server.admin.get("/jobs", limit=200).json()["items"]]
    assert "job 2 is pending" in told
    assert "102 mails wait" in told
    assert types.count("mail.send") == 102
    assert "20 shipped, 1 by air" in told
    assert "3 passed" in told
