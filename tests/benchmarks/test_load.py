"""The load generator counts every answer once, in whatever pieces it arrives."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from benchmarks.load import Load

ANSWER = b"HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\n" + b"x" * 12
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
PIECES = {
    "whole": [ANSWER],
    "head and body": [ANSWER[:-12], ANSWER[-12:]],
    "cut in the head": [ANSWER[:30], ANSWER[30:]],
    "byte by byte": [ANSWER[i : i + 1] for i in range(len(ANSWER))],
    "without a body": [EMPTY],
}


class Requests:
    """Some requests, and the answers they got."""

    name = "test"

    def __init__(self, count: int) -> None:
        self.left = count
        self.answers: list[tuple[int, bytes]] = []

    def next(self) -> bytes | None:
        self.left -= 1
        return b"GET / HTTP/1.1\r\n\r\n" if self.left >= 0 else None

    def took(self, status: int, body: bytes) -> None:
        self.answers.append((status, body))
        if status == 500:
            raise ValueError("not the answer that was hoped for")


@pytest.fixture
async def port(request: pytest.FixtureRequest) -> AsyncIterator[int]:
    """A server that answers each request with the pieces of the test's parameter."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1_000):
            for piece in request.param:
                writer.write(piece)
                await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("port", PIECES.values(), ids=PIECES.keys(), indirect=True)
async def test_an_answer_counts_once_however_it_is_cut(port: int) -> None:
    load = await Load.open(port, 3)
    feed = Requests(20)
    sample = await load.run(feed)
    load.close()
    assert sample.requests == 20
    assert len(feed.answers) == 20
    assert set(feed.answers) in ({(201, b"x" * 12)}, {(204, b"")})


@pytest.mark.parametrize(
    "port", [[b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"]], indirect=True
)
async def test_an_unexpected_answer_ends_the_run(port: int) -> None:
    load = await Load.open(port, 2)
    with pytest.raises(ValueError, match="hoped for"):
        await load.run(Requests(1_000))
    load.close()
