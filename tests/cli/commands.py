"""``rota`` as a user runs it: a process with arguments, an environment and a terminal or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY = "Rota is ready on "


def environment(**extra: str) -> dict[str, str]:
    """This process's environment without ROTA_ variables, which would decide what a command does."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ROTA_")}
    return kept | {"COLUMNS": "100"} | extra


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Rota:
    """Runs commands in a folder, with ROTA_ variables of its own."""

    folder: Path
    variables: dict[str, str]

    def __call__(self, *arguments: str, stdin: str | None = None) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "rota", *arguments],
            cwd=self.folder,
            env=environment(**self.variables),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr + done.stdout
        return Ended(done.returncode, done.stdout, done.stderr)

    def done(self, *arguments: str, stdin: str | None = None) -> Ended:
        """Run a command that has to succeed."""
        ended = self(*arguments, stdin=stdin)
        assert ended.code == 0, ended.err
        return ended

    def with_variables(self, **variables: str) -> Rota:
        return Rota(self.folder, variables)


class Server:
    """A server process on a free port with a data folder of its own."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rota", "serve", "--data", str(data), "--port", "0"],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(READY), line
        self.url = line.removeprefix(READY).strip()

    @property
    def admin_token(self) -> str:
        return (self.data / "admin.token").read_text().strip()

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.terminate()
        assert self.process.stdout is not None
        with self.process.stdout:
            return self.process.wait(20)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
