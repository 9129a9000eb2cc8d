"""The demo's processes: a server and workers, started as commands, ended one by one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rota.errors import StartError

READY: Final = "Rota is ready on "
START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 10.0


class Child:
    """One process that the demo started; what it says goes to a file in the demo's folder."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process
        self._pump: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, name: str, arguments: Sequence[str], folder: Path) -> Child:
        """Run ``rota ARGUMENTS``, without the ROTA_ variables of whoever runs the demo."""
        log = folder / f"{name}.log"
        environ = {key: value for key, value in os.environ.items() if not key.startswith("ROTA_")}
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                # -P: a folder named rota where the demo is started must not be taken for the package.
                *(sys.executable, "-P", "-m", "rota", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=file,
                env=environ,
                # Ctrl-C is the demo's to hear: it ends its children in order.
                start_new_session=True,
            )
        return cls(name, process, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    async def ready_url(self) -> str:
        """The address that a server prints when it answers. Raises StartError when it does not."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                async for line in self._process.stdout:
                    text = line.decode("utf-8", "replace").strip()
                    if text.startswith(READY):
                        return text.removeprefix(READY)
        except TimeoutError:
            raise StartError(f"The demo's {self.name} was not ready after {START_SECONDS:g} s.") from None
        raise StartError(f"The demo's {self.name} did not start: {self.last_words()}")

    def last_words(self) -> str:
        """The last line that the process wrote to stderr."""
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def drain(self) -> None:
        """Read on what the process prints, so that it never waits for a reader."""
        self._pump = asyncio.create_task(self._read_on())

    async def _read_on(self) -> None:
        assert self._process.stdout is not None
        while await self._process.stdout.read(65_536):
            pass

    def send(self, number: signal.Signals) -> None:
        """Send this process a signal; nothing happens when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def kill(self) -> None:
        """End it without a chance to say goodbye."""
        self.send(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> None:
        """Ask it to end, and end it when it does not within 10 s."""
        if not self.has_ended:
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                await self.kill()
        if self._pump is not None:
            await self._pump
