"""What the doctor wants to know of a SQLite database; changes nothing in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from rota.domain.audit import AuditRecord, Seal
from rota.errors import StartError
from rota.store.migrate import Applied, plan, read_migrations
from rota.store.sqlite import audit
from rota.store.sqlite.backup import PACKAGE, faults
from rota.store.sqlite.connection import describe, open_reader
from rota.store.sqlite.transaction import QUERIES

T = TypeVar("T")


class DatabaseFacts(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    journal_mode: str
    faults: list[str]
    """What SQLite finds wrong with the file."""
    schema: int
    """The number of the last migration that was applied; 0 for a file without Rota's tables."""
    schema_known: int
    """The number of the last migration that this release knows."""
    schema_fault: str | None = None
    newest_at: int | None = None
    """The latest instant that was ever written."""
    wal_unchecked: int | None = None
    """Pages of the log that a checkpoint could not copy back just now; None when that was not tried."""
    fingerprint: str | None = None
    admin: str | None = None
    """``valid``, ``revoked``, ``suspended`` or ``expired``; None where there is none."""
    chain: T | None = None
    """What ``check`` says about the audit; None where it could not be asked."""


def examine(
    path: Path,
    now: int,
    admin_name: str,
    check: Callable[[Sequence[Seal], Iterable[AuditRecord]], T] | None,
    *,
    deep: bool,
) -> DatabaseFacts[T]:
    """Look at the whole file. Raises StartError when it cannot be opened."""
    known = read_migrations(PACKAGE)
    connection = open_reader(path)
    try:
        found: dict[str, Any] = {
            "journal_mode": connection.execute("PRAGMA journal_mode").fetchone()[0],
            "faults": faults(connection, deep=deep),
            "schema": 0,
            "schema_known": known[-1].number,
            "wal_unchecked": _unchecked(path),
        }
        try:
            applied = [Applied(*row) for row in connection.execute(QUERIES["applied_migrations"])]
            found["schema"] = applied[-1].number if applied else 0
            if plan(known, applied) == ():
                found |= _of_rota(connection, now, admin_name, check)
        except StartError as refused:
            found["schema_fault"] = refused.detail
    except sqlite3.Error as error:
        raise StartError(f"the database cannot be read, {describe(error)}: restore a backup") from error
    finally:
        connection.close()
    return DatabaseFacts(**found)


def _of_rota(
    connection: sqlite3.Connection,
    now: int,
    admin_name: str,
    check: Callable[[Sequence[Seal], Iterable[AuditRecord]], T] | None,
) -> dict[str, Any]:
    connection.execute("BEGIN")  # the seals and the rows of one moment
    fingerprint = connection.execute(QUERIES["read_fingerprint"]).fetchone()
    instants = connection.execute(QUERIES["newest_instants"]).fetchone()
    token = connection.execute(QUERIES["admin_token"], (now, admin_name)).fetchone()
    found: dict[str, Any] = {
        "fingerprint": None if fingerprint is None else fingerprint[0],
        "newest_at": max((at for at in instants if at is not None), default=None),
        "admin": None if token is None else _state(*token),
    }
    if check is not None:
        found["chain"] = check(audit.seals(connection), audit.records_after(connection, 0))
    connection.rollback()
    return found


def _state(revoked: int, suspended: int, expired: int) -> str:
    return "revoked" if revoked else "suspended" if suspended else "expired" if expired else "valid"


def _unchecked(path: Path) -> int | None:
    """Copy back what can be copied of the log, as the server does now and then; what must stay in it."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=1)
        try:
            (_, pages, copied) = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            connection.close()
    except sqlite3.Error:
        return None
    return max(int(pages) - int(copied), 0)
