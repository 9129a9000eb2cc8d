"""The driver's own record of what it was promised, against which the server is judged.

One line of JSON an event, appended the moment the driver knows it. Many processes may write to the same
file: an append of one short line is never torn. The driver is never killed, so nothing is synced.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

Kind = Literal["stored", "started", "finished", "unsure"]
Outcome = Literal["complete", "fail", "release"]


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event.

    ``stored``: the server answered an enqueue with this id (201, or 200 to a repeat of the same uid).
    ``started``: a handler began; ``attempt`` is the job's retry_count at that moment.
    ``finished``: an outcome was accepted. ``unsure``: it was sent, and whether it was accepted is unknown.
    """

    kind: Kind
    id: int
    uid: str = ""
    attempt: int = 0
    outcome: Outcome | None = None


class Ledger:
    """Appends entries to a file; one instance a process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def stored(self, id: int, uid: str) -> None:
        self._write(Entry("stored", id, uid=uid))

    def started(self, id: int, attempt: int) -> None:
        self._write(Entry("started", id, attempt=attempt))

    def finished(self, id: int, outcome: Outcome) -> None:
        self._write(Entry("finished", id, outcome=outcome))

    def unsure(self, id: int, outcome: Outcome) -> None:
        self._write(Entry("unsure", id, outcome=outcome))

    def _write(self, entry: Entry) -> None:
        os.write(self._descriptor, msgspec.json.encode(entry) + b"\n")

    def close(self) -> None:
        os.close(self._descriptor)


def read_ledger(path: Path) -> list[Entry]:
    """Every entry in the order of writing."""
    return [msgspec.json.decode(line, type=Entry) for line in path.read_bytes().splitlines()]
