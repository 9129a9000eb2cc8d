"""The audit on SQLite: rows are added inside the transaction of the change that they tell of.

An administrative verb calls :func:`record` once, after its change and in the same function that the writer
runs. A change that is refused or rolled back takes its row with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import json

from rota.domain.access import Actor
from rota.domain.audit import AuditFilter, AuditPage, AuditRecord, Refusal, Seal, Sealer, shown
from rota.store.sqlite.transaction import QUERIES, Transaction

MAX_LOOKED_AT: Final = 20_000
"""Rows that one call of the list looks at."""
MAX_SEALED: Final = 10_000
"""Rows that one seal covers."""
NOTHING: Final[Mapping[str, object]] = {}


def record(
    within: Transaction,
    actor: Actor,
    action: str,
    about: tuple[str, str | int | None],
    fields: Mapping[str, object] = NOTHING,
) -> None:
    """Note a change that this transaction makes.

    ``action`` is a noun and a verb (``type.pause``), ``about`` a kind and what names it (``("type",
    "mail.send")``; None for many). ``fields`` are those that the change touched: their names are kept, and
    the values of those that :data:`rota.domain.audit.SHOWN` lists.
    """
    kind, id = about
    _add(
        within,
        actor,
        action,
        (kind, None if id is None else str(id)),
        sorted(fields),
        shown(fields),
    )


def record_refusals(within: Transaction, refusals: Sequence[Refusal]) -> None:
    """Note requests that were answered with 403."""
    for each in refusals:
        actor = Actor("token", each.actor_id, each.address, each.request_id, each.actor_name)
        _add(within, actor, "request", ("route", each.route), [], {}, outcome="refused", times=each.times)


def _add(
    within: Transaction,
    actor: Actor,
    action: str,
    about: tuple[str, str | None],
    fields: list[str],
    values: dict[str, object],
    *,
    outcome: str = "done",
    times: int = 1,
) -> None:
    within.execute(
        "add_audit",
        *(within.now, actor.kind, actor.id, actor.name, actor.address, actor.request_id, action, *about),
        *(json.encode(fields).decode(), json.encode(values).decode(), outcome, times),
    )


def seal(within: Transaction, sealer: Sealer) -> Seal | None:
    """Seal the rows that no seal covers yet, at most 10,000; None when there are none."""
    row = within.execute("last_seal").fetchone()
    last = None if row is None else Seal(*row)
    rows = within.execute("audit_after", 0 if last is None else last.last_id, MAX_SEALED)
    records = [_record(each) for each in rows]
    if not records:
        return None
    key_id, proof = sealer(None if last is None else last.seal, records)
    made = Seal(records[-1].id, len(records), within.now, key_id, proof)
    within.execute("add_seal", *made)
    return made


def page(connection: sqlite3.Connection, wanted: AuditFilter, limit: int, before: int | None) -> AuditPage:
    """Rows with ids below ``before``, newest first."""
    if before is None:
        (last,) = connection.execute(QUERIES["last_audit_id"]).fetchone()
        before = last + 1
    lowest = max(before - MAX_LOOKED_AT, 1)
    values: dict[str, Any] = {
        "lowest": lowest,
        "highest": before - 1,
        "actor": wanted.actor,
        "action": wanted.action,
        "object_kind": wanted.object_kind,
        "object_id": wanted.object_id,
        "since": wanted.since,
        "until": wanted.until,
        "limit": limit,
    }
    records = [_record(row) for row in connection.execute(QUERIES["audit_page"], values)]
    if len(records) == limit:
        return AuditPage(records, records[-1].id if records[-1].id > 1 else None)
    return AuditPage(records, lowest if lowest > 1 else None)


def seals(connection: sqlite3.Connection) -> list[Seal]:
    """Every seal, oldest first."""
    return [Seal(*row) for row in connection.execute(QUERIES["seals"])]


def records_after(connection: sqlite3.Connection, id: int) -> Iterator[AuditRecord]:
    """The rows with ids above ``id``, oldest first."""
    return (_record(row) for row in connection.execute(QUERIES["audit_after"], (id, -1)))


def _record(row: tuple[Any, ...]) -> AuditRecord:
    *plain, fields, values, outcome, times = row
    return AuditRecord(
        **dict(zip(AuditRecord.__struct_fields__, plain, strict=False)),
        fields=json.decode(fields, type=list[str]),
        values=json.decode(values, type=dict[str, Any]),
        outcome=outcome,
        times=times,
    )
