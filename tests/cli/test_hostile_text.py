"""Nothing that a server, a producer or a handler says can act on the terminal of who reads it."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rota.cli.output import visible
from rota.client.aio import AsyncClient
from tests.cli.commands import Rota, Server, environment

ESCAPE = "\x1b]0;owned\x07\x1b[31m"
TURNED = "\u202eevil\u2066"
MARKUP = "[bold red]gone[/bold red] [link=file:///etc/passwd]here[/link] :bomb:"
EVIL = f"{ESCAPE}{TURNED}\x9b2J\x7f\r\n{MARKUP}"
ACTING = "\x1b\x07\x7f\x9b\r\u202e\u2066\u200b\ufeff"


def assert_harmless(text: str) -> None:
    assert not set(text) & set(ACTING), repr(text)


@pytest.mark.parametrize("one", [*ACTING, "\n", "\t", "\x00", "\u2028", "\ud800", "\U000e0001"])
def test_characters_that_act_are_written_as_escapes(one: str) -> None:
    shown = visible(f"a{one}b")
    assert shown.isprintable()
    assert shown.startswith("a\\")
    assert shown.endswith("b")


def test_ordinary_text_of_any_language_stays_as_it_is() -> None:
    text = "Grüße, 任务完成 – Ж ñ \\x1b [bold] 🎉"
    assert visible(text) == text


@pytest.fixture
def evil(rota: Rota, server: Server) -> int:
    """A failed job whose payload, error and log were written by an enemy."""
    rota.done("types", "put", "hostile", "--max-retries", "0", "--description", MARKUP)

    async def make() -> int:
        async with AsyncClient(server.url, server.admin_token) as client:
            job = await client.enqueue("hostile", {"text": EVIL})
            held = await client.claim(types=["hostile"])
            assert held is not None
            await client.heartbeat(held, log=EVIL)
            await client.fail(held, f"ValueError: {EVIL}")
            return job.id

    return asyncio.run(make())


def test_job_with_hostile_contents_is_shown_harmlessly(rota: Rota, evil: int) -> None:
    shown = rota.done("jobs", "show", str(evil)).out
    assert_harmless(shown)
    assert "001b" in shown
    assert "[bold red]gone[/bold red]" in shown
    assert ":bomb:" in shown
    assert_harmless(rota.done("jobs", "list").out)


def test_markup_in_a_description_is_shown_as_text(rota: Rota, evil: int) -> None:
    for shown in (rota.done("types", "list").out, rota.done("types", "show", "hostile").out):
        assert MARKUP in shown


def test_json_on_a_terminal_is_the_same_document_without_acting_characters(rota: Rota, evil: int) -> None:
    piped = rota.done("jobs", "show", str(evil), "--json")
    on_terminal = run_on_terminal(rota, "jobs", "show", str(evil), "--json")
    assert_harmless(on_terminal)
    assert json.loads(on_terminal) == piped.json()
    assert piped.json()["payload"]["text"] == EVIL


def run_on_terminal(rota: Rota, *arguments: str) -> str:
    """What a command writes to a terminal, without the line ends that the terminal adds."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "rota", *arguments],
        env=environment(TERM="xterm", **rota.variables),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        said = b""
        try:
            while chunk := os.read(ours, 65_536):
                said += chunk
        except OSError:  # the other side has closed
            pass
        os.close(ours)
    assert process.returncode == 0, said
    return said.decode().replace("\r\n", "")


class EvilServer(BaseHTTPRequestHandler):
    """Answers every request with hostile text: a list for GET, a refusal for all else."""

    def do_GET(self) -> None:
        job = {
            "id": 1,
            "created_at": "2026-12-01T08:30:00.000Z",
            "updated_at": "2026-12-01T08:30:00.000Z",
        } | dict.fromkeys(("type", "queue", "status", "priority", "worker_id"), EVIL)
        self._answer(200, {"items": [job], "next_cursor": EVIL})

    def do_POST(self) -> None:
        problem = {"type": "/problems/conflict", "title": EVIL, "status": 409, "detail": EVIL}
        self._answer(409, problem)

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_: object) -> None:
        pass


@pytest.fixture
def under_attack(alone: Rota) -> Iterator[Rota]:
    """Commands whose server is an enemy."""
    with HTTPServer(("127.0.0.1", 0), EvilServer) as enemy:
        thread = threading.Thread(target=enemy.serve_forever)
        thread.start()
        yield alone.with_variables(ROTA_URL=f"http://127.0.0.1:{enemy.server_port}", ROTA_TOKEN="rota_x")
        enemy.shutdown()
        thread.join()


def test_list_of_a_hostile_server_is_shown_harmlessly(under_attack: Rota) -> None:
    ended = under_attack.done("jobs", "list")
    assert_harmless(ended.out + ended.err)
    assert MARKUP in ended.out


def test_refusal_of_a_hostile_server_is_shown_harmlessly(under_attack: Rota) -> None:
    for arguments in (
        ("jobs", "cancel", "1"),
        ("enqueue", "a.b"),
        ("tokens", "create", "x", "--preset", "worker"),
    ):
        ended = under_attack(*arguments)
        assert ended.code == 1
        assert_harmless(ended.err)
        assert MARKUP in ended.err
