"""``rota`` as a user runs it: arguments, an environment, stdin; then an exit code and what was said."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

from rota.cli.app import run

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
        """Run a command in this process: the same code without the half second that a start takes."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with (
            _reading(stdin) as given,
            contextlib.chdir(self.folder),
            mock.patch.dict(os.environ, environment(**self.variables), clear=True),
            mock.patch.object(sys, "stdin", given),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = run(arguments)
        texts = []
        for stream in (out, err):
            stream.flush()
            stream.seek(0)
            texts.append(stream.read())
        return Ended(code, *texts)

    def process(self, *arguments: str, stdin: str | None = None) -> Ended:
        """Run a command as a process of its own."""
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


@contextlib.contextmanager
def _reading(text: str | None) -> Iterator[TextIO]:
    """A stdin that a file was given to, or none."""
    if text is None:
        with open(os.devnull) as nothing:  # noqa: PTH123
            yield nothing
    else:
        with tempfile.TemporaryFile("w+") as file:
            file.write(text)
            file.seek(0)
            yield file


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
