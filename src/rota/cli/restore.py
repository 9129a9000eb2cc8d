"""``rota restore``: a backup in the place of the database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App

from rota import settings
from rota.cli import output
from rota.cli.progress import bar
from rota.cli.values import FLAG, JSON
from rota.clock import SystemClock
from rota.host import set_umask
from rota.restore import restore as put_in_place

restore = App(
    name="restore",
    help_epilogue="""\
Examples:

  rota restore /backup/rota-20261201T083000Z.db --data /var/lib/rota
  rota admin reset-token --data /var/lib/rota
  rota restore rota.db --keep-tokens        revoked ones may be valid again

Stop every process on the data folder first; the command says which there are.
What was handed in since the backup is gone, and what has run since runs again.""",
)


@restore.default
def bring_back(
    backup: Path,
    /,
    *,
    data: Path | None = None,
    config: Path | None = None,
    keep_tokens: Annotated[bool, FLAG] = False,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Put a backup in the place of the database; the one before is kept beside it.

    Parameters
    ----------
    backup
        A file that `rota backup` has made.
    data
        The data folder; made when missing. Else ROTA_DATA, ./rota-data.
    config
        The settings file; else rota.toml in the data folder.
    keep_tokens
        Leave the tokens as they were; else all are suspended until they are resumed one by one.
    """
    set_umask()
    told = settings.load(data, config, os.environ, {})
    with bar("restoring") as progress:
        done = put_in_place(
            told, os.environ, backup, keep_tokens=keep_tokens, progress=progress, clock=SystemClock()
        )
    if as_json:
        aside = None if done.aside is None else str(done.aside)
        return output.document(msgspec.json.encode({**done._asdict(), "aside": aside}))
    output.say(f"Restored: {done.jobs:,} jobs.")
    if done.aside is not None:
        output.hint(f"The database before is {done.aside}. Remove it when you have seen that all is well.")
    shown = f"--data {told.data}"
    if done.other_key:
        output.hint("The backup was written under another secret key: all its tokens are revoked.")
        output.hint(f"For a new admin token: rota admin reset-token {shown}")
    elif done.tokens_suspended:
        output.hint(f"{done.tokens_suspended} tokens are suspended, since some may have been revoked since.")
        output.hint(f"For the admin token: rota admin reset-token {shown}; then start the server, see")
        output.hint("`rota tokens list`, and let those that are still good go on: rota tokens resume KEY_ID")
    return None
