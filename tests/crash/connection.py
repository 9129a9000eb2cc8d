"""A keep-alive HTTP/1.1 connection that costs the driver next to nothing."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec

ANSWER_SECONDS = 75.0


class Reply(NamedTuple):
    """A status and the body's bytes."""

    status: int
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Connection:
    """Sends one request after the other to 127.0.0.1; opens again when it was closed.

    Every method raises ConnectionError when no whole answer came: what was sent may have been done.
    """

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._head = (
            f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: bytes = b"") -> Reply:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._call(method, path, body)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError | EOFError):
                raise ConnectionError(f"{method} {path}: {type(error).__name__}") from error
            raise

    async def _call(self, method: str, path: str, body: bytes) -> Reply:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        size = 0
        if status != 204:
            _, found, rest = head.partition(b"\r\ncontent-length:")
            assert found, f"an answer without a length: {head!r}"
            size = int(rest.partition(b"\r\n")[0])
        reply = Reply(status, await reader.readexactly(size) if size else b"")
        if b"\r\nconnection: close" in head:
            self.close()
        return reply

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
