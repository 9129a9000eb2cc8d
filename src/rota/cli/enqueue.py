"""``rota enqueue``: hand in one job."""

from __future__ import annotations

import os
import stat
import sys
from datetime import datetime
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from rota.cli import output
from rota.cli.connection import JsonFlag, Server, ask
from rota.cli.failures import Misuse, NextStep
from rota.cli.values import DURATION, INSTANT
from rota.client import calls
from rota.client.jobs import JobSpec
from rota.domain.names import NAME
from rota.errors import ValidationFailed

enqueue = App(
    name="enqueue",
    help_epilogue="""\
Examples:

  rota enqueue mail.send '{"to": "ann@example.org"}'
  rota enqueue report.build --priority medium --delay 10m
  curl -s https://example.org/order.json | rota enqueue order.import -
  rota enqueue invoice.print '{"no": 17}' --idempotency-key invoice-17

The last one may be repeated: the same key never makes a second job.""",
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
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> None:
    """Hand in a job. When the command returns, the job is on the server's disk.

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
    """
    spec = JobSpec(
        type,
        payload=msgspec.Raw(_document(payload)),
        queue=queue,
        priority=priority,
        max_retries=max_retries,
        run_at=run_at,
        delay_seconds=delay,
        idempotency_key=idempotency_key,
        timeout_seconds=timeout,
    )
    try:
        reply = ask(server, calls.enqueue(spec))
    except ValidationFailed as refused:
        if any(one.field == "type" for one in refused.errors):
            adds = f"; `rota types put {type}` declares this one" if NAME.fullmatch(type) else ""
            raise NextStep(refused, f"`rota types list` shows the types{adds}.") from None
        raise
    if as_json:
        return output.document(reply.body)
    job = reply.value
    if job.idempotency_replayed:
        output.say(f"Job {job.id} was there already: {job.type}, {job.status}.")
        if job.idempotency_mismatch:
            output.hint("It has another type or payload than this one.")
    else:
        start = "" if job.run_at is None else f", not before {output.moment(job.run_at)}"
        output.say(f"Job {job.id}: {job.type}, {job.priority} priority, queue {job.queue}{start}.")
    output.hint(f"Follow it with: rota jobs show {job.id}")
    return None


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
