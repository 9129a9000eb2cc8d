"""What the sources may not say: printed lines, a second clock, SQL put together from strings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source_tree import SRC, place, source_trees

WALL_CLOCKS = {
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "time.ctime",
    "time.gmtime",
    "time.localtime",
    "time.time",
    "time.time_ns",
}
# In capitals the first word is enough; in small letters it could be the start of an English sentence.
SQL_START = re.compile(
    r"\s*((SELECT|INSERT|UPDATE|DELETE|WITH|REPLACE|CREATE|DROP|ALTER)\s"
    r"|select\s.*\sfrom\s|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s|with\s+\w+\s+as\s*\()",
    re.DOTALL,
)


def imported_names(tree: ast.Module) -> dict[str, str]:
    """The local names a module binds by import, each with the full name behind it."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                names[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """The dotted name an expression stands for, imports resolved; empty for anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        owner = full_name(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def wall_clock_reads(tree: ast.Module) -> Iterator[ast.expr]:
    """Every mention of a wall clock, called or handed on (``default_factory=time.time``)."""
    names = imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and full_name(node, names) in WALL_CLOCKS:
            yield node


def prints(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and full_name(node.func, {}) == "print":
            yield node


def built_sql(tree: ast.Module) -> Iterator[ast.expr]:
    """SQL made by an f-string, ``+``, ``%`` or ``.format``."""
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), _, *_]):
                pass
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Add() | ast.Mod()):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                pass
            case _:
                continue
        if SQL_START.match(text):
            yield node


def places(path: Path, nodes: Iterator[ast.expr]) -> list[str]:
    return [place(path, node) for node in nodes]


def test_only_the_command_line_prints() -> None:
    printing = [
        found
        for path, tree in source_trees()
        if not path.is_relative_to(SRC / "cli")
        for found in places(path, prints(tree))
    ]
    assert printing == []


def test_only_clock_py_reads_the_wall_clock() -> None:
    reads = {place(path): places(path, wall_clock_reads(tree)) for path, tree in source_trees()}
    assert reads.pop("src/rota/clock.py"), "the one allowed reading was not recognised"
    assert [found for found_in_file in reads.values() for found in found_in_file] == []


def test_sql_is_never_put_together_from_strings() -> None:
    assert [found for path, tree in source_trees() for found in places(path, built_sql(tree))] == []


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nt.time_ns()",
        "from time import time\ntime()",
        "from datetime import datetime\ndatetime.now(tz=None)",
        "import datetime as dt\ndt.datetime.utcnow()",
        "from datetime import date\ndate.today()",
        "import time\nfield(default_factory=time.time)",
    ],
)
def test_a_wall_clock_is_recognised_however_it_is_imported(source: str) -> None:
    assert list(wall_clock_reads(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ["import time\ntime.monotonic()", "from time import perf_counter\nperf_counter()", "clock.now()"],
)
def test_clocks_that_only_measure_are_allowed(source: str) -> None:
    assert not list(wall_clock_reads(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        'f"SELECT * FROM {table}"',
        'f"""\n  with x as ({inner}) select 1"""',
        '"DELETE FROM " + table',
        '"UPDATE %s SET a = 1" % table',
        '"INSERT INTO {} VALUES (1)".format(table)',
    ],
)
def test_built_sql_is_recognised(source: str) -> None:
    assert list(built_sql(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ['"SELECT 1"', 'f"with {count} jobs"', 'f"update {name} first"', 'f"{name} UPDATE "', '"a" + "SELECT 1"'],
)
def test_ordinary_text_is_not_taken_for_sql(source: str) -> None:
    assert not list(built_sql(ast.parse(source)))
