"""Copies of a SQLite database while others write to it, and their way back.

A copy is made from one snapshot, read in small steps with pauses between them. The snapshot keeps the
write-ahead log from being cut back for as long as the copy takes; it never holds up the writer.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rota.domain.access import Actor
from rota.errors import StartError
from rota.store.migrate import Applied, plan, read_migrations
from rota.store.sqlite import audit, jobs
from rota.store.sqlite.connection import describe, immediate, open_copy, open_reader, open_writer
from rota.store.sqlite.migrate import migrate, pending
from rota.store.sqlite.transaction import QUERIES, Transaction

PACKAGE: Final = "rota.store.sqlite"
STEP_PAGES: Final = 1_024
"""4 MiB with pages of 4 KiB."""
MOST_PAUSE_SECONDS: Final = 0.05

Progress = Callable[[int, int], None]
"""Called with the pages that are done and all pages."""


class Restored(NamedTuple):
    """What became of the tokens in a database that was restored."""

    jobs: int
    suspended: int
    revoked: int
    other_key: bool


def copy(source: Path, target: Path, progress: Progress, *, pause: bool = True) -> None:
    """Copy the database ``source`` as it is now into the new file ``target`` (mode 0600), and check the copy.

    With ``pause`` every step is followed by a rest as long as itself, up to 50 ms, so that the disk is half
    the writer's. ``target`` is one complete file without a write-ahead log, but not yet synced. Raises
    StartError when the source cannot be read or the copy is damaged; ``target`` is then left behind.
    """
    reader = open_reader(source)
    try:
        writer = open_copy(target)
        try:
            reader.execute("BEGIN")
            reader.execute(QUERIES["schema_version"]).fetchone()  # takes the snapshot
            _copy_steps(reader, writer, progress, pause=pause)
            reader.rollback()
            (mode,) = writer.execute("PRAGMA journal_mode = DELETE").fetchone()
            assert mode == "delete"
            check(writer)
        except sqlite3.Error as error:
            raise StartError(f"the database cannot be copied, {describe(error)}: see the disk") from error
        finally:
            writer.close()
    finally:
        reader.close()


def _copy_steps(
    reader: sqlite3.Connection, writer: sqlite3.Connection, progress: Progress, *, pause: bool
) -> None:
    began = time.monotonic()

    def stepped(_: int, remaining: int, total: int) -> None:
        nonlocal began
        progress(total - remaining, total)
        if pause and remaining:
            time.sleep(min(time.monotonic() - began, MOST_PAUSE_SECONDS))
        began = time.monotonic()

    reader.backup(writer, pages=STEP_PAGES, progress=stepped)


def check(connection: sqlite3.Connection, *, deep: bool = False) -> None:
    """Look through the whole file; ``deep`` also compares every index with its table. Raises StartError."""
    found = faults(connection, deep=deep)
    if found:
        raise StartError(f"the copy is damaged ({found[0]}); look at the original with `rota doctor`")


def faults(connection: sqlite3.Connection, *, deep: bool = False) -> list[str]:
    """What SQLite finds wrong with the file, at most 100 sentences; none when all is well."""
    rows = connection.execute("PRAGMA integrity_check" if deep else "PRAGMA quick_check").fetchall()
    return [text for (text,) in rows if text != "ok"]


def require_ours(backup: Path) -> None:
    """Raise StartError unless the file is a database of Rota that this release can read; writes nothing."""
    try:
        connection = sqlite3.connect(f"{backup.absolute().as_uri()}?mode=ro", uri=True)
        try:
            applied = [Applied(*row) for row in connection.execute(QUERIES["applied_migrations"])]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StartError(f"this file is no database of Rota ({describe(error)}): name a backup") from error
    plan(read_migrations(PACKAGE), applied)


def prepare(
    path: Path, now: int, actor: Actor, fingerprint: str, previous: str | None, *, keep_tokens: bool
) -> Restored:
    """Make a copied database ready to take the place of another, in one transaction after its migrations.

    Where it was written under the key of ``fingerprint`` (or of ``previous``), its tokens are suspended
    unless ``keep_tokens``; under another key all are revoked, since none could be verified. Jobs held by
    tokens that can no longer be used go back, uncounted. The audit gets a row.
    """
    connection = open_writer(path)
    try:
        migrate(connection, read_migrations(PACKAGE), now)
        immediate(connection)
        within = Transaction(connection, now, dict, lambda: 0.0)
        row = within.execute("read_fingerprint").fetchone()
        other_key = row is not None and row[0] not in (fingerprint, previous)
        suspended: Sequence[tuple[str]] = []
        revoked: Sequence[tuple[str]] = []
        if other_key:
            revoked = within.execute("revoke_tokens", now).fetchall()
        elif not keep_tokens:
            suspended = within.execute("suspend_tokens", now).fetchall()
        within.execute("replace_fingerprint", fingerprint)
        for (id,) in [*suspended, *revoked]:
            jobs.release_held(within, id)
        (count,) = within.execute("count_jobs").fetchone()
        fields = {
            "keep_tokens": keep_tokens,
            "tokens_suspended": len(suspended),
            "tokens_revoked": len(revoked),
            "jobs": count,
        }
        audit.record(within, actor, "database.restore", ("database", None), fields)
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        check(connection)
    except sqlite3.Error as error:
        raise StartError(f"the backup cannot be prepared, {describe(error)}: is it whole?") from error
    finally:
        connection.close()
    return Restored(count, len(suspended), len(revoked), other_key)


def note(path: Path, now: int, actor: Actor, action: str, fields: Mapping[str, object]) -> None:
    """Add a row to the audit, unless the database has the schema of another release, which stays as it is."""
    connection = open_writer(path)
    try:
        if pending(connection, read_migrations(PACKAGE)):
            return
        immediate(connection)
        within = Transaction(connection, now, dict, lambda: 0.0)
        audit.record(within, actor, action, ("database", None), fields)
        connection.commit()
    except sqlite3.Error as error:
        raise StartError(f"the audit cannot be written, {describe(error)}: is the disk full?") from error
    finally:
        connection.close()


def require_current(path: Path) -> None:
    """Raise StartError when the database is missing or a start of the server would change its schema."""
    if not path.exists():
        raise StartError("there is no database here: name the data folder with --data")
    connection = open_reader(path)
    try:
        if pending(connection, read_migrations(PACKAGE)):
            raise StartError("the database is of an older release: start the server of this one first")
    finally:
        connection.close()


def settle(path: Path) -> bool:
    """Copy what is in the write-ahead log into the database and remove the log; False when that failed.

    For a database that nobody has open.
    """
    try:
        connection = open_writer(path)
        try:
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.close()
    except (StartError, sqlite3.Error):
        return False
    return not busy


def count_jobs(path: Path) -> int:
    """How many jobs a database holds. Raises StartError when it cannot be read."""
    connection = open_reader(path)
    try:
        (count,) = connection.execute(QUERIES["count_jobs"]).fetchone()
    except sqlite3.Error as error:
        raise StartError(f"the database cannot be read, {describe(error)}") from error
    finally:
        connection.close()
    return int(count)
