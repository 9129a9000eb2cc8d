"""``rota tokens``: who may do what."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from rota.cli import output
from rota.cli.connection import JsonFlag, Reply, Server, ask, converse, with_body
from rota.cli.failures import Misuse, NextStep
from rota.cli.values import DURATION, INSTANT, NAMES, spoken
from rota.client import calls
from rota.client.aio import AsyncClient
from rota.client.jobs import NewToken, TokenInfo
from rota.domain.access import PRESETS
from rota.errors import Forbidden, NameTaken, RotaError

Preset = Literal["producer", "worker", "observer", "operator", "integrator", "admin"]
Out = Annotated[Path | None, Parameter(metavar="FILE")]

tokens = App(
    name="tokens",
    help_epilogue="""\
Examples:

  rota tokens create shop --preset producer --types mail.send --out shop.token
  rota tokens list
  rota tokens revoke shop""",
)


@tokens.command(
    name="list",
    help_epilogue="""\
Examples:

  rota tokens list
  rota tokens list --json""",
)
def list_tokens(*, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """List the tokens and their rights; secrets are stored nowhere and cannot be shown."""
    reply = ask(server, calls.tokens(None))
    if as_json:
        return output.document(reply.body)
    if not reply.value.items:
        return output.hint("There is no token to see. Make one with: rota tokens create NAME --preset worker")
    output.table(
        ("KEY ID", "NAME", "STATE", "RIGHTS", "TYPES", "QUEUES", "PRIORITY", "LAST USED"),
        [
            (
                one.key_id,
                one.name,
                _state(one),
                _rights(one),
                _range(one.types),
                _range(one.queues),
                f"up to {one.max_priority}",
                output.ago(one.last_used_at),
            )
            for one in reply.value.items
        ],
        spare=("QUEUES", "PRIORITY", "LAST USED"),
    )
    return None


def _state(one: TokenInfo) -> str:
    if one.revoked_at is not None:
        return f"revoked {output.ago(one.revoked_at)}"
    if one.suspended_at is not None:
        return f"suspended {output.ago(one.suspended_at)}"
    return "valid" if one.expires_at is None else f"ends {output.ago(one.expires_at)}"


def _rights(one: TokenInfo) -> str:
    """The preset that has the same scopes, else the scopes."""
    for name, preset in PRESETS.items():
        if preset.scopes == set(one.scopes):
            return name
    return ", ".join(one.scopes)


def _range(names: list[str] | None) -> str:
    return "all" if names is None else ", ".join(names) or "none"


@tokens.command(
    name="create",
    help_epilogue="""\
Examples:

  rota tokens create shop --preset producer
  rota tokens create board --scopes jobs:read --expires-at 2027-01-01T00:00:00Z

Straight into a new file that only you can read, for --token-file:

  rota tokens create mailer --preset worker --types mail.send --out mailer.token
  rota worker my.tasks --token-file mailer.token""",
)
def create(
    name: str,
    /,
    *,
    preset: Preset | None = None,
    scopes: Annotated[list[str] | None, NAMES] = None,
    types: Annotated[list[str] | None, NAMES] = None,
    queues: Annotated[list[str] | None, NAMES] = None,
    max_priority: str | None = None,
    rate_limit_per_minute: int | None = None,
    expires_at: Annotated[datetime | None, INSTANT] = None,
    out: Out = None,
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> None:
    """Make a token and print it, this once, alone on stdout, or write it to a file.

    Parameters
    ----------
    name
        Who will use it. Names are never used twice.
    preset
        Ready-made rights: producer hands in, worker runs, observer looks, operator stops and replays too.
    scopes
        Single rights instead of a preset; repeat the flag for each.
    types
        Only jobs of this type; repeat the flag for each. Else all.
    queues
        Only jobs of this queue; repeat the flag for each. Else all.
    max_priority
        The highest priority it may ask for; else medium, high for operators, critical for admins.
    rate_limit_per_minute
        How many requests a minute it may send; else as many as it likes.
    expires_at
        When it ends by itself.
    out
        Write it to this new file, readable by you alone, instead of printing it.
    """
    if (preset is None) == (scopes is None):
        raise NextStep(
            Misuse("A token needs either a preset or scopes."),
            f"For a program that runs jobs: rota tokens create {name} --preset worker",
        )
    options = calls.TokenOptions()
    if preset is not None:
        options["preset"] = preset
    if scopes is not None:
        options["scopes"] = scopes
    if types is not None:
        options["types"] = types
    if queues is not None:
        options["queues"] = queues
    if max_priority is not None:
        options["max_priority"] = max_priority
    if rate_limit_per_minute is not None:
        options["rate_limit_per_minute"] = rate_limit_per_minute
    if expires_at is not None:
        options["expires_at"] = expires_at
    with _reserved(out, as_json) as file:
        try:
            reply = ask(server, calls.create_token(name, options))
        except NameTaken as taken:
            raise _taken(server, name, taken) from None
        _hand_over(reply, file, "Keep it in a file of mode 0600.", as_json)
    if types is not None and not as_json:
        for name in _undeclared(server, types):
            output.hint(f"There is no type {name} yet; declare it with: rota types put {name}")
    return


def _undeclared(server: Server, types: list[str]) -> list[str]:
    """Those of the types that are not declared; none where the declared ones may not be read."""
    try:
        declared = {one.name for one in converse(server, lambda client: client.types.list())}
    except Forbidden:
        return []
    return sorted(set(types) - declared)


@tokens.command(
    name="rotate",
    help_epilogue="""\
Examples:

  rota tokens rotate mailer --out mailer-2.token
  rota tokens rotate mailer --grace 10m   the old secret works 10 min more""",
)
def rotate(
    token: str,
    /,
    *,
    grace: Annotated[float, DURATION] = 0.0,
    out: Out = None,
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> None:
    """Give a token a new secret; name, rights and key id stay.

    Parameters
    ----------
    token
        The token's name or key id, as `rota tokens list` shows them.
    grace
        How long the old secret still works.
    out
        Write it to this new file, readable by you alone, instead of printing it.
    """

    async def talk(client: AsyncClient) -> Reply[NewToken]:
        found = await _found(client, token)
        return await client.send(with_body(calls.rotate_token(found.key_id if found else token, grace)))

    old = f"works for {spoken(grace)} more" if grace else "has ended"
    with _reserved(out, as_json) as file:
        return _hand_over(converse(server, talk), file, f"The old secret {old}.", as_json)


@tokens.command(
    name="revoke",
    help_epilogue="""\
Examples:

  rota tokens list
  rota tokens revoke shop
  rota tokens revoke 4k2m9x0qp1zt""",
)
def revoke(token: str, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """End a token at once and for good; jobs that it holds go back to the queue.

    Parameters
    ----------
    token
        The token's name or key id, as `rota tokens list` shows them.
    """

    async def talk(client: AsyncClient) -> tuple[TokenInfo | None, Reply[TokenInfo]]:
        found = await _found(client, token)
        key_id = found.key_id if found else token
        return found, await client.send(with_body(calls.revoke_token(key_id)))

    before, reply = converse(server, talk)
    if as_json:
        return output.document(reply.body)
    if before is not None and before.revoked_at is not None:
        return output.say(f"The token {token} was revoked already, {output.ago(before.revoked_at)}.")
    return output.say(f"The token {token} is revoked.")


async def _found(client: AsyncClient, token: str) -> TokenInfo | None:
    """The token of this key id, else the one of this name: no two share one."""
    listed = await client.tokens.list()
    by_key_id = (one for one in listed if one.key_id == token)
    by_name = (one for one in listed if one.name == token)
    return next(by_key_id, None) or next(by_name, None)


def _taken(server: Server, name: str, refused: NameTaken) -> RotaError:
    """What to do instead of making a second token of a name."""
    found = converse(server, lambda client: _found(client, name))
    if found is None:
        return refused
    if found.revoked_at is not None:
        ended = f"The token {name} (key id {found.key_id}) has been revoked; names are never used twice."
        return NextStep(NameTaken(ended), "Choose another name.")
    exists = f"The token {name} exists (key id {found.key_id}); names are never used twice."
    return NextStep(NameTaken(exists), f"To get a new secret for it: rota tokens rotate {name} --out FILE")


@contextlib.contextmanager
def _reserved(path: Path | None, as_json: bool) -> Iterator[Path | None]:
    """An empty private file, made before the token is, so that a secret is never without a place.

    It is removed when no token came. Raises Misuse when the file exists or cannot be made.
    """
    if path is None:
        yield None
        return
    if as_json:
        raise Misuse("Give --out or --json, not both: one writes the token to a file, the other prints it.")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        step = "Give another file, or remove this one if nothing needs its token any more."
        raise NextStep(Misuse(f"The file {path} exists; a token is never written over it."), step) from None
    except OSError as refused:
        raise Misuse(f"The file {path} cannot be made: {refused.strerror}.") from None
    try:
        yield path
    except BaseException:
        if path.stat().st_size == 0:
            path.unlink()
        raise


@tokens.command(
    name="resume",
    help_epilogue="""\
Examples:

  rota tokens list
  rota tokens resume 4k2m9x0qp1zt""",
)
def resume(key_id: str, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """Let a token be used again that `rota restore` has suspended.

    Parameters
    ----------
    key_id
        The token's key id, as `rota tokens list` shows it.
    """
    reply = ask(server, calls.resume_token(key_id))
    if as_json:
        return output.document(reply.body)
    return output.say(f"The token {key_id} can be used again.")


def _hand_over(reply: Reply[NewToken], file: Path | None, note: str, as_json: bool) -> None:
    if as_json:
        return output.document(reply.body)
    made = reply.value
    output.hint(f"Token {made.name} (key id {made.key_id}, up to {made.max_priority} priority):")
    output.hint(f"  may: {', '.join(made.scopes)}")
    output.hint(f"  types: {_range(made.types)}; queues: {_range(made.queues)}")
    if file is None:
        output.say(made.token)
        return output.hint(f"This is the only time it is shown. {note}")
    with file.open("w", encoding="ascii") as opened:
        opened.write(f"{made.token}\n")
        opened.flush()
        os.fsync(opened.fileno())
    output.say(f"The token is in {shlex.quote(str(file))}, readable by you alone.")
    return None
