"""Named queries from ``.sql`` files.

A store keeps its SQL in the folder ``sql`` of its package, one file per group of verbs. Each query
begins with a line that names it and ends where the next one begins::

    -- name: job_by_id
    SELECT * FROM rota_jobs WHERE id = ?;

A query may hold one row template, which :meth:`Queries.rows` repeats::

    -- name: insert_tags
    INSERT INTO rota_tags (job_id, tag) VALUES /*rows*/ (?, ?) /*end*/;

Comments are for the reader of the file and do not reach the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import resources

ROW_SHAPES = 64
"""How many expanded texts are kept. A text of 1,000 rows is about 50 kB, and the database keeps a
prepared statement for each one it meets, so callers do well to use few different numbers of rows."""

_HEADER = re.compile(r"^--[ \t]*name:(.*)$\n?", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ROWS = re.compile(r"/\*rows\*/(.*?)/\*end\*/", re.DOTALL)
_SKIPPED = re.compile(
    r"""
      (?P<kept> '(?:[^']|'')*' | "(?:[^"]|"")*" | /\*rows\*/ | /\*end\*/ )
    | ^[ \t]*--[^\n]*(?:\n|\Z)
    | [ \t]*--[^\n]*
    | /\*.*?\*/
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


class Queries(Mapping[str, str]):
    """The queries of one package by name; an unknown name is a ``KeyError``.

    A query with a row template reads as its form for one row.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Take queries as :func:`parse` gives them. Raises ``ValueError`` for a broken row template."""
        self._parts = {name: _parts(name, text) for name, text in texts.items()}
        self._one = {name: "".join(parts) for name, parts in self._parts.items()}
        self._expanded = lru_cache(maxsize=ROW_SHAPES)(self._expand)

    def __getitem__(self, name: str) -> str:
        return self._one[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._one)

    def __len__(self) -> int:
        return len(self._one)

    def rows(self, name: str, n: int) -> str:
        """The query with its row template repeated ``n`` times, ``n`` ≥ 1.

        SQLite takes at most 32,766 parameters a statement: rows times columns must stay below.
        """
        return self._expanded(name, n)

    def _expand(self, name: str, n: int) -> str:
        before, row, after = self._parts[name]
        if not row:
            raise ValueError(f"query {name} holds no row template")
        if n < 1:
            raise ValueError(f"query {name} needs at least one row")
        return before + ", ".join([row] * n) + after


def load(package: str) -> Queries:
    """Read every ``.sql`` file in the folder ``sql`` of a package, such as ``rota.store.sqlite``.

    Raises ``ValueError`` when two queries share a name or one is malformed.
    """
    texts: dict[str, str] = {}
    folder = resources.files(package).joinpath("sql")
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if not file.name.endswith(".sql"):
            continue
        for name, text in parse(file.read_text(encoding="utf-8"), source=file.name).items():
            if name in texts:
                raise ValueError(f"{file.name}: query {name} is defined twice")
            texts[name] = text
    return Queries(texts)


def parse(text: str, *, source: str) -> dict[str, str]:
    """The queries of one file, without comments and without the closing semicolon.

    ``source`` names the file in errors. Raises ``ValueError`` for SQL before the first name, a name
    that is empty, malformed or used twice, and a query without SQL.
    """
    head, *sections = _HEADER.split(text)
    if without_comments(head).strip():
        raise ValueError(f"{source}: SQL stands before the first '-- name:' line")
    found: dict[str, str] = {}
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        name = title.strip()
        if not _NAME.fullmatch(name):
            raise ValueError(f"{source}: {name!r} is no name for a query (lower case, digits and _)")
        if name in found:
            raise ValueError(f"{source}: query {name} is defined twice")
        query = without_comments(body).strip().removesuffix(";").rstrip()
        if not query:
            raise ValueError(f"{source}: query {name} is empty")
        found[name] = query
    return found


def without_comments(text: str) -> str:
    """SQL without its comments; what stands in quotes and the marks of a row template stay."""
    return _SKIPPED.sub(lambda match: match["kept"] or "", text)


def _parts(name: str, text: str) -> tuple[str, str, str]:
    """A query as what stands before, inside and after its row template."""
    before, *rest = _ROWS.split(text)
    row, after = rest if len(rest) == 2 else ("", "".join(rest))
    if len(rest) > 2 or any(mark in before + row + after for mark in ("/*rows*/", "/*end*/")):
        raise ValueError(f"query {name}: a row template is one /*rows*/ … /*end*/")
    if rest and not row.strip():
        raise ValueError(f"query {name}: its row template is empty")
    return before, row.strip(), after
