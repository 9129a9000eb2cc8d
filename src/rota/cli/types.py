"""``rota types``: the list of job types that the server takes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App

from rota.cli import output
from rota.cli.connection import JsonFlag, Reply, Server, ask, converse, with_body
from rota.cli.values import DURATION, FLAG, spoken
from rota.client import calls
from rota.client.aio import AsyncClient
from rota.client.jobs import TypeInfo
from rota.domain.retry import Backoff
from rota.errors import Forbidden, NotFound, ValidationFailed

types = App(
    name="types",
    help_epilogue="""\
Examples:

  rota types put mail.send --max-retries 5
  rota types list
  rota types pause mail.send              hand out no more of them for now""",
)


@types.command(
    name="list",
    help_epilogue="""\
Examples:

  rota types list
  rota types list --json""",
)
def list_types(*, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """List the declared types."""
    reply = ask(server, calls.types(None))
    if as_json:
        return output.document(reply.body)
    if not reply.value.items:
        return output.hint(
            "There are no types yet, so no job is taken. Declare one with: rota types put NAME"
        )
    output.table(
        ("NAME", "STATUS", "QUEUE", "PRIORITY", "RETRIES", "LEASE", "DESCRIPTION"),
        [
            (
                one.name,
                "paused" if one.paused else "open",
                one.queue,
                one.default_priority,
                str(one.max_retries),
                spoken(one.lease_seconds),
                one.description,
            )
            for one in reply.value.items
        ],
    )
    return None


@types.command(
    name="show",
    help_epilogue="""\
Examples:

  rota types show mail.send
  rota types show mail.send --json""",
)
def show(name: str, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """Show one type with all its settings.

    Parameters
    ----------
    name
        The type's name, as `rota types list` shows it.
    """
    reply = ask(server, calls.type(name))
    if as_json:
        return output.document(reply.body)
    return _show(reply.value)


@types.command(
    name="put",
    help_epilogue="""\
Examples:

  rota types put mail.send
  rota types put report.build --lease 5m --timeout 1h --max-retries 1
  rota types put sync.pull --backoff fixed --backoff-base 30s
  rota types put mail.send --schema mail.schema.json --idempotent""",
)
def put(
    name: str,
    /,
    *,
    description: str = "",
    queue: str = "default",
    priority: str = "low",
    max_retries: int = 3,
    backoff: Literal["none", "fixed", "exponential"] = "exponential",
    backoff_base: Annotated[float, DURATION] = 2.0,
    backoff_factor: float = 2.0,
    backoff_cap: Annotated[float, DURATION] = 3600.0,
    backoff_jitter: float = 0.1,
    lease: Annotated[float, DURATION] = 30.0,
    timeout: Annotated[float | None, DURATION] = None,
    max_payload_bytes: int = 65_536,
    schema: Path | None = None,
    idempotent: Annotated[bool, FLAG] = False,
    paused: Annotated[bool, FLAG] = False,
    server: Server = Server(),
    as_json: JsonFlag = False,
) -> None:
    """Declare a type, or replace all its settings: what you leave out gets its default.

    Whether it is paused stays as it is unless you give --paused.

    Parameters
    ----------
    name
        Lower-case letters, digits, dots, dashes and underscores, such as mail.send.
    description
        One line for those who read the list.
    queue
        The queue of its jobs.
    priority
        The priority of its jobs: low, medium, high or critical.
    max_retries
        How often a job is tried again after a failure.
    backoff
        How the pause before a retry grows: none, fixed (the base) or exponential.
    backoff_base
        The first pause; else 2s.
    backoff_factor
        By how much each pause is longer than the one before.
    backoff_cap
        The longest pause; else 1h.
    backoff_jitter
        How much of a pause is left to chance, 0 to 1.
    lease
        How long a silent worker keeps a job before another gets it; else 30s.
    timeout
        How long one attempt may take; else there is no limit.
    max_payload_bytes
        The largest payload, at most 65,536.
    schema
        A file with the JSON Schema that payloads must fit.
    idempotent
        Running a job of it twice is the same as running it once.
    paused
        Take its jobs but hand none out.
    """
    options = calls.TypeOptions(
        description=description,
        queue=queue,
        default_priority=priority,
        max_retries=max_retries,
        backoff=Backoff(backoff, backoff_base, backoff_factor, backoff_cap, backoff_jitter),
        lease_seconds=lease,
        timeout_seconds=timeout,
        max_payload_bytes=max_payload_bytes,
        payload_schema=None if schema is None else _read_schema(schema),
        idempotent=idempotent,
    )
    if paused:
        options["paused"] = True

    async def talk(client: AsyncClient) -> tuple[TypeInfo | None, Reply[TypeInfo]]:
        before = None
        with contextlib.suppress(NotFound, Forbidden):
            before = await client.send(calls.type(name))
        return before, await client.send(with_body(calls.put_type(name, options)))

    before, reply = converse(server, talk)
    if as_json:
        return output.document(reply.body)
    output.say(f"The server takes jobs of type {reply.value.name}.")
    if before is not None and (changes := _changes(before, reply.value)):
        output.hint(f"It was there already; replaced: {', '.join(changes)}")
    return output.hint(f"Hand one in with: rota enqueue {reply.value.name} '{{}}'")


@types.command(
    name="delete",
    help_epilogue="""\
Examples:

  rota types delete mail.send""",
)
def delete(name: str, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """Delete a type: no new jobs of it are taken, and those that wait are not handed out.

    Parameters
    ----------
    name
        The type's name.
    """
    ask(server, calls.delete_type(name))
    if as_json:
        return
    output.say(f"The type {name} is deleted.")
    with contextlib.suppress(Forbidden):
        waiting = ask(server, calls.jobs({"type": name, "status": "pending"}, 200, None)).value
        if waiting.items:
            number = f"{len(waiting.items)}{' and more' if waiting.next_cursor else ''}"
            output.hint(f"Jobs of it that wait: {number}. They come out when it is put again.")


@types.command(
    name="pause",
    help_epilogue="""\
Examples:

  rota types pause mail.send
  rota types resume mail.send""",
)
def pause(name: str, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """Hand out no more jobs of a type; new ones are still taken, running ones go on.

    Parameters
    ----------
    name
        The type's name.
    """
    reply = ask(server, calls.pause_type(name, True))
    if as_json:
        return output.document(reply.body)
    output.say(f"The type {name} is paused.")
    return output.hint(f"Go on with: rota types resume {name}")


@types.command(
    name="resume",
    help_epilogue="""\
Examples:

  rota types resume mail.send""",
)
def resume(name: str, /, *, server: Server = Server(), as_json: JsonFlag = False) -> None:
    """Hand out jobs of a paused type again.

    Parameters
    ----------
    name
        The type's name.
    """
    reply = ask(server, calls.pause_type(name, False))
    if as_json:
        return output.document(reply.body)
    return output.say(f"Jobs of type {name} are handed out again.")


def _read_schema(path: Path) -> dict[str, Any]:
    try:
        schema = msgspec.json.decode(path.read_bytes())
    except OSError as fault:
        raise ValidationFailed(f"{path} cannot be read: {fault.strerror}") from None
    except msgspec.DecodeError as fault:
        raise ValidationFailed(f"{path} is no JSON: {fault}") from None
    if not isinstance(schema, dict):
        raise ValidationFailed(f"{path} holds no JSON Schema: it must be a JSON object")
    return schema


def _schema(one: TypeInfo) -> str:
    if one.payload_schema is None:
        return "none"
    text = msgspec.json.encode(one.payload_schema).decode()
    if one.payload_schema_disabled:
        return f"switched off, because a check of it took over 10 ms: {text}"
    return text


def _changes(before: TypeInfo, after: TypeInfo) -> list[str]:
    """What a put has changed, as ``max retries 5 → 3``."""
    old, new = _settings(before), _settings(after)
    return [
        f"{name.replace('_', ' ')} {old[name]} → {new[name]}" for name in new if old.get(name) != new[name]
    ]


def _settings(one: TypeInfo) -> dict[str, Any]:
    settings = msgspec.structs.asdict(one)
    settings |= {f"backoff_{name}": value for name, value in msgspec.structs.asdict(one.backoff).items()}
    for name in ("backoff", "created_at", "updated_at"):
        del settings[name]
    return settings


def _show(one: TypeInfo) -> None:
    pause = one.backoff
    growth = {
        "none": "at once",
        "fixed": f"always {spoken(pause.base_seconds)}",
        "exponential": (
            f"{spoken(pause.base_seconds)}, then ×{pause.factor:g}, at most {spoken(pause.cap_seconds)}"
        ),
    }[pause.strategy]
    if pause.strategy != "none" and pause.jitter:
        growth += f", and by chance up to {pause.jitter:.0%} more"
    output.fields(
        (
            ("name", one.name),
            ("description", one.description or None),
            ("status", "paused" if one.paused else "open"),
            ("queue", one.queue),
            ("priority", one.default_priority),
            ("retries", str(one.max_retries)),
            ("pause before a retry", growth),
            ("lease", spoken(one.lease_seconds)),
            ("timeout", "none" if one.timeout_seconds is None else spoken(one.timeout_seconds)),
            ("largest payload", f"{one.max_payload_bytes:,} bytes"),
            ("idempotent", "yes" if one.idempotent else "no"),
            ("payload schema", _schema(one)),
            ("created", output.moment(one.created_at)),
            ("changed", output.moment(one.updated_at)),
        )
    )
