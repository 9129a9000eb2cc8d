"""A real worker in a process of its own, to be killed, frozen and started again."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.crash.server_process import ServerProcess, clean_environment

ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """Runs the tasks of ``handlers.py`` against one server; killed at the end of its block."""

    def __init__(
        self, server: ServerProcess, token: str, ledger: Path, instance: str, concurrency: int
    ) -> None:
        self._words = [sys.executable, "-m", "tests.crash.handlers", instance, str(concurrency)]
        self._log = ledger.with_name(f"worker-{instance}.log")
        self._environment = clean_environment() | {
            "ROTA_URL": f"http://127.0.0.1:{server.port}",
            "ROTA_TOKEN": token,
            "CRASH_LEDGER": str(ledger),
        }
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._words, cwd=ROOT, env=self._environment, stdout=log, stderr=log
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, and return when the process is gone."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    async def keep_alive(self, over: asyncio.Event) -> None:
        """Start it again whenever it dies, as a supervisor does, until ``over`` is set."""
        try:
            while not over.is_set():
                died = asyncio.create_task(asyncio.to_thread(self.process.wait))
                told = asyncio.create_task(over.wait())
                await asyncio.wait({died, told}, return_when=asyncio.FIRST_COMPLETED)
                if died.done() and not over.is_set():
                    self.start()
        finally:
            self.kill()
