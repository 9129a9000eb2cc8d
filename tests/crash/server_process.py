"""A real ``rota serve`` in a process of its own, to be killed and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import msgspec

from tests.crash.connection import Connection
from tests.crash.deadline import until
from tests.crash.judge import FinalJob

ROTA = Path(sys.executable).with_name("rota")
READY = b"Rota is ready on"
READY_SECONDS = 20.0
STOP_SECONDS = 20.0


class ServerProcess:
    """One server on a data folder and a port that stays the same over restarts."""

    def __init__(self, data: Path, **settings: str) -> None:
        """``settings`` are those of ``rota serve``, by their names in ``rota.toml``."""
        self.data = data
        self.port = free_port()
        self._settings = {f"ROTA_{name.upper()}": value for name, value in settings.items()}
        self.log = data.parent / f"server-{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def admin_token(self) -> str:
        return (self.data / "admin.token").read_text(encoding="ascii").strip()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start, and return when the server says that it answers."""
        self._spawn()
        try:
            async with asyncio.timeout(READY_SECONDS):
                await asyncio.to_thread(self._read_until_ready)
        except BaseException:
            self.kill()
            raise

    def _spawn(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [ROTA, "serve", "--data", self.data, "--port", str(self.port)],
                stdout=subprocess.PIPE,
                stderr=log,
                env=clean_environment() | self._settings,
            )

    def _read_until_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if READY in line:
                return
        raise AssertionError(f"the server did not start: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL, and return when the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._close()

    async def stop(self) -> None:
        """SIGTERM as an operator would; fails when the server does not end in time."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._close()

    def _close(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    # What every test needs of a fresh server

    def connect(self, token: str | None = None) -> Connection:
        return Connection(self.port, token or self.admin_token)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One call as the administrator; its decoded answer, which must be a success."""
        connection = self.connect()
        try:
            reply = await connection.call(method, path, b"" if body is None else msgspec.json.encode(body))
        finally:
            connection.close()
        assert 200 <= reply.status < 300, reply
        return reply.json() if reply.body else None

    async def token(self, name: str, preset: str) -> str:
        """A new token of that preset."""
        made = await self.ask("POST", "/tokens", {"name": name, "preset": preset})
        return str(made["token"])

    async def final_jobs(self) -> list[FinalJob]:
        """Every job there is, with the lost attempts of those that were retried or failed."""
        found: list[FinalJob] = []
        async for job in self._jobs():
            lost = 0
            if job["retry_count"] or job["status"] == "failed":
                attempts = await self.ask("GET", f"/jobs/{job['id']}/attempts")
                lost = sum(each["error"] == "worker lost" for each in attempts["items"])
            uid = job["payload"]["uid"]
            found.append(FinalJob(job["id"], uid, job["status"], job["retry_count"], lost))
        return found

    async def until_all_ended(self, seconds: float) -> None:
        """Wait until no job is pending or running; TimeoutError after ``seconds``."""

        async def all_ended() -> bool:
            async for _ in self._jobs("&status=pending,running"):
                return False
            return True

        await until(all_ended, seconds)

    async def _jobs(self, filters: str = "") -> Any:
        cursor = ""
        while True:
            page = await self.ask("GET", f"/jobs?limit=200{filters}{cursor}")
            for job in page["items"]:
                yield job
            if page["next_cursor"] is None:
                return
            cursor = f"&cursor={page['next_cursor']}"


def clean_environment() -> dict[str, str]:
    """This process's variables without any that Rota would read."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
