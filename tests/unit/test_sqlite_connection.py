"""SQLite connections: settings read back from live ones, file modes, locks, readers."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import pytest_asyncio

from rota.errors import StartError, Unavailable
from rota.store.sqlite.connection import (
    data_version,
    describe,
    immediate,
    open_reader,
    open_writer,
)
from rota.store.sqlite.readers import ReaderPool, ReadTimedOut

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"

spawn = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota.db"


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_writer(path)
    opened.execute("CREATE TABLE t (x INTEGER UNIQUE)")
    yield opened
    opened.close()


@pytest.fixture
def reader(writer: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_reader(path)
    yield opened
    opened.close()


@pytest_asyncio.fixture
async def pool(writer: sqlite3.Connection, path: Path) -> AsyncIterator[ReaderPool]:
    opened = ReaderPool(path)
    yield opened
    await opened.close()


def setting(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("busy_timeout", 0),
        ("foreign_keys", 1),
        ("temp_store", 2),
        ("cache_size", -32 * 1024),
        ("wal_autocheckpoint", 4000),
        ("journal_size_limit", 64 * 1024 * 1024),
        ("secure_delete", 2),
        ("query_only", 0),
        ("mmap_size", 0),
    ],
)
def test_the_writing_connection_is_durable_and_patient(
    writer: sqlite3.Connection, name: str, value: object
) -> None:
    assert setting(writer, name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [("journal_mode", "wal"), ("busy_timeout", 30_000), ("cache_size", -8 * 1024), ("query_only", 1)],
)
def test_the_reading_connection_reads_only(reader: sqlite3.Connection, name: str, value: object) -> None:
    assert setting(reader, name) == value


def test_a_reader_cannot_write(reader: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("INSERT INTO t VALUES (1)")


def test_nothing_is_committed_or_begun_without_being_asked(writer: sqlite3.Connection) -> None:
    immediate(writer)
    writer.execute("INSERT INTO t VALUES (1)")
    writer.rollback()
    assert not writer.in_transaction
    assert writer.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_database_and_sidecars_are_private_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        writer = open_writer(path)
        writer.execute("CREATE TABLE t (x)")
        reader = open_reader(path)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    reader.close()
    writer.close()
    assert modes == {"rota.db": 0o600, "rota.db-wal": 0o600, "rota.db-shm": 0o600}


def test_an_existing_database_keeps_its_content_and_mode(path: Path, writer: sqlite3.Connection) -> None:
    writer.execute("INSERT INTO t VALUES (7)")
    path.chmod(0o640)
    again = open_writer(path)
    assert again.execute("SELECT x FROM t").fetchall() == [(7,)]
    again.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_odd_characters_in_the_path_are_part_of_the_name(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory#b %20.db"
    open_writer(path).close()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_symbolic_link_to_nothing_is_refused_and_not_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "elsewhere.db", tmp_path / "rota.db"
    link.symlink_to(target)
    with pytest.raises(StartError, match="symbolic link"):
        open_writer(link)
    assert not target.exists()


def test_a_missing_folder_is_refused_without_naming_it(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be created") as refused:
        open_writer(tmp_path / "absent" / "rota.db")
    assert "absent" not in refused.value.detail


def test_a_reader_does_not_create_a_database(path: Path) -> None:
    with pytest.raises(StartError, match="check that the file exists"):
        open_reader(path)
    assert not path.exists()


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database, " * 256)
    with pytest.raises(StartError, match=r"SQLITE_NOTADB.*no SQLite database"):
        open_writer(path)


def test_a_database_that_cannot_have_a_write_ahead_log_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def without_shared_memory(database: str, **options: object) -> sqlite3.Connection:
        # This file system layer has no shared memory either, as on a network file system.
        return connect(f"{database}&vfs=unix-dotfile", **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", without_shared_memory)
    with pytest.raises(StartError, match=r"journal mode delete.*network file systems"):
        open_writer(path)


def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.36.0")
    for opening in (open_writer, open_reader):
        with pytest.raises(StartError, match=r"3\.36\.0 is too old"):
            opening(path)
    assert not path.exists()


def open_with_others(path: Path, barrier: Barrier) -> None:
    barrier.wait()
    open_writer(path).close()


def test_processes_may_open_a_new_database_at_once(path: Path) -> None:
    barrier = spawn.Barrier(4)
    processes = [spawn.Process(target=open_with_others, args=(path, barrier)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4


def test_a_lock_held_for_too_long_is_unavailable_and_can_be_had_later(
    writer: sqlite3.Connection, path: Path
) -> None:
    other = open_writer(path)
    immediate(other)
    with pytest.raises(Unavailable) as refused:
        immediate(writer, seconds=0.05)
    assert refused.value.retry_after == 1
    assert setting(writer, "busy_timeout") == 0

    other.commit()
    immediate(writer)
    writer.execute("INSERT INTO t VALUES (1)")
    writer.rollback()
    assert writer.execute("SELECT count(*) FROM t").fetchone() == (0,)
    other.close()


def test_a_waiting_writer_gets_the_lock_once_it_is_free(
    writer: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_writer(path)
    immediate(other)
    other.execute("INSERT INTO t VALUES (1)")
    pauses: list[float] = []

    def release(seconds: float) -> None:
        pauses.append(seconds)
        other.commit()

    monkeypatch.setattr("rota.store.sqlite.connection.time.sleep", release)
    immediate(writer)
    assert len(pauses) == 1
    assert writer.execute("SELECT x FROM t").fetchall() == [(1,)]
    writer.rollback()
    other.close()


def test_a_transaction_inside_a_transaction_is_an_error_at_once(writer: sqlite3.Connection) -> None:
    immediate(writer)
    with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
        immediate(writer)
    writer.rollback()


def test_data_version_changes_with_commits_of_others_only(writer: sqlite3.Connection, path: Path) -> None:
    first = data_version(writer)
    writer.execute("INSERT INTO t VALUES (1)")
    assert data_version(writer) == first
    other = open_writer(path)
    other.execute("INSERT INTO t VALUES (2)")
    assert data_version(writer) != first
    other.close()


def test_a_described_error_names_class_code_and_constraint_only(writer: sqlite3.Connection) -> None:
    writer.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(sqlite3.IntegrityError) as raised:
        writer.execute("INSERT INTO t VALUES (1)")
    assert describe(raised.value) == "IntegrityError SQLITE_CONSTRAINT_UNIQUE t.x"

    with pytest.raises(sqlite3.OperationalError) as unknown:
        writer.execute("SELECT sekret FROM t")
    assert describe(unknown.value) == "OperationalError SQLITE_ERROR"
    assert describe(sqlite3.ProgrammingError("sekret")) == "ProgrammingError"


async def test_a_pool_answers_what_the_read_returns(pool: ReaderPool, writer: sqlite3.Connection) -> None:
    writer.execute("INSERT INTO t VALUES (5)")
    assert await pool.run(lambda connection: connection.execute("SELECT x FROM t").fetchall()) == [(5,)]


async def test_a_pool_reads_at_once_with_a_connection_per_thread(pool: ReaderPool) -> None:
    together = threading.Barrier(2, timeout=20)

    def meet(connection: sqlite3.Connection) -> tuple[int, int]:
        together.wait()
        return threading.get_ident(), id(connection)

    (thread, connection), (other_thread, other_connection) = await asyncio.gather(
        pool.run(meet), pool.run(meet)
    )
    assert thread != other_thread
    assert connection != other_connection


async def test_a_read_that_takes_too_long_is_cut_short(pool: ReaderPool) -> None:
    with pytest.raises(ReadTimedOut):
        await pool.run(lambda connection: connection.execute(ENDLESS).fetchone(), deadline_ms=20)


async def test_a_deadline_ends_with_its_read(writer: sqlite3.Connection, path: Path) -> None:
    pool = ReaderPool(path, size=1)
    with pytest.raises(ReadTimedOut):
        await pool.run(lambda connection: connection.execute(ENDLESS).fetchone(), deadline_ms=1)
    many = ENDLESS.replace("FROM n)", "FROM n LIMIT 100000)")
    counted = await pool.run(lambda connection: connection.execute(many).fetchone())
    assert counted == (100_000,)
    await pool.close()


async def test_other_errors_of_a_read_reach_the_caller(pool: ReaderPool) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await pool.run(lambda connection: connection.execute("SELECT * FROM absent"))


async def test_no_transaction_outlives_a_read(writer: sqlite3.Connection, path: Path) -> None:
    pool = ReaderPool(path, size=1)
    await pool.run(lambda connection: connection.execute("BEGIN").fetchall())
    assert await pool.run(lambda connection: connection.in_transaction) is False
    await pool.close()


async def test_closing_waits_for_reads_and_ends_the_threads(writer: sqlite3.Connection, path: Path) -> None:
    pool = ReaderPool(path)
    begun, go_on = threading.Event(), threading.Event()
    used: list[tuple[threading.Thread, sqlite3.Connection]] = []

    def slow(connection: sqlite3.Connection) -> str:
        used.append((threading.current_thread(), connection))
        begun.set()
        go_on.wait(20)
        return "done"

    reading = asyncio.create_task(pool.run(slow))
    await asyncio.to_thread(begun.wait, 20)
    closing = asyncio.create_task(pool.close())
    go_on.set()
    await closing
    ((thread, connection),) = used
    assert await reading == "done"
    assert not thread.is_alive()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    with pytest.raises(Unavailable, match="stopping"):
        await pool.run(slow)
