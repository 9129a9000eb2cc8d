"""The processes that are measured: a Rota server, the bare endpoint, a worker; each on 127.0.0.1 only."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.scripts import TYPE

ROTA: Final = Path(sys.executable).with_name("rota")
START_SECONDS: Final = 20
STOP_SECONDS: Final = 30


class Process:
    """A child process whose lines are read as they come, and that is ended with its block."""

    def __init__(self, *command: str, env: Mapping[str, str] | None = None) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self.began = time.perf_counter()
        self._child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**own, **(env or {})},
        )
        self.pid = self._child.pid
        self.lines: list[tuple[float, str]] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self._news:
                self.lines.append((time.perf_counter(), line.rstrip()))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def line_with(self, text: str) -> tuple[float, str]:
        """When the first line that holds ``text`` came, and that line. Raises when the process ends first."""
        deadline = time.perf_counter() + START_SECONDS
        with self._news:
            while True:
                for at, line in self.lines:
                    if text in line:
                        return at, line
                if not self._reader.is_alive() or time.perf_counter() > deadline:
                    raise RuntimeError("\n".join(line for _, line in self.lines) or "the process is silent")
                self._news.wait(0.1)

    def alive(self) -> bool:
        return self._child.poll() is None

    def stop(self) -> None:
        """SIGTERM; SIGKILL if that does not help."""
        if self.alive():
            self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join()

    # --- what the kernel says about it --------------------------------------------------------

    def cpu_seconds(self) -> float:
        """CPU time of all its threads that still run."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def rss_mb(self) -> float:
        """Resident memory in units of 1,000,000 bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        return 0


class Server:
    """A running ``rota serve`` with a type, a producer's token and a worker's token."""

    def __init__(self, process: Process, port: int, folder: Path) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.database = folder / "rota.db"
        self._admin = (folder / "admin.token").read_text().strip()
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.producer = ""
        self.worker = ""

    def prepare(self) -> None:
        """Put the type and make the tokens."""
        self.call("PUT", f"/types/{TYPE}", {})
        self.producer = self.call("POST", "/tokens", {"name": "producer", "preset": "producer"})["token"]
        self.worker = self.call("POST", "/tokens", {"name": "worker", "preset": "worker"})["token"]

    def call(self, method: str, path: str, body: object = None, *, token: str = "") -> Any:
        """One call, by default as administrator. Raises on any refusal."""
        headers = {"Authorization": f"Bearer {token or self._admin}", "Content-Type": "application/json"}
        content = None if body is None else msgspec.json.encode(body)
        self._http.request(method, path, content, headers)
        answer = self._http.getresponse()
        text = answer.read()
        if answer.status // 100 != 2:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return msgspec.json.decode(text) if text else None

    def first_answer(self) -> float:
        """When ``/health/ready`` has answered 200."""
        deadline = time.perf_counter() + START_SECONDS
        while time.perf_counter() < deadline:
            self._http.request("GET", "/health/ready")
            answer = self._http.getresponse()
            answer.read()
            if answer.status == 200:
                return time.perf_counter()
        raise RuntimeError("the server does not become ready")


def start_server(folder: Path) -> tuple[Server, float]:
    """A server on a data folder, and how long it took from its spawn to its ready line, in seconds."""
    process = Process(str(ROTA), "serve", "--data", str(folder), "--port", "0")
    try:
        at, line = process.line_with("Rota is ready on")
        port = int(line.split("Rota is ready on", 1)[1].split()[0].rstrip("/").rpartition(":")[2])
        return Server(process, port, folder), at - process.began
    except BaseException:
        process.stop()
        raise


@contextlib.contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """A prepared server on a new data folder, stopped at the end."""
    server, _ = start_server(folder)
    try:
        server.prepare()
        yield server
    finally:
        server.process.stop()


@contextlib.contextmanager
def running_bare(folder: Path) -> Iterator[tuple[Process, int]]:
    """The bare endpoint on a new database, and its port."""
    folder.mkdir(parents=True)
    process = Process(sys.executable, "-m", "benchmarks.bare", str(folder / "bare.db"))
    try:
        _, line = process.line_with("")
        yield process, int(line)
    finally:
        process.stop()


@contextlib.contextmanager
def running_worker(
    server: Server, tasks: str, *options: str, env: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """A ``rota worker`` that serves the tasks of a module."""
    command = (str(ROTA), "worker", tasks, "--url", server.url, *options)
    process = Process(*command, env={"ROTA_TOKEN": server.worker, **(env or {})})
    try:
        yield process
    finally:
        process.stop()
