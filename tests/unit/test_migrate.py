"""Migrations on real SQLite files: order, crashes, processes that start at once, refusals."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from rota.errors import StartError
from rota.store.migrate import Migration, read_migrations
from rota.store.sqlite.connection import immediate, open_reader, open_writer
from rota.store.sqlite.migrate import migrate, pending, statements

NOW = 1_780_000_000_000
FIRST = Migration(1, "first", "CREATE TABLE a (x);\nINSERT INTO a VALUES (1);\n")
SECOND = Migration(2, "second", "CREATE TABLE b (x);\nUPDATE a SET x = x + 1;\n")
THIRD = Migration(3, "third", "CREATE TABLE c (x);\nUPDATE a SET x = x * 10;\n")
ALL = (FIRST, SECOND, THIRD)

spawn = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_writer(path)
    yield opened
    opened.close()


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def test_a_new_database_gets_every_migration_in_order(connection: sqlite3.Connection) -> None:
    assert migrate(connection, ALL, NOW) == [1, 2, 3]
    assert connection.execute("SELECT x FROM a").fetchall() == [(20,)]
    rows = connection.execute("SELECT number, name, checksum, applied_at FROM rota_migrations").fetchall()
    assert rows == [(each.number, each.name, each.checksum, NOW) for each in ALL]


def test_only_what_is_missing_is_applied(connection: sqlite3.Connection) -> None:
    migrate(connection, ALL[:1], NOW)
    assert migrate(connection, ALL, NOW) == [2, 3]
    assert migrate(connection, ALL, NOW) == []
    assert connection.execute("SELECT x FROM a").fetchall() == [(20,)]


def test_an_up_to_date_database_starts_while_another_holds_the_write_lock(
    connection: sqlite3.Connection, path: Path
) -> None:
    migrate(connection, ALL, NOW)
    immediate(connection)
    other = open_writer(path)
    assert migrate(other, ALL, NOW) == []
    other.close()


def test_pending_is_told_without_writing(connection: sqlite3.Connection, path: Path) -> None:
    reader = open_reader(path)
    assert pending(reader, ALL) == ALL
    migrate(connection, ALL[:2], NOW)
    assert pending(reader, ALL) == (THIRD,)
    reader.close()


def test_a_failing_migration_leaves_the_schema_before_it(connection: sqlite3.Connection) -> None:
    broken = SECOND._replace(sql=SECOND.sql + "INSERT INTO nowhere VALUES ('sekret');")

    with pytest.raises(StartError, match=r"migration 2 \(second\) failed .* stays at schema 1") as refused:
        migrate(connection, (FIRST, broken, THIRD), NOW)

    assert "sekret" not in refused.value.detail
    assert "nowhere" not in refused.value.detail
    assert not connection.in_transaction
    assert tables(connection) == {"a", "rota_migrations"}
    assert connection.execute("SELECT x FROM a").fetchall() == [(1,)]
    assert migrate(connection, ALL, NOW) == [2, 3]


def die_in_second(path: Path) -> None:
    connection = open_writer(path)
    connection.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
    migrate(connection, (FIRST, SECOND._replace(sql=SECOND.sql + "SELECT die();")), NOW)


def test_a_process_killed_inside_a_migration_leaves_the_schema_before_it(path: Path) -> None:
    process = spawn.Process(target=die_in_second, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL

    connection = open_writer(path)
    assert tables(connection) == {"a", "rota_migrations"}
    assert pending(connection, ALL) == (SECOND, THIRD)
    assert migrate(connection, ALL, NOW) == [2, 3]
    assert connection.execute("SELECT x FROM a").fetchall() == [(20,)]
    connection.close()


def start_with_others(path: Path, barrier: Barrier, answers: Queue[list[int]]) -> None:
    barrier.wait()
    connection = open_writer(path)
    answers.put(migrate(connection, ALL, NOW))
    connection.close()


def test_processes_that_start_at_once_apply_each_migration_once(path: Path) -> None:
    count = 4
    barrier, answers = spawn.Barrier(count), spawn.Queue()
    processes = [spawn.Process(target=start_with_others, args=(path, barrier, answers)) for _ in range(count)]
    for process in processes:
        process.start()
    applied = [number for _ in processes for number in answers.get(timeout=50)]
    for process in processes:
        process.join()

    assert [process.exitcode for process in processes] == [0] * count
    assert sorted(applied) == [1, 2, 3]
    connection = open_writer(path)
    assert connection.execute("SELECT x FROM a").fetchall() == [(20,)]
    connection.close()


def test_a_process_that_waited_for_the_lock_finds_the_work_done(
    connection: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_writer(path)

    def overtaken(late: sqlite3.Connection) -> None:
        monkeypatch.undo()
        assert migrate(other, ALL, NOW) == [1, 2, 3]
        immediate(late)

    monkeypatch.setattr("rota.store.sqlite.migrate.immediate", overtaken)
    assert migrate(connection, ALL, NOW) == []
    other.close()


def test_a_database_of_a_newer_release_is_refused(connection: sqlite3.Connection) -> None:
    migrate(connection, ALL, NOW)
    with pytest.raises(StartError) as refused:
        migrate(connection, ALL[:2], NOW)
    assert refused.value.detail == (
        "this database was written by a newer release of Rota (schema 3, this release knows up to 2): "
        "start that release or restore a backup"
    )


def test_a_changed_migration_is_refused_and_nothing_is_applied(connection: sqlite3.Connection) -> None:
    migrate(connection, ALL[:2], NOW)
    changed = FIRST._replace(sql=FIRST.sql + "CREATE TABLE z (x);")
    with pytest.raises(StartError, match=r"migration 1 \(first\) has changed .* checksum"):
        migrate(connection, (changed, SECOND, THIRD), NOW)
    assert tables(connection) == {"a", "b", "rota_migrations"}


def test_a_gap_in_the_record_is_refused(connection: sqlite3.Connection) -> None:
    migrate(connection, ALL, NOW)
    connection.execute("DELETE FROM rota_migrations WHERE number = 2")
    with pytest.raises(StartError, match="no record of migration 2"):
        migrate(connection, ALL, NOW)


def test_line_ends_do_not_change_the_checksum() -> None:
    assert FIRST._replace(sql=FIRST.sql.replace("\n", "\r\n")).checksum == FIRST.checksum


def test_statements_are_split_where_sqlite_ends_them() -> None:
    trigger = "CREATE TRIGGER t AFTER INSERT ON a BEGIN\n  DELETE FROM a; -- one; two\n  SELECT 1;\nEND;"
    sql = (
        f"-- First; of all.\nCREATE TABLE a (x DEFAULT ';');\n{trigger}\nSELECT 'it''s; so';\n-- The end; so."
    )
    assert list(statements(sql)) == [
        "-- First; of all.\nCREATE TABLE a (x DEFAULT ';');",
        trigger,
        "SELECT 'it''s; so';",
    ]


def test_a_last_statement_without_semicolon_is_refused() -> None:
    with pytest.raises(ValueError, match="semicolon"):
        list(statements("SELECT 1;\nSELECT 2"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The ``migrations`` folder of an importable package ``sample_store``."""
    migrations = tmp_path / "sample_store" / "migrations"
    migrations.mkdir(parents=True)
    (migrations.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield migrations
    sys.modules.pop("sample_store", None)


def test_migrations_are_read_in_the_order_of_their_numbers(folder: Path) -> None:
    (folder / "0002_more.sql").write_text("SELECT 2;")
    (folder / "0001_foundation.sql").write_text("SELECT 1;")
    (folder / "README.md").write_text("How to add one.")
    assert read_migrations("sample_store") == (
        Migration(1, "foundation", "SELECT 1;"),
        Migration(2, "more", "SELECT 2;"),
    )


@pytest.mark.parametrize(
    "names",
    [["0002_a.sql"], ["0001_a.sql", "0003_b.sql"], ["0001_a.sql", "0001_b.sql"], ["1_a.sql"], ["0001.sql"]],
)
def test_wrong_names_and_numbers_are_refused(folder: Path, names: list[str]) -> None:
    for name in names:
        (folder / name).write_text("SELECT 1;")
    with pytest.raises(ValueError, match=r"named like|numbered from 1"):
        read_migrations("sample_store")
