"""A backup while the server runs: one file, complete or absent, private, and checked."""

from __future__ import annotations

import errno
import os
import secrets
import shlex
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from rota import compose
from rota.clock import Clock
from rota.domain.access import Actor
from rota.errors import StartError
from rota.host import ADMIN_FILE, KEY_FILE, DataLock, account, create_private, read_private, sync_folder
from rota.settings import Settings

Progress = Callable[[int, int], None]
"""Called with what is done and with all there is to do, in pages of the database."""

SECRETS: Final = (KEY_FILE, ADMIN_FILE)
"""Files of the data folder that stand beside a backup, after its name, where that was asked for."""
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class Backup(NamedTuple):
    file: Path
    bytes: int
    secrets: tuple[Path, ...]
    """The files of secrets that were copied beside it."""


def make_backup(
    settings: Settings, target: Path, *, with_secrets: bool, progress: Progress, clock: Clock
) -> Backup:
    """Copy the database to ``target``, or under a name with the time into it when it is a folder.

    The copy holds everything that was acknowledged before this call. It gets its name only when it is
    complete, checked and synced, and takes nobody's place. Raises StartError.
    """
    source = settings.database_file
    if not source.is_file():
        raise StartError(
            f"There is no database in {shlex.quote(str(source.parent))}. Name the data folder with --data."
        )
    final = target / f"rota-{_stamp(clock.now())}.db" if target.is_dir() else target
    beside = [(settings.data / name, secret_beside(final, name)) for name in SECRETS] if with_secrets else []
    for path in (final, *(copied for _, copied in beside)):
        if path.exists() or path.is_symlink():
            raise StartError(f"{shlex.quote(str(path))} exists already. Name another file.")
    if not final.parent.is_dir():
        raise StartError(f"The folder {shlex.quote(str(final.parent))} does not exist. Make it first.")
    made = final.with_name(f".{final.name}.{secrets.token_hex(8)}.new")
    with DataLock(source.parent) as lock:
        lock.acquire_shared()
        try:
            compose.copy_database(source, made, progress, pause=True)
            sync_file(made)
            actor = Actor("command", account())
            compose.note(source, clock.now(), actor, "database.backup", {"with_secrets": with_secrets})
            copied = tuple(_copy_secret(*each) for each in beside if each[0].exists())
            size = made.stat().st_size
            _name(made, final)
        except OSError as refused:
            raise StartError(f"The backup cannot be written: {refused.strerror}.") from None
        finally:
            remove_copy(made)
    return Backup(final, size, copied)


def secret_beside(backup: Path, name: str) -> Path:
    """Where a secret of the data folder stands beside a backup that was made with secrets."""
    return backup.with_name(f"{backup.name}.{name}")


def remove_copy(made: Path) -> None:
    """Remove an unfinished copy with what SQLite may have put beside it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        with suppress(OSError):
            made.with_name(made.name + suffix).unlink()


def sync_file(path: Path) -> None:
    """Have the content of a file on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_secret(source: Path, target: Path) -> Path:
    create_private(target, read_private(source))
    return target


def _name(made: Path, final: Path) -> None:
    """Give the copy its name; never in the place of another file."""
    try:
        os.link(made, final)
    except OSError as refused:
        if refused.errno not in _NO_LINKS:
            raise
        made.rename(final)  # a file system without links, such as that of a memory stick
    sync_folder(final.parent)


def _stamp(now: int) -> str:
    return f"{datetime.fromtimestamp(now / 1000, UTC):%Y%m%dT%H%M%SZ}"
