"""Named queries: how files are read and how rows are repeated."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.store.sql import Queries, load, parse

PACKAGE = "sample_queries"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The ``sql`` folder of an importable package."""
    sql = tmp_path / PACKAGE / "sql"
    sql.mkdir(parents=True)
    (sql.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield sql
    sys.modules.pop(PACKAGE, None)


def test_queries_of_all_files_are_found_by_name(folder: Path) -> None:
    (folder / "jobs.sql").write_text("-- name: one\nSELECT 1;\n\n-- name: two\nSELECT\n  2;\n")
    (folder / "types.sql").write_text("-- The types.\n\n-- name: three\nSELECT 3")
    (folder / "README.md").write_text("-- name: four\nSELECT 4;")

    queries = load(PACKAGE)

    assert dict(queries) == {"one": "SELECT 1", "two": "SELECT\n  2", "three": "SELECT 3"}
    with pytest.raises(KeyError):
        queries["four"]


def test_comments_do_not_reach_the_database_but_quoted_marks_do() -> None:
    text = """
-- name: odd
-- Why it is so.
SELECT '-- kept', '/* kept */',  -- a reason; with a semicolon
       "a--b" /* several
       lines */ FROM t
  -- the last word
WHERE x = 'it''s -- here';
"""
    query = parse(text, source="odd.sql")["odd"]
    assert query == ("SELECT '-- kept', '/* kept */',\n       \"a--b\"  FROM t\nWHERE x = 'it''s -- here'")


def test_a_name_used_twice_in_one_file_is_refused() -> None:
    with pytest.raises(ValueError, match=r"jobs\.sql: query one is defined twice"):
        parse("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;", source="jobs.sql")


def test_a_name_used_twice_across_files_is_refused(folder: Path) -> None:
    (folder / "a.sql").write_text("-- name: one\nSELECT 1;")
    (folder / "b.sql").write_text("-- name: one\nSELECT 1;")
    with pytest.raises(ValueError, match=r"b\.sql: query one is defined twice"):
        load(PACKAGE)


@pytest.mark.parametrize("title", ["", "  ", "two words", "Upper", "1st", "a-b"])
def test_an_empty_or_malformed_name_is_refused(title: str) -> None:
    with pytest.raises(ValueError, match="is no name for a query"):
        parse(f"-- name:{title}\nSELECT 1;", source="jobs.sql")


@pytest.mark.parametrize("body", ["", "-- only a comment\n", ";"])
def test_a_query_without_sql_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match="query one is empty"):
        parse(f"-- name: one\n{body}", source="jobs.sql")


def test_sql_before_the_first_name_is_refused() -> None:
    with pytest.raises(ValueError, match="before the first"):
        parse("SELECT 0;\n-- name: one\nSELECT 1;", source="jobs.sql")


def queries(text: str) -> Queries:
    return Queries(parse(text, source="test.sql"))


INSERT = "-- name: put\nINSERT INTO t (a, b) VALUES /*rows*/ (?, ?) /*end*/ RETURNING a;"


def test_a_row_template_is_repeated_once_per_row() -> None:
    sql = queries(INSERT)
    assert sql.rows("put", 1) == sql["put"] == "INSERT INTO t (a, b) VALUES (?, ?) RETURNING a"
    assert sql.rows("put", 3) == "INSERT INTO t (a, b) VALUES (?, ?), (?, ?), (?, ?) RETURNING a"


def test_repeated_rows_run_on_a_real_database() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a, b)")
    found = connection.execute(queries(INSERT).rows("put", 2), (1, "x", 2, "y")).fetchall()
    connection.close()
    assert found == [(1,), (2,)]


def test_the_text_for_a_number_of_rows_is_built_once() -> None:
    sql = queries(INSERT)
    assert sql.rows("put", 500) is sql.rows("put", 500)


def test_rows_need_a_template_and_at_least_one_row() -> None:
    sql = queries(INSERT + "\n-- name: plain\nSELECT 1;")
    with pytest.raises(ValueError, match="plain holds no row template"):
        sql.rows("plain", 2)
    with pytest.raises(ValueError, match="at least one row"):
        sql.rows("put", 0)
    with pytest.raises(KeyError):
        sql.rows("absent", 1)


@pytest.mark.parametrize(
    "values",
    [
        "/*rows*/ (?)",
        "(?) /*end*/",
        "/*end*/ (?) /*rows*/",
        "/*rows*/ /*end*/",
        "/*rows*/ (?) /*end*/, /*rows*/ (?) /*end*/",
        "/*rows*/ /*rows*/ (?) /*end*/",
    ],
)
def test_a_broken_row_template_is_refused(values: str) -> None:
    with pytest.raises(ValueError, match="row template"):
        queries(f"-- name: put\nINSERT INTO t VALUES {values};")
