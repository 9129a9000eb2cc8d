"""``rota enqueue TYPE --file``: one job for each line."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import httpx2
import pytest

from rota.cli.bulk import MOST_LINE_BYTES, lines
from tests.cli.commands import Rota, Server, environment


@pytest.fixture
def mail(rota: Rota, request: pytest.FixtureRequest) -> str:
    """A type of this test's own, named after it."""
    name = request.node.name.removeprefix("test_")[:64].lower()
    rota.done("types", "put", name)
    return str(name)


def written(rota: Rota, text: str) -> str:
    (rota.folder / "jobs.jsonl").write_text(text, encoding="utf-8")
    return "jobs.jsonl"


def stored(rota: Rota, type: str) -> list[dict[str, object]]:
    """The jobs of a type, at most 200, the oldest first."""
    listed = rota.done("jobs", "list", "--type", type, "--limit", "200", "--json").json()["items"]
    return sorted(listed, key=lambda job: int(job["id"]))


def test_each_line_becomes_a_job_with_the_options_in_order(rota: Rota, mail: str) -> None:
    file = written(rota, '\ufeff{"no": 1}\r\n\n  \n[2]\n"drei ü"')
    ended = rota.done("enqueue", mail, "--file", file, "--priority", "high", "--max-retries", "2")
    assert ended.out == "3 jobs were handed in.\n"
    found = stored(rota, mail)
    assert [job["payload"] for job in found] == [{"no": 1}, [2], "drei ü"]
    assert {(job["priority"], job["max_retries"]) for job in found} == {("high", 2)}


def test_bad_lines_are_told_by_number_and_stop_no_other(rota: Rota, mail: str) -> None:
    large = '"' + "x" * 70_000 + '"'
    file = written(rota, f'{{"no": 1}}\n{{bad\n\n{large}\n"{"x" * MOST_LINE_BYTES}"\n{{"no": 6}}\n')
    ended = rota("enqueue", mail, "--file", file)
    assert (ended.code, ended.out) == (1, "2 jobs were handed in; 3 lines were refused.\n")
    assert "error: line 2: it is not JSON" in ended.err
    assert "error: line 4: " in ended.err
    assert "error: line 5: it is longer than 1 MiB" in ended.err
    assert [job["payload"] for job in stored(rota, mail)] == [{"no": 1}, {"no": 6}]


def test_json_is_one_document_with_every_refusal(rota: Rota, mail: str) -> None:
    ended = rota("enqueue", mail, "--file", "-", "--json", stdin='{"no": 1}\n{bad\n{"no": 3}\nnope\n')
    told = ended.json()
    assert (ended.code, told["enqueued"], told["replayed"]) == (1, 2, 0)
    assert [each["line"] for each in told["refused"]] == [2, 4]
    assert all("not JSON" in each["detail"] for each in told["refused"])
    assert len(stored(rota, mail)) == 2
    empty = rota.done("enqueue", mail, "--file", "-", "--json", stdin="\n")
    assert empty.json() == {"enqueued": 0, "replayed": 0, "refused": []}


def test_key_makes_the_same_file_again_make_no_second_job(rota: Rota, mail: str) -> None:
    file = written(rota, '{"no": 1}\n{"no": 2}\n')
    again = ("enqueue", mail, "--file", file, "--idempotency-key", mail)
    rota.done(*again)
    assert [job["idempotency_key"] for job in stored(rota, mail)] == [f"{mail}-1", f"{mail}-2"]
    assert rota.done(*again, "--json").json() == {"enqueued": 0, "replayed": 2, "refused": []}
    assert rota.done(*again).out == "0 jobs were handed in, 2 were there already.\n"


def test_file_of_more_than_one_batch_is_stored_as_a_whole(rota: Rota, mail: str) -> None:
    file = written(rota, "".join(f"{number}\n" for number in range(2_345)))
    assert rota.done("enqueue", mail, "--file", file, "--json").json()["enqueued"] == 2_345
    counted = rota.done("jobs", "cancel", "--all-matching", "--type", mail, "--dry-run").out
    assert counted == "2,345 jobs would be cancelled.\n"


MOST_PROXIED_BYTES = 200_000


class Proxy(ThreadingHTTPServer):
    """Hands batches on to the server. ``fates`` says what becomes of the first answers; the rest pass."""

    def __init__(self, upstream: str, *fates: str) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.upstream = upstream
        self.fates = list(fates)
        self.sizes: list[int] = []
        """The jobs in each batch."""
        self._serving = threading.Thread(target=self.serve_forever)

    def __enter__(self) -> Self:
        self._serving.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._serving.join()
        self.server_close()


class Passing(BaseHTTPRequestHandler):
    server: Proxy

    def do_POST(self) -> None:
        fate = self.server.fates.pop(0) if self.server.fates else "passed"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) > MOST_PROXIED_BYTES:
            self.send_response(413)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        kept = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
        if fate == "refused":
            kept["Authorization"] = "Bearer none"
        answer = httpx2.post(self.server.upstream + self.path, content=body, headers=kept)
        self.server.sizes.append(len(answer.json().get("items", ())))
        if fate == "lost":
            self.close_connection = True
            return
        self.send_response(answer.status_code)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        pass


def through(rota: Rota, server: Server, proxy: Proxy) -> Rota:
    url = f"http://127.0.0.1:{proxy.server_port}"
    return rota.with_variables(ROTA_URL=url, ROTA_TOKEN=server.admin_token)


def test_lost_answer_doubles_nothing_and_batches_hold_a_thousand(
    rota: Rota, server: Server, mail: str
) -> None:
    file = written(rota, "{}\n" * 1_001)
    with Proxy(server.url, "lost") as proxy:
        told = through(rota, server, proxy).done("enqueue", mail, "--file", file, "--json").json()
    assert proxy.sizes == [1_000, 1_000, 1]
    assert told["enqueued"] + told["replayed"] == 1_001
    counted = rota.done("jobs", "cancel", "--all-matching", "--type", mail, "--dry-run").out
    assert counted == "1,001 jobs would be cancelled.\n"


def test_batch_too_large_for_a_proxy_is_halved_down_to_the_line_at_fault(
    rota: Rota, server: Server, mail: str
) -> None:
    text = f'"{"x" * 60_000}"'
    file = written(rota, "\n".join([text] * 5 + [f'"{"y" * MOST_PROXIED_BYTES}"', text]))
    with Proxy(server.url) as proxy:
        ended = through(rota, server, proxy)("enqueue", mail, "--file", file)
    assert (ended.code, ended.out) == (1, "6 jobs were handed in; 1 line was refused.\n")
    assert "error: line 6: " in ended.err
    assert sum(proxy.sizes) == 6


def test_what_was_done_is_told_when_it_ends_early(rota: Rota, server: Server, mail: str) -> None:
    file = written(rota, "{}\n" * 1_001)
    with Proxy(server.url, "passed", "refused") as proxy:
        ended = through(rota, server, proxy)("enqueue", mail, "--file", file)
    assert (ended.code, ended.out) == (1, "1,000 jobs were handed in.\n")
    assert "It ended after line 1,000" in ended.err
    assert "error: " in ended.err


def test_what_is_wrong_with_every_line_ends_it_at_once(rota: Rota, mail: str) -> None:
    file = written(rota, "{}\n{}\n")
    unknown = rota("enqueue", "never.declared", "--file", file)
    assert (unknown.code, unknown.out, unknown.err.count("error:")) == (1, "", 1)
    assert "rota types put never.declared" in unknown.err
    assert rota("enqueue", mail, "--file", file, "--priority", "urgent").err.count("error:") == 1
    assert stored(rota, mail) == []


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--file", "missing.jsonl"), "missing.jsonl cannot be read"),
        (("{}", "--file", "-"), "not both"),
        (("--payload", "{}"), "The payload is the second argument: rota enqueue mail.send '{}'"),
    ],
)
def test_misuse_is_told_before_anything_is_sent(rota: Rota, arguments: tuple[str, ...], part: str) -> None:
    ended = rota("enqueue", "mail.send", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert part in ended.err


def test_long_line_is_never_held_as_a_whole() -> None:
    class Counting(io.BytesIO):
        longest = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            text = super().readline(size)
            self.longest = max(self.longest, len(text))
            return text

    file = Counting(b"x" * (3 * MOST_LINE_BYTES) + b"\n{}\n" + b"y" * (MOST_LINE_BYTES + 1))
    assert [(line.number, line.payload, line.fault is None) for line in lines(file)] == [
        (1, b"", False),
        (2, b"{}", True),
        (3, b"", False),
    ]
    assert file.longest <= MOST_LINE_BYTES + 1


def test_progress_is_shown_on_a_terminal_only(rota: Rota, mail: str) -> None:
    file = written(rota, "{}\n")
    assert "handing in" not in rota.done("enqueue", mail, "--file", file).err
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "rota", "enqueue", mail, "--file", file, "--json"],
            cwd=rota.folder,
            env=environment(**rota.variables, TERM="xterm"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=60,
            check=True,
        )
        shown = os.read(ours, 65_536)
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.stdout == b'{"enqueued":1,"replayed":0,"refused":[]}\n'
    assert b"handing in" in shown


def test_all_log_lines_of_a_job_are_printed(rota: Rota, server: Server, mail: str) -> None:
    id = str(rota.done("enqueue", mail, "--json").json()["id"])
    assert rota.done("jobs", "logs", id).err == "The job has no log lines.\n"
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    with httpx2.Client(base_url=server.url, headers=headers) as http:
        held = http.post("/jobs/claim", json={"types": [mail]}).json()
        beats = [
            {"id": int(id), "lease_token": held["lease_token"], "log": f"line {each}"} for each in range(300)
        ]
        http.post("/jobs/batch/heartbeat", json={"beats": beats}).raise_for_status()
    printed = rota.done("jobs", "logs", id).out.splitlines()
    assert [line.partition("attempt 1  ")[2] for line in printed] == [f"line {each}" for each in range(300)]
    told = rota.done("jobs", "logs", id, "--json").json()
    assert (len(told["items"]), told["next_cursor"]) == (300, None)
    assert told["items"][299]["text"] == "line 299"
    assert rota("jobs", "logs", "999999999").code == 1
