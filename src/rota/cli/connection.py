"""How a command finds the server and its token, and asks it.

The address is ``--url``, else ``ROTA_URL``, else the one in ``server.json`` of the data folder. The token is
in ``--token-file``, else ``ROTA_TOKEN``, else ``admin.token`` of the data folder, which is sent only to
the address in ``server.json`` and only while a server holds the folder's lock. No secret is an argument.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shlex
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, Generic, NamedTuple, TypeVar

from cyclopts import Group, Parameter

from rota import settings
from rota.cli.failures import Misuse, NextStep
from rota.client.aio import AsyncClient
from rota.client.protocol import DEFAULT_URL, Answer, Call, server_url
from rota.errors import StartError, Unauthenticated, Unavailable, ValidationFailed
from rota.host import ADMIN_FILE, DataLock, ServerFile, read_private

T = TypeVar("T")

MOST_TOKEN_BYTES: Final = 4096
TRIES: Final = 3
"""A person waits for the answer: a server that is away is reported within a second."""


@Parameter(name="*", group=Group("Server", sort_key=90))
@dataclasses.dataclass(frozen=True, kw_only=True)
class Server:
    """Which server a command talks to, and as whom."""

    url: Annotated[
        str | None, Parameter(help="The server's address. Else ROTA_URL, else this machine's.")
    ] = None
    token_file: Annotated[
        Path | None, Parameter(help="A file that holds the token. Else ROTA_TOKEN, else the data folder's.")
    ] = None
    data: Annotated[
        Path | None,
        Parameter(help="The data folder of a server on this machine. Else ROTA_DATA, ./rota-data."),
    ] = None
    insecure_http: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Send the token unencrypted to another machine."),
    ] = False


JsonFlag = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        group=Group("Output", sort_key=91),
        help="Print the API's JSON and nothing else.",
    ),
]


class Reply(NamedTuple, Generic[T]):
    """An answer read, and its JSON as it came."""

    value: T
    body: bytes


def address_and_token(server: Server, environ: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """Where to and as whom. Raises Misuse for an address that is none, and what to do without a token."""
    given = server.url or environ.get("ROTA_URL")
    token = _token(server, environ)
    if given and token:
        return _checked(given, server), token
    told = settings.load(server.data, None, environ, {})
    local = ServerFile(told.data).read() if told.data.is_dir() else None
    url = _checked(given or (local.url if local else DEFAULT_URL), server)
    if token:
        return url, token
    if local is None and not given:
        raise _no_server(told.data)
    if local is None or _checked(local.url, server) != url:
        raise NextStep(
            Unauthenticated(f"There is no token for {url}."),
            "Set ROTA_TOKEN, or name a file with --token-file. On the server's own machine, name its data "
            "folder with --data.",
        )
    return url, _admin_token(told.data, told.database_file.parent)


def connect(server: Server, *, tries: int = TRIES) -> AsyncClient:
    """A client for the server that the flags and the environment name."""
    url, token = address_and_token(server)
    return AsyncClient(url, token, insecure_http=server.insecure_http, tries=tries)


def converse(server: Server, talk: Callable[[AsyncClient], Awaitable[T]]) -> T:
    """What ``talk`` returns, given a connected client."""

    async def conversation() -> T:
        async with connect(server) as client:
            return await talk(client)

    return asyncio.run(conversation())


def ask(server: Server, call: Call[T]) -> Reply[T]:
    """Send one call and wait for its answer."""
    return converse(server, lambda client: client.send(with_body(call)))


def with_body(call: Call[T]) -> Call[Reply[T]]:
    """The same call, whose answer keeps the JSON it was read from."""

    def read(answer: Answer) -> Reply[T]:
        return Reply(call.read(answer), answer.body)

    return Call(call.method, call.path, read, call.body, call.again, call.repeatable, call.wait_seconds)


def own_token(server: Server, step: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise what to do, ``step``, when only the admin token would be left."""
    if _token(server, environ) is None:
        needed = "A worker needs a token of its own: --token-file, or ROTA_TOKEN."
        raise NextStep(Unauthenticated(needed), step)


def _no_server(data: Path) -> NextStep:
    """What is missing when there is neither an address nor a token."""
    shown = shlex.quote(str(data) if data.is_absolute() else f"./{data}")
    start = "rota serve" if data == settings.DEFAULT_DATA else f"rota serve --data {shown}"
    if data.is_dir():
        return NextStep(Unavailable(f"No server is running on {shown}."), f"Start it with: {start}")
    return NextStep(
        Unavailable(f"There is no data folder {shown} here."),
        f"Start a server with `{start}`, or name the data folder of one with --data or ROTA_DATA. "
        "For a server elsewhere give --url, and a token with --token-file or ROTA_TOKEN.",
    )


def _token(server: Server, environ: Mapping[str, str]) -> str | None:
    if server.token_file is not None:
        return _read_token(server.token_file)
    return environ.get("ROTA_TOKEN", "").strip() or None


def _read_token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            content = file.read(MOST_TOKEN_BYTES + 1)
    except OSError as refused:
        raise Misuse(f"The token file {path} cannot be read: {refused.strerror}.") from None
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & 0o077:
        raise NextStep(Misuse(f"The token file {path} is open to other users."), f"Run: chmod 600 {path}")
    text = content.decode("utf-8", "replace").strip()
    if not text or len(content) > MOST_TOKEN_BYTES or len(text.split()) != 1:
        raise Misuse(f"The token file {path} must hold one token and nothing else.")
    return text


def _checked(url: str, server: Server) -> str:
    try:
        return server_url(url, insecure_http=server.insecure_http)
    except ValidationFailed as refused:
        detail = refused.detail.replace("allow it with insecure_http", "allow it with --insecure-http")
        raise Misuse(f"The address {url} {detail.removeprefix('url: ')}.") from None


def _admin_token(data: Path, lock_folder: Path) -> str:
    try:
        held = DataLock(lock_folder).is_held()
    except OSError as refused:
        raise StartError(f"The lock in {lock_folder} cannot be read: {refused.strerror}.") from None
    if not held:
        raise NextStep(
            Unavailable(f"No server is running on the data folder {data}."),
            f"Start one with: rota serve --data {data}",
        )
    try:
        return read_private(data / ADMIN_FILE).decode("ascii", "replace").strip()
    except FileNotFoundError:
        step = "Set ROTA_TOKEN or give --token-file."
        raise NextStep(Unauthenticated(f"{data} holds no {ADMIN_FILE} any more."), step) from None
