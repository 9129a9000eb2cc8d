"""The bare endpoint that POST /jobs is compared with.

A plain ASGI callable on the same uvicorn, httptools and uvloop, with the same batcher, writer, columns
and indexes, and the same decoding and encoding of the same body and answer. What it leaves out is what
Rota adds: authentication, types, limits, routing, guards. ``python -m benchmarks.bare FILE`` serves it on
a free port, prints that port, and stops on SIGTERM.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvicorn
import uvloop

from rota.clock import SystemClock
from rota.domain.job import NewJob
from rota.store.sqlite.store import SqliteStore
from rota.wire import EnqueueRequest, job_answer

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope


def endpoint(store: SqliteStore) -> ASGI3Application:
    """POST anything: the body is an enqueue, the answer its job."""
    decode = msgspec.json.Decoder(EnqueueRequest).decode
    encode = msgspec.json.Encoder().encode

    async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        assert scope["type"] == "http"
        body = b""
        more = True
        while more:
            message = await receive()
            assert message["type"] == "http.request"
            body += message["body"]
            more = message["more_body"]
        asked = decode(body)
        assert asked.request_uid is not None
        job = NewJob(
            queue="default",
            type=asked.type,
            priority=0,
            producer="0123456789abcdef0123456789abcdef",
            payload=bytes(asked.payload),
            max_retries=3,
            request_uid=asked.request_uid.bytes,
        )
        (stored,) = await store.enqueue([job])
        answer = encode(job_answer(stored.job))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(answer)).encode()),
        ]
        await send({"type": "http.response.start", "status": 201, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": answer, "more_body": False})

    return app


async def serve(file: Path) -> None:
    store = await SqliteStore.open(file, SystemClock())
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(
        endpoint(store),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
    print(listener.getsockname()[1], flush=True)
    await uvicorn.Server(config).serve(sockets=[listener])
    await store.close()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
