"""Numbered migrations: which there are, which a database still needs, and when to refuse one.

A store keeps them in the folder ``migrations`` of its package as ``0001_first.sql``,
``0002_second.sql`` and so on; the number of the latest is the schema's. What was applied stands in
the table ``rota_migrations`` with a checksum, because a migration that has been released never changes.
This module only reads and decides; each store applies in the way of its database.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from importlib import resources
from typing import NamedTuple

from rota.errors import StartError

_FILE = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z0-9_]+)\.sql")


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the SQL with Unix line ends, in hexadecimal."""
        return sha256("\n".join(self.sql.splitlines()).encode()).hexdigest()


class Applied(NamedTuple):
    """What a database remembers of a migration."""

    number: int
    name: str
    checksum: str


def read_migrations(package: str) -> tuple[Migration, ...]:
    """The migrations in the folder ``migrations`` of a package, such as ``rota.store.sqlite``, in order.

    Raises ``ValueError`` for a ``.sql`` file that is named otherwise and when the numbers are not
    1, 2, 3 and so on.
    """
    found: list[Migration] = []
    for file in resources.files(package).joinpath("migrations").iterdir():
        if not file.name.endswith(".sql"):
            continue
        if (match := _FILE.fullmatch(file.name)) is None:
            raise ValueError(f"{file.name}: a migration is named like 0001_what_it_does.sql")
        found.append(Migration(int(match["number"]), match["name"], file.read_text(encoding="utf-8")))
    found.sort()
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are numbered from 1 on, without gaps and each number once")
    return tuple(found)


def plan(known: Sequence[Migration], applied: Sequence[Applied]) -> tuple[Migration, ...]:
    """What a database still needs, in order. Both arguments are ordered by number.

    Raises ``StartError`` for a database of a newer release and for one whose past is not ours.
    """
    newest = known[-1].number if known else 0
    if applied and applied[-1].number > newest:
        raise StartError(
            f"this database was written by a newer release of Rota (schema {applied[-1].number}, "
            f"this release knows up to {newest}): start that release or restore a backup"
        )
    for ours, theirs in zip(known, applied, strict=False):
        if ours.number != theirs.number:
            raise StartError(
                f"this database has no record of migration {ours.number} ({ours.name}) but of a later "
                "one: restore a backup"
            )
        if ours.checksum != theirs.checksum:
            raise StartError(
                f"migration {ours.number} ({ours.name}) has changed since it was applied to this database "
                "(its checksum differs): start the release that applied it or restore a backup"
            )
    return tuple(known[len(applied) :])
