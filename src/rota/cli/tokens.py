"""``rota tokens``: who may do what."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from cyclopts import App

from rota.cli import output
from rota.cli.connection import JsonFlag, Server, ask
from rota.cli.failures import Misuse, NextStep
from rota.cli.values import DURATION, INSTANT, NAMES
from rota.client import calls
from rota.client.jobs import NewToken, TokenInfo

Preset = Literal["producer", "worker", "observer", "operator", "integrator", "admin"]

tokens = App(
    name="tokens",
    help_epilogue="""\
Examples:

  rota tokens create shop --preset producer --types mail.send
  rota tokens list
  rota tokens revoke 4k2m9x0qp1zt""",
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
        ("KEY ID", "NAME", "STATE", "PRIORITY", "LAST USED", "TYPES", "QUEUES", "SCOPES"),
        [
            (
                one.key_id,
                one.name,
                _state(one),
                f"up to {one.max_priority}",
                output.ago(one.last_used_at),
                _range(one.types),
                _range(one.queues),
                ", ".join(one.scopes),
            )
            for one in reply.value.items
        ],
    )
    return None


def _state(one: TokenInfo) -> str:
    if one.revoked_at is not None:
        return f"revoked {output.ago(one.revoked_at)}"
    return "valid" if one.expires_at is None else f"ends {output.ago(one.expires_at)}"


def _range(names: list[str] | None) -> str:
    return "all" if names is None else ", ".join(names) or "none"


@tokens.command(
    name="create",
    help_epilogue="""\
Examples:

  rota tokens create shop --preset producer
  rota tokens create mailer --preset worker --types mail.send
  rota tokens create board --scopes jobs:read --expires-at 2027-01-01T00:00:00Z

Straight into a file that only you can read, for --token-file:

  (umask 077; rota tokens create w1 --preset worker > w1.token)
  rota worker my.tasks --token-file w1.token""",
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
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> None:
    """Make a token and print it, this once, alone on stdout.

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
    reply = ask(server, calls.create_token(name, options))
    if as_json:
        return output.document(reply.body)
    return _hand_over(reply.value, "This is the only time it is shown. Keep it in a file of mode 0600.")


@tokens.command(
    name="rotate",
    help_epilogue="""\
Examples:

  rota tokens rotate 4k2m9x0qp1zt
  rota tokens rotate 4k2m9x0qp1zt --grace 10m   the old one works 10 min more""",
)
def rotate(
    key_id: str,
    /,
    *,
    grace: Annotated[float, DURATION] = 0.0,
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> None:
    """Give a token a new secret; name, rights and key id stay.

    Parameters
    ----------
    key_id
        The token's key id, as `rota tokens list` shows it.
    grace
        How long the old secret still works.
    """
    reply = ask(server, calls.rotate_token(key_id, grace))
    if as_json:
        return output.document(reply.body)
    old = f"works for {grace:g} s more" if grace else "has ended"
    return _hand_over(reply.value, f"This is the only time it is shown. The old secret {old}.")


@tokens.command(
    name="revoke",
    help_epilogue="""\
Examples:

  rota tokens list
  rota tokens revoke 4k2m9x0qp1zt""",
)
def revoke(key_id: str, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """End a token at once and for good; jobs that it holds go back to the queue.

    Parameters
    ----------
    key_id
        The token's key id, as `rota tokens list` shows it.
    """
    reply = ask(server, calls.revoke_token(key_id))
    if as_json:
        return output.document(reply.body)
    return output.say(f"The token {key_id} is revoked.")


def _hand_over(made: NewToken, note: str) -> None:
    output.hint(f"Token {made.name} (key id {made.key_id}, up to {made.max_priority} priority):")
    output.hint(f"  may: {', '.join(made.scopes)}")
    output.hint(f"  types: {_range(made.types)}; queues: {_range(made.queues)}")
    output.say(made.token)
    output.hint(note)
