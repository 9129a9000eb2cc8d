"""``rota admin``: what takes access to the data folder instead of a token."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App

from rota import compose, settings
from rota.auth.tokens import key_id_of
from rota.cli import output
from rota.cli.values import JSON
from rota.clock import SystemClock
from rota.domain.access import Actor
from rota.host import account, set_umask
from rota.services.admin_token import reset_admin_token
from rota.settings import Settings

admin = App(
    name="admin",
    help_epilogue="""\
Examples:

  rota admin reset-token
  rota admin reset-token --data /var/lib/rota""",
)


@admin.command(
    name="reset-token",
    help_epilogue="""\
Examples:

  rota admin reset-token
  rota admin reset-token --data /var/lib/rota

Run it as the server's user. The server may run; it knows the new token
within a second. The token is written to admin.token in the data folder, and
shown only on a terminal.""",
)
def reset_token(
    *,
    data: Path | None = None,
    config: Path | None = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Give the admin token a new secret and all rights again; the one before ends.

    Parameters
    ----------
    data
        The data folder. Else ROTA_DATA, ./rota-data.
    config
        The settings file; else rota.toml in the data folder.
    """
    set_umask()
    told = settings.load(data, config, os.environ, {})
    compose.require_current(told.database_file)
    token, file = asyncio.run(_reset(told))
    if as_json:
        return output.document(msgspec.json.encode({"key_id": key_id_of(token), "file": str(file)}))
    if sys.stdout.isatty():
        output.say(token)
    output.hint(f"The new admin token is in {file}, which only you can read.")
    return None


async def _reset(told: Settings) -> tuple[str, Path]:
    async with compose.opened_data(told, os.environ, SystemClock()) as opened:
        return await reset_admin_token(
            opened.store, opened.pepper, opened.folder, Actor("command", account())
        )
