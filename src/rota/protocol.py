"""The HTTP front: refuses what an ASGI application cannot see, before it costs anything.

Passed to uvicorn as ``http=``. It bounds the request line with the headers, their number, and the
time a client may take for headers and body; it never switches protocols; it answers a malformed
request like every other refusal and then closes the connection.

A request that arrives whole in one read sets no timer and reads no clock. Only a connection that
makes the server wait is watched, by one timer that is moved rather than renewed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from rota import problems
from rota.errors import HeadersTooLarge, Malformed, RateLimited, RequestTimeout, RotaError

# What the connection waits for from the client. Plain integers: each read compares several of them.
OPENED: Final = 0  # connected, no request has begun
HEADERS: Final = 1
BODY: Final = 2
QUIET: Final = 3  # the last request is here as a whole; uvicorn's keep-alive timer rules


class FrontCycle(RequestResponseCycle):
    """uvicorn's cycle, but an answer that is there as a whole is written at once, head and body.

    Two writes a request, and two regular expressions a header, are a quarter of what the event loop
    does for a small answer. That no header breaks out of its line is checked by counting the lines.
    """

    _start: Any = None

    async def send(self, message: Any) -> None:
        start = self._start
        if start is None:
            if message["type"] == "http.response.start" and not self.response_started:
                self._start = message
            else:
                await super().send(message)
            return
        self._start = None
        if message.get("more_body", False) or start["status"] >= 500:
            await super().send(start)
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        headers = self.default_headers + start["headers"]
        lines = [STATUS_LINE[start["status"]]]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(headers) + 2 + (not self.keep_alive):
            raise RuntimeError("a header's value holds a line break")
        self.response_started = True
        self.response_complete = True
        self.waiting_for_100_continue = False
        self.transport.write(head if self.scope["method"] == "HEAD" else head + message["body"])
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class FrontProtocol(HttpToolsProtocol):
    """uvicorn's httptools protocol with limits. Sizes in bytes, times in seconds."""

    MAX_HEADER_BYTES = 32 * 1024  # the request line, all headers and all trailers together
    MAX_HEADERS = 100
    MAX_PIPELINED = 16  # requests that wait on one connection behind the one being answered
    HEADER_SECONDS = 10.0  # from the connection or the request's first byte
    BODY_SECONDS = 30.0  # from the end of the headers
    LINGER_SECONDS = 1.0  # how long a refused client may go on sending before it is cut off

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ws_protocol_class = None
        self._stage = OPENED
        self._refused = False
        self._begun = 0  # requests on this connection
        self._header_bytes = 0  # of complete header lines
        self._has_host = False
        self._has_authorization = False
        self._body_bytes = 0  # content, without chunk framing and trailers
        self._fed = 0  # bytes of reads that belong to the present request alone
        self._deadline: float | None = None  # on the loop's clock; None: to be set by _watch
        self._timer: asyncio.TimerHandle | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        self._expect_within(self.HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._unset_keepalive_if_required()
        stage, begun = self._stage, self._begun
        rest = b""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            # Declined: what follows is read as the connection's next plain request.
            rest = data[offer.args[0] :]
        except httptools.HttpParserError as broken:
            cause = broken.__context__
            if not isinstance(cause, RotaError):
                cause = Malformed("The request is not valid HTTP/1.1. Send it again in the right form.")
            self._refuse(cause)
            return
        if self._stage != QUIET:
            self._watch(stage, begun, len(data))
        elif self.cycle.response_complete:
            self._keep_alive()
        if rest:
            self.data_received(rest)

    # The parser's callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._stage = HEADERS
        self._begun += 1
        self._header_bytes = self._body_bytes = 0
        self._has_host = self._has_authorization = False
        self._deadline = None

    def on_url(self, url: bytes) -> None:
        self._header_bytes += len(url)
        if self._header_bytes > self.MAX_HEADER_BYTES:
            raise self._headers_too_large()
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > self.MAX_HEADER_BYTES:
            raise self._headers_too_large()
        if self._stage != HEADERS:
            return  # a trailer: nothing here reads one, and none may pass for a header
        name = name.lower()
        if name == b"host":
            if self._has_host:
                raise Malformed("The Host header is given twice. Send it once.")
            self._has_host = True
        elif name == b"authorization":
            if self._has_authorization:
                raise Malformed("The Authorization header is given twice. Send it once.")
            self._has_authorization = True
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if len(self.headers) > self.MAX_HEADERS:
            raise HeadersTooLarge(f"At most {self.MAX_HEADERS} headers are taken. Send fewer.")
        if not self.url.startswith(b"/") and self.url != b"*":
            raise Malformed("The request's target must be a path. This server is no proxy.")
        if self.parser.should_upgrade() and self._has_body():
            # The parser would take the body for the next request.
            raise Malformed("This server speaks HTTP/1.1 only. Send the request without an upgrade.")
        if len(self.pipeline) >= self.MAX_PIPELINED:
            raise RateLimited("Too many requests wait on this connection. Read the answers first.")
        super().on_headers_complete()
        # uvicorn names its class itself; the cycle has not begun to run yet.
        self.cycle.__class__ = FrontCycle
        self._stage = BODY
        self._deadline = None

    def on_body(self, body: bytes) -> None:
        # As uvicorn's own, but without asking at each piece for an upgrade that never happens.
        self._body_bytes += len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._stage = QUIET
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    def _headers_too_large(self) -> HeadersTooLarge:
        return HeadersTooLarge(f"The headers may hold {self.MAX_HEADER_BYTES} bytes. Send less.")

    def _has_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in self.headers
        )

    # Waiting for the client

    def _keep_alive(self) -> None:
        """Start the idle time again: the answer was complete before the request was."""
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _watch(self, stage: int, begun: int, size: int) -> None:
        """Judge a request that is not here as a whole after a read of ``size`` bytes."""
        if begun == self._begun:
            self._fed += size
        else:
            alone = begun + 1 == self._begun and stage in (OPENED, QUIET)
            self._fed = size if alone else 0
        # The parser keeps an unfinished header line to itself, so what was read is judged as well.
        if self._stage == HEADERS and self._fed > self.MAX_HEADER_BYTES:
            self._refuse(self._headers_too_large())
        elif self._fed > 2 * self.MAX_HEADER_BYTES + 16 * self._body_bytes:
            self._refuse(Malformed("Chunk framing and trailers outweigh the content. Send larger chunks."))
        elif self._deadline is None:
            in_body = self._stage == BODY
            self._expect_within(self.BODY_SECONDS if in_body else self.HEADER_SECONDS)

    def _expect_within(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            self._drop_timer()
            self._timer = self.loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._stage == QUIET or self._deadline is None:
            return
        in_body = self._stage == BODY
        if self.flow.read_paused or (self._owes_answer() and not in_body):
            # The client waits for us: for an earlier answer, or to be read from. It keeps its whole time.
            seconds = self.BODY_SECONDS if in_body else self.HEADER_SECONDS
            self._deadline = self.loop.time() + 2 * seconds
            self._timer = self.loop.call_later(seconds, self._look)
        elif self.loop.time() < self._deadline:
            self._timer = self.loop.call_at(self._deadline, self._look)
        elif self._stage == OPENED:
            self.transport.close()
        else:
            part = "body" if in_body else "headers"
            self._refuse(RequestTimeout(f"The {part} did not arrive in time. Send the request again."))

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _owes_answer(self) -> bool:
        return not getattr(self.cycle, "response_complete", True)  # no cycle before the first request

    # Refusing

    def _refuse(self, error: RotaError) -> None:
        """Answer ``error`` if the connection's next answer is this request's, and close."""
        self._refused = True
        self._drop_timer()
        if self.transport.is_closing():
            return
        self.logger.info("Refused a request: %s", error.code)
        cycle = self.cycle
        if self._stage == BODY:
            if cycle.response_started or self.pipeline:
                self.transport.close()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        elif self._owes_answer():
            cycle.keep_alive = False  # earlier requests keep their answers; the last one closes
            return
        self.transport.write(self._answer(error))
        if self.transport.can_write_eof():
            # Closing at once while the client still sends would reset the answer away.
            self.transport.write_eof()
            self._timer = self.loop.call_later(self.LINGER_SECONDS, self.transport.close)
        else:
            self.transport.close()

    def _answer(self, error: RotaError) -> bytes:
        request_id = problems.new_request_id()
        body = problems.problem_body(error, request_id)
        lines = [STATUS_LINE[error.status]]
        for name, value in (
            *self.server_state.default_headers,
            *problems.SECURITY_HEADERS,
            (b"content-type", problems.CONTENT_TYPE),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", request_id.encode("ascii")),
            (b"connection", b"close"),
        ):
            lines += (name, b": ", value, b"\r\n")
        return b"".join((*lines, b"\r\n", body))
