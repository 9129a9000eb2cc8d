"""A backup in the place of the database, while nobody has it open."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rota import compose
from rota.auth.tokens import fingerprint
from rota.backup import SECRETS, Progress, remove_copy, secret_beside, sync_file
from rota.clock import Clock
from rota.domain.access import Actor
from rota.errors import StartError
from rota.host import (
    KEY_FILE,
    DataLock,
    account,
    create_private,
    load_secret_key,
    open_data_folder,
    read_private,
    sync_folder,
)
from rota.settings import Settings

SIDECARS = ("-wal", "-shm", "-journal")


class Restoration(NamedTuple):
    """What a restore has done."""

    jobs: int
    tokens_suspended: int
    tokens_revoked: int
    other_key: bool
    """The backup was written under another secret key, so no token of it can be verified."""
    aside: Path | None
    """Where the database lies that was there before."""


def restore(
    settings: Settings,
    environ: Mapping[str, str],
    backup: Path,
    *,
    keep_tokens: bool,
    progress: Progress,
    clock: Clock,
) -> Restoration:
    """Put ``backup`` in the place of the database that the settings name.

    Everything is prepared in a copy beside the database: schema, tokens, audit. Only then the one before is
    put aside and the copy takes its name, in one step; when the result cannot be read, the one before comes
    back. Raises StartError, above all when a process has the data open.
    """
    if not backup.is_file():
        raise StartError(f"{shlex.quote(str(backup))} is no file. Name a backup.")
    database = settings.database_file
    if database.exists() and backup.samefile(database):
        raise StartError("This is the database itself. Name a backup of it.")
    compose.require_ours(backup)
    folder = open_data_folder(settings.data)
    if not database.parent.is_dir():
        raise StartError(f"The folder {shlex.quote(str(database.parent))} does not exist. Make it first.")
    with DataLock(database.parent) as lock:
        lock.acquire_exclusive()
        _take_secrets(backup, folder, environ)
        current, previous = load_secret_key(folder, environ)
        made = database.with_name(f".{database.name}.{secrets.token_hex(8)}.new")
        try:
            compose.copy_database(backup, made, progress, pause=False)
            prepared = compose.prepare_database(
                made,
                clock.now(),
                Actor("command", account()),
                fingerprint(current),
                None if previous is None else fingerprint(previous),
                keep_tokens=keep_tokens,
            )
            sync_file(made)
            aside = _put_aside(database, clock.now()) if database.exists() else None
            made.replace(database)
            sync_folder(database.parent)
        except OSError as refused:
            raise StartError(f"The backup cannot be put in place: {refused.strerror}.") from None
        finally:
            remove_copy(made)
        _verify(database, aside, prepared.jobs)
    return Restoration(prepared.jobs, prepared.suspended, prepared.revoked, prepared.other_key, aside)


def _take_secrets(backup: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """Take over what a backup with secrets has beside it, where the data folder has nothing of its own."""
    if (folder / KEY_FILE).exists() or {"ROTA_SECRET_KEY", "ROTA_SECRET_KEY_FILE"} & environ.keys():
        return
    for name in SECRETS:
        with suppress(FileNotFoundError, FileExistsError):
            create_private(folder / name, read_private(secret_beside(backup, name)))


def _put_aside(database: Path, now: int) -> Path:
    """A second name for the database that is there, so that at no moment there is none."""
    whole = compose.settle(database)
    stamp = f"{datetime.fromtimestamp(now / 1000, UTC):%Y%m%dT%H%M%SZ}"
    aside = database.with_name(f"{database.name}.before-restore-{stamp}")
    os.link(database, aside)
    for suffix in SIDECARS:
        beside = database.with_name(database.name + suffix)
        if beside.exists():
            # The log of a database that cannot be read any more goes with it: the new one must not meet it.
            beside.unlink() if whole else beside.rename(aside.with_name(aside.name + suffix))
    return aside


def _verify(database: Path, aside: Path | None, jobs: int) -> None:
    try:
        found = compose.count_jobs(database)
    except StartError:
        found = -1
    if found == jobs:
        return
    if aside is not None:
        aside.replace(database)
        sync_folder(database.parent)
        raise StartError("The restored database cannot be read: the one before is back in its place.")
    raise StartError("The restored database cannot be read: look at the disk, then try another backup.")
