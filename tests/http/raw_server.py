"""A real uvicorn server with the HTTP front, and raw connections to it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from rota.protocol import FrontProtocol


class StartedServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@dataclass
class EchoApp:
    """Answers with the body it read; ``/held`` waits for ``gate``, ``/early`` never reads."""

    extra: list[tuple[bytes, bytes]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[dict[str, Any]] = field(default_factory=list)
    disconnects: int = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests.append(dict(scope))
        self.entered.set()
        body = b"early"
        if scope["path"] == "/held":
            await self.gate.wait()
        if scope["path"] != "/early":
            body = b""
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    self.disconnects += 1
                    self.left.set()
                    return
                body += message["body"]
                more = message["more_body"]
        length = str(len(body)).encode()
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-length", length), *self.extra],
            }
        )
        await send({"type": "http.response.body", "body": body})
        self.left.set()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        async with asyncio.timeout(5):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in pairs}
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Answer(int(head[0].split()[1]), headers, body)

    async def is_closed(self) -> bool:
        """Wait for the server to close; False if it sends anything more instead."""
        async with asyncio.timeout(5):
            try:
                return await self.reader.read(1) == b""
            except ConnectionResetError:
                return True


class Front:
    def __init__(self, app: EchoApp, port: int) -> None:
        self.app = app
        self.port = port
        self.open: list[Connection] = []

    async def connect(self) -> Connection:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", self.port))
        self.open.append(connection)
        return connection


@asynccontextmanager
async def serve(protocol: type[FrontProtocol], *, keep_alive: int = 75) -> AsyncIterator[Front]:
    app = EchoApp()
    config = uvicorn.Config(
        app,
        port=0,
        http=protocol,
        ws=asyncio.Protocol,  # an upgrade would find somewhere to go
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=keep_alive,
    )
    server = StartedServer(config)
    running = asyncio.create_task(server.serve())
    await server.ready.wait()
    front = Front(app, server.servers[0].sockets[0].getsockname()[1])
    try:
        yield front
    finally:
        app.gate.set()
        for connection in front.open:
            connection.writer.close()
        server.should_exit = True
        await running
