"""``rota enqueue``: hand in one job, or one for each line of a file."""

from __future__ import annotations

import os
import stat
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import App, Parameter

from rota.cli import output
from rota.cli.bulk import enqueue_file
from rota.cli.connection import JsonFlag, Server, ask
from rota.cli.failures import OK, Misuse, NextStep
from rota.cli.values import DURATION, INSTANT
from rota.client import calls
from rota.client.jobs import JobSpec
from rota.domain.names import NAME
from rota.errors import ValidationFailed

MISPLACED: Final = Parameter(name="--payload", show=False, allow_leading_hyphen=True)
"""What people try first; it is answered with the right way."""

enqueue = App(
    name="enqueue",
    help_epilogue="""\
Examples:

  rota enqueue mail.send '{"to": "ann@example.org"}'
  rota enqueue report.build --priority medium --delay 10m
  curl -s https://example.org/order.json | rota enqueue order.import -
  rota enqueue invoice.print '{"no": 17}' --idempotency-key invoice-17
  rota enqueue mail.send --file mails.jsonl --priority low

A command with an idempotency key may be repeated: it makes no second job.""",
)


@enqueue.default
def enqueue_job(
    type: str,
    payload: Annotated[str | None, Parameter(name="payload", allow_leading_hyphen=True)] = None,
    /,
    *,
    priority: str | None = None,
    queue: str | None = None,
    delay: Annotated[float | None, DURATION] = None,
    run_at: Annotated[datetime | None, INSTANT] = None,
    max_retries: int | None = None,
    timeout: Annotated[float | None, DURATION] = None,
    idempotency_key: str | None = None,
    file: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    payload_flag: Annotated[str | None, MISPLACED] = None,
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> int:
    """Hand in a job, or one for each line of a file. When the command returns, they are on the server's disk.

    Parameters
    ----------
    type
        The job's type; `rota types list` shows those that the server takes.
    payload
        JSON for the handler. `-`, or nothing beside a pipe, reads it from stdin; nothing at all is {}.
    priority
        low, medium, high or critical; else the type's.
    queue
        The queue; else the type's.
    delay
        Run it no sooner than this: 30s, 5m, 2h, 1d.
    run_at
        Run it no sooner than this instant: 2026-12-01T08:30:00Z.
    max_retries
        How often it is tried again after a failure; else the type's.
    timeout
        How long one attempt may take; else the type's.
    idempotency_key
        A name of your own for this job: the same key again gives back the same job.
        With --file the number of the line is added: KEY-1, KEY-2.
    file
        A file with one payload per line, as JSON; - is stdin. Each line becomes a job with the other
        options. Bad lines are reported and skipped. --json then prints one document with the counts.
    """
    if payload_flag is not None:
        raise NextStep(
            Misuse("There is no option --payload."),
            f"The payload is the second argument: rota enqueue {type} '{{}}'",
        )
    if file is not None and payload is not None:
        raise Misuse("Give a payload or --file, not both: the file holds the payloads.")
    spec = JobSpec(
        type,
        payload=msgspec.Raw(b"{}" if file else _document(payload)),
        queue=queue,
        priority=priority,
        max_retries=max_retries,
        run_at=run_at,
        delay_seconds=delay,
        idempotency_key=idempotency_key,
        timeout_seconds=timeout,
    )
    try:
        if file is not None:
            return enqueue_file(file, spec, server, as_json=as_json)
        return _enqueue(spec, server, as_json)
    except ValidationFailed as refused:
        if any(one.field == "type" for one in refused.errors):
            adds = f"; `rota types put {type}` declares this one" if NAME.fullmatch(type) else ""
            raise NextStep(refused, f"`rota types list` shows the types{adds}.") from None
        raise


def _enqueue(spec: JobSpec, server: Server, as_json: bool) -> int:
    reply = ask(server, calls.enqueue(spec))
    if as_json:
        output.document(reply.body)
        return OK
    job = reply.value
    if job.idempotency_replayed:
        output.say(f"Job {job.id} was there already: {job.type}, {job.status}.")
        if job.idempotency_mismatch:
            output.hint("It has another type or payload than this one.")
    else:
        start = "" if job.run_at is None else f", not before {output.moment(job.run_at)}"
        output.say(f"Job {job.id}: {job.type}, {job.priority} priority, queue {job.queue}{start}.")
    output.hint(f"Follow it with: rota jobs show {job.id}")
    return OK


def _document(argument: str | None) -> bytes:
    if argument is not None and argument != "-":
        text = argument.encode("utf-8", "surrogateescape")
    elif argument == "-" or _is_fed(sys.stdin.fileno()):
        text = sys.stdin.buffer.read()
        if argument is None and not text.strip():
            return b"{}"
    else:
        return b"{}"
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise NextStep(
            Misuse(f"The payload is not JSON: {fault}."),
            'Quote it for the shell, with double quotes inside: rota enqueue mail.send \'{"to": "ann"}\'',
        ) from None
    return text.strip()


def _is_fed(descriptor: int) -> bool:
    """Whether stdin is a pipe or a file rather than a terminal or nothing."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
