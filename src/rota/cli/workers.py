"""``rota workers``: who fetches jobs, and letting one of them drain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cyclopts import App

from rota.cli import output
from rota.cli.connection import JsonFlag, Server, ask
from rota.client import workers as calls
from rota.client.answers import Page
from rota.client.protocol import Call
from rota.client.workers import WorkerInfo
from rota.errors import NotFound

T = TypeVar("T")

workers = App(
    name="workers",
    help_epilogue="""\
Examples:

  rota workers list                       who is there, and what they hold
  rota workers handlers                   what they run
  rota workers drain host-1.4711          let one end its jobs and stop""",
)


@workers.command(
    name="list",
    help_epilogue="""\
Examples:

  rota workers list
  rota workers list --json""",
)
def list_workers(*, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """List the workers that have announced themselves within the last day."""
    reply = ask(server, calls.workers(None))
    if as_json:
        return output.document(reply.body)
    found = _rest(server, reply.value, calls.workers)
    if not found:
        return output.hint("No worker has announced itself yet. Start one with: rota worker MODULE")
    output.table(
        ("INSTANCE", "TOKEN", "HOST", "PID", "STATUS", "HOLDS", "SLOTS", "LAST SEEN", "TYPES"),
        [
            (
                one.instance,
                one.announced_by,
                one.host,
                str(one.pid),
                "draining" if one.drain_requested else "working",
                str(one.held),
                str(one.concurrency),
                output.moment(one.last_seen_at) or "",
                ", ".join(one.handlers),
            )
            for one in found
        ],
    )
    return None


@workers.command(
    name="handlers",
    help_epilogue="""\
Examples:

  rota workers handlers
  rota workers handlers --json            with the schemas of their arguments""",
)
def list_handlers(*, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """List the types that workers run, with what they say about them."""
    reply = ask(server, calls.handlers(None))
    if as_json:
        return output.document(reply.body)
    found = _rest(server, reply.value, calls.handlers)
    if not found:
        return output.hint("No worker has announced itself yet. Start one with: rota worker MODULE")
    output.table(
        ("TYPE", "WORKERS", "ANNOUNCED BY", "DESCRIPTION"),
        [(one.name, str(one.workers), ", ".join(one.announced_by), one.description) for one in found],
    )
    return None


@workers.command(
    name="drain",
    help_epilogue="""\
Examples:

  rota workers drain host-1.4711""",
)
def drain(instance: str, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """Ask a worker to end what it does, take no more and stop. It learns of it within 30 s.

    Parameters
    ----------
    instance
        The worker, as `rota workers list` shows it.
    """
    reply = ask(server, calls.drain(_find(server, instance).id))
    if as_json:
        return output.document(reply.body)
    return output.say(f"The worker {instance} is asked to drain; it holds {reply.value.held} jobs.")


def _find(server: Server, instance: str) -> WorkerInfo:
    for one in _rest(server, ask(server, calls.workers(None)).value, calls.workers):
        if one.instance == instance:
            return one
    raise NotFound(f"No worker is called {instance}; `rota workers list` shows those there are.")


def _rest(server: Server, page: Page[T], call: Callable[[str | None], Call[Page[T]]]) -> list[T]:
    """The items of a first page and of all that follow it."""
    found = list(page.items)
    while page.next_cursor is not None:
        page = ask(server, call(page.next_cursor)).value
        found += page.items
    return found
