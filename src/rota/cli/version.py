"""``rota version``."""

from __future__ import annotations

import platform
import sqlite3
from typing import Annotated

import msgspec
from cyclopts import App

from rota import __version__
from rota.cli import output
from rota.cli.values import JSON

version = App(
    name="version",
    help_epilogue="""\
Examples:

  rota version
  rota version --json""",
)


@version.default
def print_version(*, as_json: Annotated[bool, JSON] = False) -> None:
    """Print the version of Rota, and of the Python and SQLite it runs on."""
    numbers = {"rota": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    if as_json:
        return output.document(msgspec.json.encode(numbers))
    return output.say(f"Rota {numbers['rota']} (Python {numbers['python']}, SQLite {numbers['sqlite']})")
