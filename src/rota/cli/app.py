"""The command ``rota``: its list of commands and its end, be it success, a failure or a misuse.

Commands are named by place and loaded when they are run, so that ``rota --help`` and ``rota serve``
start without what the others need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from cyclopts import App, CycloptsError

from rota import __version__
from rota.cli import output
from rota.cli.failures import FAILED, INTERRUPTED, MISUSED, OK, code_of, next_step
from rota.errors import RotaError

app = App(
    name="rota",
    version=__version__,
    help="Rota runs background jobs that must not be lost: one process, one SQLite\nfile, one HTTP API.",
    help_format="plaintext",
    help_epilogue="""\
Start here:

  rota demo                                   see it work, in under a minute
  rota serve                                  run a server on this machine
  rota types put mail.send                    allow a type of job
  rota enqueue mail.send '{"to": "ann"}'      hand in a job
  rota jobs list                              see what became of it

`rota COMMAND --help` explains a command and shows examples. Commands talk to
the server at --url, else ROTA_URL, else the one whose data folder is
./rota-data (--data, ROTA_DATA). Exit codes: 0 done, 1 failed, 2 not understood.""",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)

COMMANDS: Final = (
    ("serve", "rota.cli.serve:serve", "Run the server on this machine."),
    ("worker", "rota.cli.worker:worker", "Run a worker: fetch jobs and call your Python functions."),
    ("enqueue", "rota.cli.enqueue:enqueue", "Hand in a job, or a file of them."),
    ("jobs", "rota.cli.jobs:jobs", "List, show, cancel, replay, delete and await jobs; read logs."),
    ("queues", "rota.cli.queues:queues", "See what waits where; make, pause and resume queues."),
    ("types", "rota.cli.types:types", "Declare the types of jobs that the server takes."),
    ("workers", "rota.cli.workers:workers", "See who fetches jobs and what they run; drain one."),
    ("tokens", "rota.cli.tokens:tokens", "Make, list, revoke and rotate tokens."),
    ("audit", "rota.cli.audit:audit", "Show who changed what, and who was refused."),
    ("doctor", "rota.cli.doctor:doctor", "Look for what is wrong with a data folder and its server."),
    ("backup", "rota.cli.backup:backup", "Copy the database while the server runs."),
    ("restore", "rota.cli.restore:restore", "Put a backup in the place of the database."),
    ("admin", "rota.cli.admin:admin", "Open the door with access to the data folder."),
    ("demo", "rota.cli.demo:demo", "See it work on real files, and check the result."),
    ("completion", "rota.cli.completion:completion", "Print what a shell needs to complete commands."),
    ("version", "rota.cli.version:version", "Print the version."),
)
for _rank, (_name, _place, _line) in enumerate(COMMANDS):
    app.command(_place, name=_name, help=_line, sort_key=_rank)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command line and end the process with its exit code."""
    code = run(sys.argv[1:] if arguments is None else arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_stdout()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """The exit code of one command line; what went wrong is told on stderr, without a stack trace."""
    try:
        code = app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as misuse:
        output.error(str(misuse), f"See: {_help_command(arguments)}")
        return MISUSED
    except RotaError as failure:
        output.error(failure.detail, next_step(failure))
        return code_of(failure)
    except BrokenPipeError:
        _let_go_of_stdout()
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as fault:
        if sys.flags.dev_mode:
            raise
        output.error(
            f"Rota has a fault here: {type(fault).__name__}: {fault}",
            "Please report it. `python -X dev -m rota …` shows where it happened.",
        )
        return FAILED
    return code if isinstance(code, int) else OK


def _help_command(arguments: Sequence[str]) -> str:
    words = ["rota"]
    known: App = app
    for word in arguments:
        if word.startswith("-") or word not in known:
            break
        known = known[word]
        words.append(word)
    return " ".join([*words, "--help"])


def _let_go_of_stdout() -> None:
    """The reader has gone (``rota jobs list | head``); what is left must not raise at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
