"""Brings a SQLite database to the newest schema.

Each migration runs in a transaction of its own together with its row in ``rota_migrations``, so a
process that dies leaves the last complete schema. What is still to do is read again under the write
lock: of processes that start at once each migration is applied by exactly one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from rota.errors import StartError, Unavailable
from rota.store.migrate import Applied, Migration, plan
from rota.store.sql import without_comments
from rota.store.sqlite.connection import describe, immediate

_TABLE = """
CREATE TABLE IF NOT EXISTS rota_migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT
"""
_HAS_TABLE = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'rota_migrations')"
_APPLIED = "SELECT number, name, checksum FROM rota_migrations ORDER BY number"
_RECORD = "INSERT INTO rota_migrations (number, name, checksum, applied_at) VALUES (?, ?, ?, ?)"


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration], now: int) -> list[int]:
    """Apply what is missing and return the numbers that this call applied, in order.

    Raises ``StartError`` where :func:`rota.store.migrate.plan` does, when a migration fails (the
    database then stays at the one before) and when another process holds the database for too long.
    """
    applied: list[int] = []
    while pending(connection, migrations):
        number = _apply_next(connection, migrations, now)
        if number is not None:
            applied.append(number)
    return applied


def pending(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> tuple[Migration, ...]:
    """What the database still needs; writes nothing. Raises ``StartError`` as ``plan`` does."""
    (has_table,) = connection.execute(_HAS_TABLE).fetchone()
    applied = [Applied(*row) for row in connection.execute(_APPLIED)] if has_table else []
    return plan(migrations, applied)


def statements(sql: str) -> Iterator[str]:
    """The statements of a migration, one by one; semicolons in text, comments and triggers divide nothing.

    Raises ``ValueError`` when the last one is not closed by a semicolon.
    """
    *pieces, rest = sql.split(";")
    statement = ""
    for piece in pieces:
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
    if without_comments(statement + rest).strip():
        raise ValueError("the last statement does not end with a semicolon")


def _apply_next(connection: sqlite3.Connection, migrations: Sequence[Migration], now: int) -> int | None:
    """Apply the first migration that is missing; None if another process was faster."""
    try:
        immediate(connection)
    except Unavailable as error:
        raise StartError(
            "another process holds the database, perhaps to upgrade it: wait until it is done and start again"
        ) from error
    try:
        connection.execute(_TABLE)
        missing = pending(connection, migrations)
        if not missing:
            connection.rollback()
            return None
        _run(connection, missing[0], now)
        connection.commit()
        return missing[0].number
    except BaseException:
        connection.rollback()
        raise


def _run(connection: sqlite3.Connection, migration: Migration, now: int) -> None:
    try:
        for statement in statements(migration.sql):
            connection.execute(statement).fetchall()
        row = (migration.number, migration.name, migration.checksum, now)
        connection.execute(_RECORD, row)
    except sqlite3.Error as error:
        raise StartError(
            f"migration {migration.number} ({migration.name}) failed with {describe(error)}; the database "
            f"stays at schema {migration.number - 1}: start the release that wrote it and report this"
        ) from error
