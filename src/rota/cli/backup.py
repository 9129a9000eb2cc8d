"""``rota backup``: a copy of the database while the server runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App

from rota import settings
from rota.backup import SECRETS, make_backup
from rota.cli import output
from rota.cli.progress import bar
from rota.cli.values import FLAG, JSON
from rota.clock import SystemClock
from rota.host import set_umask

backup = App(
    name="backup",
    help_epilogue="""\
Examples:

  rota backup /backup                       a new file, named by the time
  rota backup /backup/rota.db --data /var/lib/rota
  rota backup /backup --json

The server may run. The copy holds every job that was acknowledged before the
command began; it is checked and on the disk when the command ends. Keep
secret.key apart from it: without that key all tokens are void.""",
)


@backup.default
def copy(
    target: Path,
    /,
    *,
    data: Path | None = None,
    config: Path | None = None,
    with_secrets: Annotated[bool, FLAG] = False,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Copy the database into a new file, or under a name of its own into a folder.

    Parameters
    ----------
    target
        The file to make, or a folder.
    data
        The data folder. Else ROTA_DATA, ./rota-data.
    config
        The settings file; else rota.toml in the data folder.
    with_secrets
        Copy secret.key and admin.token beside it: whoever has the copies then can do everything.
    """
    set_umask()
    told = settings.load(data, config, os.environ, {})
    with bar("copying") as progress:
        made = make_backup(told, target, with_secrets=with_secrets, progress=progress, clock=SystemClock())
    if as_json:
        document = {
            "file": str(made.file),
            "bytes": made.bytes,
            "secrets": [str(path) for path in made.secrets],
        }
        return output.document(msgspec.json.encode(document))
    output.say(f"{made.file} ({made.bytes / 1_048_576:.1f} MiB)")
    if made.secrets:
        output.hint(f"Secrets beside it: {', '.join(path.name for path in made.secrets)}. Keep them apart.")
    else:
        output.hint(f"Without secrets: keep a copy of {SECRETS[0]} in another place.")
    return None
