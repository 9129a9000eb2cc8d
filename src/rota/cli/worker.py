"""``rota worker``: a process that runs the tasks of a Python module."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from rota.cli import output
from rota.cli.connection import Server, address_and_token, own_token
from rota.cli.failures import NextStep
from rota.cli.values import DURATION, FLAG, NAMES
from rota.client import tasks
from rota.client.worker import Worker
from rota.errors import RotaError, StartError
from rota.wire import instant

log = logging.getLogger("rota.worker")

worker = App(
    name="worker",
    help_epilogue="""\
Examples:

  rota worker my.tasks --token-file mailer.token    all tasks of my/tasks.py
  rota worker my.tasks:mail --concurrency 50        one task or one collection
  rota worker my.tasks --url https://rota.example.org --token-file mailer.token

It needs a token of its own, in a file or in ROTA_TOKEN: see
`rota tokens create`.

A task is a function with a decorator:

  import rota

  @rota.task(name="mail.send")
  async def send_mail(to: str) -> None: ...

Ctrl-C or SIGTERM lets running jobs end and gives the others back; a second one
does not wait.""",
)


@worker.default
def run_worker(
    module: str,
    /,
    *,
    concurrency: int = 10,
    prefetch: int | None = None,
    queues: Annotated[list[str] | None, NAMES] = None,
    instance: str | None = None,
    lease: Annotated[float | None, DURATION] = None,
    heartbeat: Annotated[float | None, DURATION] = None,
    grace: Annotated[float, DURATION] = 30.0,
    verbose: Annotated[bool, FLAG] = False,
    log_json: Annotated[
        bool, Parameter(name=("--log-json", "--json"), negative="", show_default=False)
    ] = False,
    server: Server = Server(),
) -> None:
    """Run a worker: fetch jobs and call the functions of a module with them.

    Parameters
    ----------
    module
        MODULE or MODULE:NAME, as one would import it from the current folder.
    concurrency
        How many jobs run at once.
    prefetch
        How many jobs to fetch ahead of a free place; else as many as short jobs are worth.
    queues
        Only jobs of this queue; repeat the flag for each. Else all that the token allows.
    instance
        What this process is called beside its token's name; else host and process id.
    lease
        How long the server waits for a silent worker; else what each type says.
    heartbeat
        How often to tell the server that a job is alive; else three times in a lease.
    grace
        How long running jobs may go on after the worker was told to stop; else 30s.
    verbose
        Log the start and the end of each job too, not only failures.
    log_json
        Log one JSON object a line.
    """
    _configure_log(verbose, log_json)
    found = _load(module)
    names = sorted(one.name for one in found)
    types = " ".join(f"--types {name}" for name in names)
    own_token(server, f"Make one with: rota tokens create NAME --preset worker {types} --out worker.token")
    url, token = address_and_token(server)
    made = Worker(
        url,
        token,
        found,
        concurrency=concurrency,
        prefetch=prefetch,
        queues=queues,
        instance=instance,
        lease_seconds=lease,
        heartbeat_seconds=heartbeat,
        grace_seconds=grace,
        insecure_http=server.insecure_http,
    )
    log.info("asking for jobs of type %s at %s", ", ".join(names), url)
    made.run()


def _load(module: str) -> tasks.Tasks:
    try:
        return tasks.load(module)
    except RotaError:
        raise
    except Exception as fault:  # whatever the user's own module raises
        last = traceback.extract_tb(fault.__traceback__)[-1]
        raise NextStep(
            StartError(f"{module} cannot be imported: {type(fault).__name__}: {fault}"),
            f"It happened in {last.filename}, line {last.lineno}.",
        ) from None


def _configure_log(verbose: bool, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else VisibleLines("%(instant)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("rota").setLevel(logging.DEBUG if verbose else logging.INFO)


def _instant(record: logging.LogRecord) -> str:
    return instant(int(record.created * 1000))


class VisibleLines(logging.Formatter):
    """Log lines whose text, which may come from a payload, cannot act on the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        record.instant = _instant(record)
        return "\n".join(output.visible(line) for line in super().format(record).split("\n"))


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": _instant(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode("utf-8")
