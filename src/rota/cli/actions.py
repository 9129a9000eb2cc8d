"""``rota jobs cancel``, ``replay``, ``delete`` and ``wait``: one job, some, or all that match."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Final, TypeVar

import msgspec
from cyclopts import Group, Parameter

from rota.cli import output
from rota.cli.connection import JsonFlag, Reply, Server, converse, with_body
from rota.cli.failures import FAILED, OK, Misuse, next_step
from rota.cli.values import DURATION, FLAG, INSTANT
from rota.client import calls, management
from rota.client.aio import AsyncClient
from rota.client.jobs import JobInfo
from rota.client.protocol import Call
from rota.errors import RotaError

T = TypeVar("T")

DONE: Final = {"cancel": "cancelled", "replay": "started over", "delete": "deleted"}


@Parameter(name="*", group=Group("All that match", sort_key=80))
@dataclasses.dataclass(frozen=True, kw_only=True)
class Matching:
    """Which jobs an action is about, instead of numbers."""

    all_matching: Annotated[
        bool, FLAG, Parameter(help="All jobs that match; without a filter, all that you see.")
    ] = False
    status: Annotated[str | None, Parameter(help="One or more states with commas between them.")] = None
    type: Annotated[str | None, Parameter(help="Only jobs of this type.")] = None
    queue: Annotated[str | None, Parameter(help="Only jobs of this queue.")] = None
    text: Annotated[str | None, Parameter(help="Only jobs whose payload holds this text.")] = None
    created_after: Annotated[
        datetime | None, INSTANT, Parameter(help="Only jobs handed in after this instant.")
    ] = None
    created_before: Annotated[
        datetime | None, INSTANT, Parameter(help="Only jobs handed in before this instant.")
    ] = None
    dry_run: Annotated[bool, FLAG, Parameter(help="Only count them.")] = False
    yes: Annotated[bool, FLAG, Parameter(help="Do not ask before it is done.")] = False

    @property
    def filters(self) -> calls.JobFilters:
        given = {
            "status": self.status,
            "type": self.type,
            "queue": self.queue,
            "q": self.text,
            "created_after": self.created_after,
            "created_before": self.created_before,
        }
        return msgspec.convert(
            {name: value for name, value in given.items() if value is not None}, calls.JobFilters
        )


def cancel(
    *ids: int, matching: Matching = Matching(), server: Server = Server(), as_json: JsonFlag = False
) -> int:
    """Cancel jobs: a pending one at once, a running one as soon as its worker hears of it.

    Parameters
    ----------
    ids
        The numbers of the jobs; none with --all-matching.
    """
    if not _by_number(ids, matching):
        return _all("cancel", matching, server, as_json)
    return _each(server, ids, calls.cancel, lambda _, job: _cancelled(job), as_json)


def replay(
    *ids: int, matching: Matching = Matching(), server: Server = Server(), as_json: JsonFlag = False
) -> int:
    """Start failed or cancelled jobs over, with all their retries.

    Parameters
    ----------
    ids
        The numbers of the jobs; none with --all-matching.
    """
    if not _by_number(ids, matching):
        return _all("replay", matching, server, as_json)
    return _each(server, ids, calls.replay, lambda id, job: f"Job {id} is {job.status} again.", as_json)


def delete(
    *ids: int, matching: Matching = Matching(), server: Server = Server(), as_json: JsonFlag = False
) -> int:
    """Delete jobs that have ended. An idempotency key holds its job back for a day.

    Parameters
    ----------
    ids
        The numbers of the jobs; none with --all-matching.
    """
    if not _by_number(ids, matching):
        return _all("delete", matching, server, as_json)
    return _each(server, ids, calls.delete, lambda id, _: f"Job {id} is deleted.", as_json)


def wait(
    id: int,
    /,
    *more: int,
    timeout: Annotated[float | None, DURATION] = None,
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> int:
    """Wait until jobs have ended; succeed when all of them completed.

    Parameters
    ----------
    id
        The job's number; several may follow.
    timeout
        Wait no longer than this.
    """
    until = None if timeout is None else time.monotonic() + timeout

    def call(client: AsyncClient, id: int) -> asyncio.Future[Reply[JobInfo]]:
        return asyncio.ensure_future(_ended(client, id, until))

    code = OK
    for each, answer in converse(server, lambda client: _answers(client, (id, *more), call)):
        if isinstance(answer, RotaError):
            output.error(f"job {each}: {answer.detail}", next_step(answer))
            code = FAILED
            continue
        job = answer.value
        if as_json:
            output.document(answer.body)
        elif job.finished_at is None:
            output.say(f"Job {each} is still {job.status}.")
        else:
            output.say(f"Job {each} is {job.status}.")
        if job.status != "completed":
            code = FAILED
    return code


async def _ended(client: AsyncClient, id: int, until: float | None) -> Reply[JobInfo]:
    longest = management.LONGEST_WAIT_SECONDS
    while True:
        left = longest if until is None else max(0.0, min(until - time.monotonic(), longest))
        reply = await client.send(with_body(management.ended(id, left)))
        if reply.value.finished_at is not None or (until is not None and time.monotonic() >= until):
            return reply


# --- by number ------------------------------------------------------------------------------------


def _by_number(ids: Sequence[int], matching: Matching) -> bool:
    """Whether jobs are named by their numbers. Raises Misuse for both and for neither."""
    if ids and not matching.all_matching and matching == Matching(yes=matching.yes):
        return True
    if not ids and matching.all_matching:
        return False
    raise Misuse("Give the numbers of jobs, or --all-matching with filters such as --status failed.")


async def _answers(
    client: AsyncClient, ids: Sequence[int], call: Callable[[AsyncClient, int], asyncio.Future[T]]
) -> list[tuple[int, T | RotaError]]:
    """The answer about each job, or the error it was refused with."""
    found = await asyncio.gather(*(call(client, id) for id in ids), return_exceptions=True)
    answers: list[tuple[int, T | RotaError]] = []
    for id, answer in zip(ids, found, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, RotaError):
            raise answer
        answers.append((id, answer))
    return answers


def _each(
    server: Server,
    ids: Sequence[int],
    call: Callable[[int], Call[T]],
    done: Callable[[int, T], str],
    as_json: bool,
) -> int:
    """Ask for each job in turn and go on after a refusal; failed when one was refused."""

    async def all_of_them(client: AsyncClient) -> Sequence[tuple[int, Reply[T] | RotaError]]:
        answers: list[tuple[int, Reply[T] | RotaError]] = []
        for id in ids:
            try:
                reply = await client.send(with_body(call(id)))
            except RotaError as refused:
                answers.append((id, refused))
            else:
                answers.append((id, reply))
        return answers

    code = OK
    for id, answer in converse(server, all_of_them):
        if isinstance(answer, RotaError):
            output.error(f"job {id}: {answer.detail}", next_step(answer))
            code = FAILED
        elif as_json:
            if answer.body:
                output.document(answer.body)
        else:
            output.say(done(id, answer.value))
    return code


def _cancelled(job: JobInfo) -> str:
    if job.status == "cancelled":
        return f"Job {job.id} is cancelled."
    asked = "its worker has been asked to stop (a sync function that does not look for it runs to its end)"
    return f"Job {job.id} is {job.status}; {asked}."


# --- all that match -------------------------------------------------------------------------------


def _all(action: management.Action, matching: Matching, server: Server, as_json: bool) -> int:
    """Count, ask, do. Raises Misuse where nobody can be asked."""
    filters = matching.filters

    def act(dry_run: bool) -> management.ActionInfo:
        return converse(
            server,
            lambda client: client.act(action, dry_run=dry_run, everything=not filters, **filters),
        )

    if matching.dry_run or not matching.yes:
        counted = act(True)
        if matching.dry_run:
            return _tell(counted, f"{_jobs(counted.remaining)} would be {DONE[action]}.", as_json)
        if not counted.remaining:
            return _tell(counted, "No job matches that this could be done to.", as_json)
        if not _agreed(f"{_jobs(counted.remaining)} will be {DONE[action]}. Go on?"):
            output.hint("Nothing was done.")
            return FAILED
    done = act(False)
    return _tell(done, f"{_jobs(done.done)} {'was' if done.done == 1 else 'were'} {DONE[action]}.", as_json)


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number:,} jobs"


def _tell(info: management.ActionInfo, line: str, as_json: bool) -> int:
    if as_json:
        output.document(msgspec.json.encode(info))
    else:
        output.say(line)
    return OK


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise Misuse(f"{question} Nobody is here to answer: add --yes, or --dry-run to count only.")
    output.hint(f"{question} [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
