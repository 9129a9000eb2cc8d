"""``rota enqueue TYPE --file``: one job for each line of a file, in batches, however long the file is."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec
from msgspec import Raw

from rota.cli import output
from rota.cli.connection import TRIES, Server, address_and_token
from rota.cli.failures import FAILED, OK, Misuse
from rota.cli.progress import bar
from rota.client.client import Client
from rota.client.jobs import JobInfo, JobSpec
from rota.errors import Forbidden, Malformed, RotaError, TooLarge, ValidationFailed

MOST_JOBS_PER_BATCH: Final = 1_000
MOST_BATCH_BYTES: Final = 8 * 1_048_576
MOST_LINE_BYTES: Final = 1_048_576
"""What the server takes as one job; a longer line is refused without being read as a whole."""
SHARED: Final = frozenset(
    {"type", "queue", "priority", "max_retries", "run_at", "delay_seconds", "timeout_seconds"}
)
"""Fields that all lines have in common: what is wrong with one of them is wrong with every line."""
MOST_IN_MEMORY: Final = 1_048_576
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line that is not blank: its number from 1, and its payload or what is wrong with it."""

    number: int
    payload: bytes
    fault: str | None = None


class Job(NamedTuple):
    """A job to be sent, and the line it stands in."""

    line: int
    spec: JobSpec


class Refusal(msgspec.Struct):
    """A line that made no job."""

    line: int
    detail: str


class Tally:
    """What became of the lines. Refusals are told at once, or kept in a file for the one JSON document."""

    def __init__(self, *, as_json: bool) -> None:
        self.enqueued = 0
        self.replayed = 0
        self.refused = 0
        self.settled = 0
        """The last line of the last batch that was answered."""
        self._as_json = as_json
        self._kept = tempfile.SpooledTemporaryFile(MOST_IN_MEMORY)  # noqa: SIM115 - closed in close

    def close(self) -> None:
        self._kept.close()

    def count(self, line: int, verdict: JobInfo | RotaError) -> None:
        """Raises the error of a verdict that every line would get."""
        if isinstance(verdict, JobInfo):
            if verdict.idempotency_replayed:
                self.replayed += 1
            else:
                self.enqueued += 1
            return
        if isinstance(verdict, Forbidden) or (
            isinstance(verdict, ValidationFailed) and any(one.field in SHARED for one in verdict.errors)
        ):
            raise verdict
        self.refuse(line, verdict.detail)

    def refuse(self, line: int, detail: str) -> None:
        if self._as_json:
            self._kept.write(b"," if self.refused else b"")
            self._kept.write(msgspec.json.encode(Refusal(line, detail)) + b"\n")
        else:
            output.error(f"line {line:,}: {detail}")
        self.refused += 1

    def tell(self) -> None:
        """The counts; as JSON with every refusal."""
        if self._as_json:
            output.parts(self._document())
            return
        there = f", {self.replayed:,} {_were(self.replayed)} there already" if self.replayed else ""
        lines = "1 line was" if self.refused == 1 else f"{self.refused:,} lines were"
        refused = f"; {lines} refused" if self.refused else ""
        jobs = "1 job was" if self.enqueued == 1 else f"{self.enqueued:,} jobs were"
        output.say(f"{jobs} handed in{there}{refused}.")

    def _document(self) -> Iterator[bytes]:
        yield b'{"enqueued":%d,"replayed":%d,"refused":[' % (self.enqueued, self.replayed)
        self._kept.seek(0)
        for entry in self._kept:
            yield entry.rstrip(b"\n")
        yield b"]}\n"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def enqueue_file(path: Path, spec: JobSpec, server: Server, *, as_json: bool) -> int:
    """Hand in a copy of ``spec`` for each line; failed when a line was refused.

    The lines are sent in order. An idempotency key gets each line's number added. Raises what ends it
    before the last line, after telling what was done until then.
    """
    url, token = address_and_token(server)
    tally = Tally(as_json=as_json)
    with (
        contextlib.closing(tally),
        _opened(path) as file,
        Client(url, token, insecure_http=server.insecure_http, tries=TRIES) as first,
        Client(url, token, insecure_http=server.insecure_http) as patient,
    ):
        try:
            _send_all(first, patient, file, spec, tally)
        except (RotaError, KeyboardInterrupt):
            if tally.settled:
                tally.tell()
                output.hint(
                    f"It ended after line {tally.settled:,}; of the lines after that some may be stored."
                )
            raise
        tally.tell()
    return FAILED if tally.refused else OK


def _send_all(first: Client, patient: Client, file: BinaryIO, spec: JobSpec, tally: Tally) -> None:
    """Once a batch was answered, a restart of the server is waited for: ``patient`` tries longer."""
    found = os.fstat(file.fileno())
    size = found.st_size if stat.S_ISREG(found.st_mode) else None
    done = 0
    with bar("handing in") as progress:
        for batch, read in _batches(lines(file), spec, tally):
            for job, verdict in _sent(patient if tally.settled else first, batch):
                tally.count(job.line, verdict)
            tally.settled = batch[-1].line
            done += read
            progress(done, size)


def _batches(found: Iterator[Line], spec: JobSpec, tally: Tally) -> Iterator[tuple[list[Job], int]]:
    """Jobs to be sent together, and the bytes of their lines; bad lines are refused on the way."""
    batch: list[Job] = []
    size = 0
    for line in found:
        if line.fault is not None:
            tally.refuse(line.number, line.fault)
            continue
        key = None if spec.idempotency_key is None else f"{spec.idempotency_key}-{line.number}"
        job = msgspec.structs.replace(spec, payload=Raw(line.payload), idempotency_key=key)
        batch.append(Job(line.number, job))
        size += len(line.payload) + 1
        if len(batch) == MOST_JOBS_PER_BATCH or size >= MOST_BATCH_BYTES:
            yield batch, size
            batch, size = [], 0
    if batch:
        yield batch, size


def _sent(client: Client, batch: list[Job]) -> Iterator[tuple[Job, JobInfo | RotaError]]:
    """Each job with its verdict. Where a batch is refused as a whole, its halves find the line at fault."""
    try:
        verdicts = client.enqueue_many([job.spec for job in batch])
    except (Malformed, TooLarge, ValidationFailed) as refused:
        if len(batch) == 1:
            yield batch[0], refused
            return
        middle = len(batch) // 2
        yield from _sent(client, batch[:middle])
        yield from _sent(client, batch[middle:])
        return
    yield from zip(batch, verdicts, strict=True)


# --- the file -------------------------------------------------------------------------------------


def lines(file: BinaryIO) -> Iterator[Line]:
    """The lines of a JSON Lines file that are not blank, never more than one of them in memory."""
    number = 0
    while text := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(text) > MOST_LINE_BYTES:
            while text and not text.endswith(b"\n"):
                text = file.readline(MOST_LINE_BYTES)
            yield Line(number, b"", "it is longer than 1 MiB")
            continue
        text = (text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text).strip()
        if text:
            yield Line(number, text, _fault(text))


def _fault(text: bytes) -> str | None:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        return f"it is not JSON: {fault}"
    return None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as fault:
        raise Misuse(f"The file {path} cannot be read: {fault.strerror}.") from None
    with file:
        yield file
