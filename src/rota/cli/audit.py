"""``rota audit``: who changed what, and who was refused."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from rota.cli import output
from rota.cli.connection import JsonFlag, Server, ask
from rota.cli.values import INSTANT
from rota.client import calls
from rota.client.answers import Page, reader
from rota.client.protocol import Call

audit = App(
    name="audit",
    help_epilogue="""\
Examples:

  rota audit list
  rota audit list --object token            all that was done with tokens
  rota audit list --action request          requests that were refused""",
)


class Who(msgspec.Struct):
    kind: str
    id: str
    name: str | None = None


class What(msgspec.Struct):
    kind: str
    id: str | None = None


class Entry(msgspec.Struct, kw_only=True):
    """An entry of the audit as the server answers it."""

    id: int
    at: datetime
    actor: Who
    address: str | None = None
    request_id: str | None = None
    action: str
    object: What
    fields: list[str]
    values: dict[str, Any]
    outcome: str
    times: int = 1


@audit.command(
    name="list",
    help_epilogue="""\
Examples:

  rota audit list
  rota audit list --actor board --from 2026-12-01T00:00:00Z
  rota audit list --object type:mail.send
  rota audit list --action token.create --json

It takes a token with the scope audit:read and without a range of types or
queues, such as the admin token.""",
)
def list_audit(
    *,
    actor: str | None = None,
    action: str | None = None,
    about: Annotated[str | None, Parameter(name="--object")] = None,
    since: Annotated[datetime | None, INSTANT, Parameter(name="--from")] = None,
    until: Annotated[datetime | None, INSTANT, Parameter(name="--to")] = None,
    limit: int | None = None,
    cursor: str | None = None,
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> None:
    """List what was changed and what was refused, newest first. Nothing deletes an entry.

    Parameters
    ----------
    actor
        Only what this token did: its name or id.
    action
        Only this action, such as job.cancel; `request` for refused requests.
    about
        Only what concerns this: a kind such as token, or kind:id such as type:mail.send.
    since
        Only entries of this instant or later.
    until
        Only entries before this instant.
    limit
        How many, 1 to 200; else 50.
    cursor
        Where the list before ended; it told you.
    """
    path = calls.listing(
        "/audit",
        {"actor": actor, "action": action, "object": about, "from": since, "to": until, "limit": limit},
        cursor,
    )
    reply = ask(server, Call("GET", path, reader(Page[Entry])))
    if as_json:
        return output.document(reply.body)
    if not reply.value.items:
        output.hint("No entry matches.")
    else:
        output.table(
            ("AT", "WHO", "FROM", "ACTION", "OBJECT", "WHAT"),
            [
                (
                    f"{one.at:%Y-%m-%d %H:%M:%S}",
                    one.actor.name or one.actor.id,
                    one.address or "–",
                    one.action if one.outcome == "done" else f"{one.action} {one.outcome}",
                    one.object.kind if one.object.id is None else f"{one.object.kind}:{one.object.id}",
                    _what(one),
                )
                for one in reply.value.items
            ],
        )
    if reply.value.next_cursor is not None:
        output.hint(f"There are more: repeat the command with --cursor {reply.value.next_cursor}")
    return None


def _what(one: Entry) -> str:
    """The fields with those values that are kept."""
    told = [
        f"{name}={json.dumps(one.values[name], ensure_ascii=False)}" if name in one.values else name
        for name in one.fields
    ]
    if one.times > 1:
        told.append(f"{one.times} times")
    return " ".join(told) or "–"
