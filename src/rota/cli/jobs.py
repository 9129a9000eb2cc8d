"""``rota jobs``: look at jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from cyclopts import App

from rota.cli import actions, output
from rota.cli.connection import JsonFlag, Reply, Server, ask, converse, with_body
from rota.cli.values import INSTANT, spoken
from rota.client import calls
from rota.client.aio import AsyncClient
from rota.client.answers import Page
from rota.client.jobs import AttemptInfo, JobInfo, LogInfo
from rota.errors import Forbidden

jobs = App(
    name="jobs",
    help_epilogue="""\
Examples:

  rota jobs list --status failed          the dead letters
  rota jobs show 17                       one job, its attempts and its log
  rota jobs logs 17                       all that its handler logged
  rota jobs replay 17                     start a failed job over
  rota jobs wait 17                       wait until it has ended""",
)


@jobs.command(
    name="list",
    help_epilogue="""\
Examples:

  rota jobs list
  rota jobs list --status failed --type mail.send
  rota jobs list --created-after 2026-12-01T00:00:00Z --json""",
)
def list_jobs(
    *,
    status: str | None = None,
    type: str | None = None,
    queue: str | None = None,
    text: str | None = None,
    created_after: Annotated[datetime | None, INSTANT] = None,
    created_before: Annotated[datetime | None, INSTANT] = None,
    limit: int | None = None,
    cursor: str | None = None,
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> None:
    """List jobs, newest first.

    Parameters
    ----------
    status
        pending, running, completed, failed, cancelled; several with commas between them.
    type
        Only jobs of this type.
    queue
        Only jobs of this queue.
    text
        Only jobs whose payload holds this text.
    created_after
        Only jobs handed in at this instant or later.
    created_before
        Only jobs handed in before this instant.
    limit
        How many, 1 to 200; else 50.
    cursor
        Where the list before ended; it told you.
    """
    filters = {
        "status": status,
        "type": type,
        "queue": queue,
        "q": text,
        "created_after": created_after,
        "created_before": created_before,
    }
    reply = ask(server, calls.jobs(filters, limit, cursor))
    if as_json:
        return output.document(reply.body)
    if not reply.value.items:
        narrowed = any((*filters.values(), cursor))
        output.hint(
            "No job matches. `rota jobs list` without filters shows all that you may see."
            if narrowed
            else "There is no job that this token may see. Hand one in with: rota enqueue TYPE '{}'"
        )
        return None
    output.table(
        ("ID", "TYPE", "STATUS", "RETRIES", "CREATED", "QUEUE", "PRIORITY", "WORKER"),
        [
            (
                str(job.id),
                job.type,
                _status(job),
                f"{job.retry_count}/{job.max_retries}",
                output.ago(job.created_at),
                job.queue,
                job.priority,
                job.worker_id or "–",
            )
            for job in reply.value.items
        ],
        spare=("QUEUE", "PRIORITY"),
    )
    if reply.value.next_cursor is not None:
        output.hint(f"There are more: repeat the command with --cursor {reply.value.next_cursor}")
    return None


@jobs.command(
    name="show",
    help_epilogue="""\
Examples:

  rota jobs show 17
  rota jobs show 17 --json""",
)
def show(id: int, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """Show one job with its failed attempts and its log lines.

    Parameters
    ----------
    id
        The job's number, as `rota jobs list` shows it.
    """
    if as_json:
        return output.document(ask(server, calls.job(id)).body)
    job, attempts, lines = converse(server, lambda client: _whole(client, id))
    _show_job(job)
    if attempts:
        output.say("")
        output.say("Failed attempts", "bold")
        output.table(
            ("ATTEMPT", "WORKER", "ENDED", "ERROR"),
            [
                (str(one.attempt), one.worker_id or "–", output.ago(one.finished_at), one.error or "–")
                for one in attempts
            ],
        )
    if lines:
        output.say("")
        output.say("Log", "bold")
        output.table(
            ("ATTEMPT", "AT", "TEXT"),
            [(str(line.attempt), output.ago(line.at), line.text or "") for line in lines],
        )
    if job.status in {"failed", "cancelled"}:
        output.hint(f"Start it over with: rota jobs replay {job.id}")
    return None


@jobs.command(
    name="logs",
    help_epilogue="""\
Examples:

  rota jobs logs 17
  rota jobs logs 17 --json""",
)
def logs(id: int, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """Print all log lines of a job, those of its first attempt first.

    Parameters
    ----------
    id
        The job's number, as `rota jobs list` shows it.
    """
    pages = converse(server, lambda client: _log_pages(client, id))
    if as_json:
        found = (msgspec.json.decode(page.body, type=Page[msgspec.Raw]) for page in pages)
        items = [line for page in found for line in page.items]
        return output.document(msgspec.json.encode(Page(items)))
    if not any(page.value.items for page in pages):
        output.hint("The job has no log lines.")
    for page in pages:
        for line in page.value.items:
            output.say(f"{line.at:%Y-%m-%d %H:%M:%S}  attempt {line.attempt}  {line.text or ''}")
    return None


async def _log_pages(client: AsyncClient, id: int) -> Sequence[Reply[Page[LogInfo]]]:
    pages = [await client.send(with_body(calls.logs(id, None)))]
    while (cursor := pages[-1].value.next_cursor) is not None:
        pages.append(await client.send(with_body(calls.logs(id, cursor))))
    return pages


async def _whole(client: AsyncClient, id: int) -> tuple[JobInfo, Sequence[AttemptInfo], Sequence[LogInfo]]:
    job = await client.get(id)
    try:
        attempts, lines = await asyncio.gather(client.attempts(id), client.logs(id))
    except Forbidden:  # attempts and logs need detail:read; the job itself does not
        return job, (), ()
    return job, attempts, lines


def _is_ahead(job: JobInfo) -> bool:
    """Whether a job waits for its time."""
    return job.status == "pending" and job.run_at is not None and output.is_ahead(job.run_at)


def _status(job: JobInfo) -> str:
    if not _is_ahead(job):
        return job.status
    return f"pending ({'retry ' if job.retry_count else ''}{output.ago(job.run_at)})"


def _show_job(job: JobInfo) -> None:
    lease = output.moment(job.lease_expires_at)
    next_try = job.retry_count > 0 and _is_ahead(job)
    stop = " (asked to stop)" if job.cancel_requested and job.finished_at is None else ""
    output.fields(
        (
            ("job", str(job.id)),
            ("type", job.type),
            ("status", job.status + stop),
            ("queue", job.queue),
            ("priority", job.priority),
            ("retries", f"{job.retry_count} of {job.max_retries}"),
            ("created", output.moment(job.created_at)),
            ("next try" if next_try else "not before", output.moment(job.run_at)),
            ("claimed", output.moment(job.claimed_at)),
            ("lease until", None if lease is None else f"{lease}, then another worker gets it"),
            ("finished", output.moment(job.finished_at)),
            ("worker", job.worker_id),
            ("timeout", None if job.timeout_seconds is None else spoken(job.timeout_seconds)),
            ("idempotency key", job.idempotency_key),
            ("progress", _progress(job)),
            ("payload", _json_text(job.payload_json)),
            ("result", _json_text(job.result_json) if job.status == "completed" else None),
            ("error", job.error or ("hidden: it needs the scope detail:read" if job.has_error else None)),
        )
    )


def _progress(job: JobInfo) -> str | None:
    if job.progress is None:
        return None
    current, total, message = job.progress.current, job.progress.total, job.progress.message
    numbers = "" if current is None else f"{current:g}" + ("" if total is None else f" of {total:g}")
    return " ".join(part for part in (numbers, message) if part)


def _json_text(document: msgspec.Raw | None) -> str | None:
    return None if document is None else bytes(document).decode("utf-8", "backslashreplace")


jobs.command(
    actions.cancel,
    name="cancel",
    help_epilogue="""\
Examples:

  rota jobs cancel 17
  rota jobs cancel 17 18 19
  rota jobs cancel --all-matching --type mail.send""",
)
jobs.command(
    actions.replay,
    name="replay",
    help_epilogue="""\
Examples:

  rota jobs replay 17
  rota jobs replay 17 18 19 --json
  rota jobs replay --all-matching --status failed --dry-run
  rota jobs replay --all-matching --status failed --type mail.send --yes""",
)
jobs.command(
    actions.delete,
    name="delete",
    help_epilogue="""\
Examples:

  rota jobs delete 17
  rota jobs delete --all-matching --status failed --type mail.send""",
)
jobs.command(
    actions.wait,
    name="wait",
    help_epilogue="""\
Examples:

  rota jobs wait 17
  rota jobs wait 17 18 --timeout 5m""",
)
