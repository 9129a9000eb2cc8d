"""The HTTP front, played over raw sockets against a real uvicorn server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota import problems
from rota.protocol import FrontProtocol
from tests.http.raw_server import Answer, Front, serve

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


class HastyFront(FrontProtocol):
    HEADER_SECONDS = 0.15
    BODY_SECONDS = 0.15
    LINGER_SECONDS = 0.1


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async with serve(FrontProtocol) as served:
        yield served


@pytest.fixture
async def hasty() -> AsyncIterator[Front]:
    async with serve(HastyFront) as served:
        yield served


async def refused(front: Front, request: bytes) -> Answer:
    """What the server answers to ``request``, having closed the connection and asked no application."""
    connection = await front.connect()
    await connection.send(request)
    answer = await connection.answer()
    assert await connection.is_closed()
    assert front.app.requests == []
    return answer


async def test_ordinary_requests_share_one_connection(front: Front) -> None:
    connection = await front.connect()
    for body in (b"one", b"two"):
        await connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n" + body)
        answer = await connection.answer()
        assert (answer.status, answer.body) == (200, body)


async def test_refusal_is_a_problem_with_the_headers_of_every_answer(front: Front) -> None:
    answer = await refused(front, b"NONSENSE\r\n\r\n")
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.problem["type"] == "/problems/malformed"
    assert answer.problem["status"] == 400
    assert set(answer.problem) == {"type", "title", "status", "detail", "request_id"}
    assert answer.problem["request_id"] == answer.headers["x-request-id"]
    assert problems.accept_request_id(answer.headers["x-request-id"].encode())


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(GET + b"X: %s\r\n\r\n" % (b"a" * 33_000), id="one long header"),
        pytest.param(GET + b"".join(b"X%d: %s\r\n" % (n, b"a" * 700) for n in range(50)), id="many"),
        pytest.param(b"GET /?%s HTTP/1.1\r\nHost: a\r\n\r\n" % (b"a" * 33_000), id="request line"),
        pytest.param(GET + b"X: " + b"a" * 33_000, id="a header line that never ends"),
        pytest.param(b"GET /" + b"a" * 33_000, id="a request line that never ends"),
    ],
)
async def test_headers_over_32_kib_are_refused(front: Front, request_bytes: bytes) -> None:
    answer = await refused(front, request_bytes)
    assert answer.status == 431
    assert answer.problem["type"] == "/problems/headers-too-large"


async def test_endless_header_line_in_small_pieces_is_refused(front: Front) -> None:
    connection = await front.connect()
    await connection.send(GET + b"X: ")
    for _ in range(33):
        await connection.send(b"a" * 1024)
    assert (await connection.answer()).status == 431


async def test_headers_just_below_32_kib_are_taken(front: Front) -> None:
    connection = await front.connect()
    await connection.send(GET + b"X: %s\r\n\r\n" % (b"a" * 32_600))
    assert (await connection.answer()).status == 200


async def test_pipelined_request_is_not_charged_for_the_body_before_it(front: Front) -> None:
    connection = await front.connect()
    body = b"b" * 60_000
    await connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n" + body + GET)
    assert (await connection.answer()).body == body
    await connection.send(b"\r\n")
    assert (await connection.answer()).status == 200


async def test_the_hundredth_header_is_taken_and_the_next_refused(front: Front) -> None:
    extra = b"".join(b"X%d: a\r\n" % n for n in range(99))
    answer = await refused(front, GET + extra + b"One-More: a\r\n\r\n")
    assert answer.status == 431
    connection = await front.connect()
    await connection.send(GET + extra + b"\r\n")
    assert (await connection.answer()).status == 200


@pytest.mark.parametrize(
    "header",
    [b"HOST: localhost\r\n", b"Authorization: Bearer a\r\nauthorization: Bearer b\r\n"],
    ids=["Host", "Authorization"],
)
async def test_duplicate_host_or_authorization_is_refused(front: Front, header: bytes) -> None:
    assert (await refused(front, GET + header + b"\r\n")).status == 400


async def test_trailer_never_becomes_a_header(front: Front) -> None:
    connection = await front.connect()
    head = b"POST /held HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    await connection.send(head)
    await front.app.entered.wait()
    await connection.send(b"1\r\na\r\n0\r\nAuthorization: Bearer a\r\n\r\n")
    front.app.gate.set()
    assert (await connection.answer()).body == b"a"
    assert [name for name, _ in front.app.requests[0]["headers"]] == [b"host", b"transfer-encoding"]


async def test_endless_trailer_is_refused(front: Front) -> None:
    connection = await front.connect()
    await connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ")
    for _ in range(70):
        await connection.send(b"a" * 1024)
    assert (await connection.answer()).status == 400
    await front.app.left.wait()
    assert front.app.disconnects == 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET http://host HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /?q=\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nBad Header: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\naa",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT host:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
async def test_malformed_request_is_refused(front: Front, request_bytes: bytes) -> None:
    answer = await refused(front, request_bytes)
    assert (answer.status, answer.problem["type"]) == (400, "/problems/malformed")


async def test_websocket_upgrade_is_answered_as_plain_http(front: Front) -> None:
    connection = await front.connect()
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    await connection.send(GET + upgrade + key + b"\r\n" + GET + b"\r\n")
    assert (await connection.answer()).status == 200
    assert (await connection.answer()).status == 200
    assert [request["type"] for request in front.app.requests] == ["http", "http"]


async def test_body_behind_an_upgrade_cannot_pass_for_a_second_request(front: Front) -> None:
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n"
    answer = await refused(front, head % len(smuggled) + smuggled)
    assert answer.status == 400


async def test_connection_that_sends_nothing_is_closed(hasty: Front) -> None:
    connection = await hasty.connect()
    assert await connection.is_closed()


async def test_headers_that_trickle_past_the_deadline_are_refused(hasty: Front) -> None:
    connection = await hasty.connect()

    async def trickle() -> None:
        await connection.send(GET)
        while True:
            await connection.send(b"X: a\r\n")
            await asyncio.sleep(0.02)

    sending = asyncio.create_task(trickle())
    answer = await connection.answer()
    sending.cancel()
    assert answer.status == 408
    assert answer.problem["type"] == "/problems/request-timeout"
    assert hasty.app.requests == []


async def test_blank_lines_do_not_hold_a_new_connection_open(hasty: Front) -> None:
    connection = await hasty.connect()
    for _ in range(3):
        await connection.send(b"\r\n")
    assert await connection.is_closed()


async def test_header_deadline_holds_for_later_requests_too(hasty: Front) -> None:
    connection = await hasty.connect()
    await connection.send(GET + b"\r\n")
    assert (await connection.answer()).status == 200
    await connection.send(GET)
    assert (await connection.answer()).status == 408


async def test_body_that_never_comes_is_refused(hasty: Front) -> None:
    connection = await hasty.connect()
    await connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
    answer = await connection.answer()
    assert answer.status == 408
    assert await connection.is_closed()


async def test_application_learns_of_the_refusal_at_once() -> None:
    class Patient(HastyFront):
        LINGER_SECONDS = 60.0

    async with serve(Patient) as front:
        connection = await front.connect()
        await connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
        assert (await connection.answer()).status == 408
        async with asyncio.timeout(5):
            await front.app.left.wait()
        assert front.app.disconnects == 1


async def test_refused_client_that_does_not_close_is_cut_off() -> None:
    lost = asyncio.Event()

    class Noted(HastyFront):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    async with serve(Noted) as front:
        connection = await front.connect()
        await connection.send(b"NONSENSE\r\n\r\n")
        assert (await connection.answer()).status == 400
        async with asyncio.timeout(5):
            await lost.wait()


async def test_body_that_never_comes_after_an_early_answer_closes(hasty: Front) -> None:
    connection = await hasty.connect()
    await connection.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
    assert (await connection.answer()).body == b"early"
    assert await connection.is_closed()


async def test_a_long_poll_outlives_the_deadlines(hasty: Front) -> None:
    connection = await hasty.connect()
    await connection.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n" + GET)
    await hasty.app.entered.wait()
    await asyncio.sleep(3 * HastyFront.HEADER_SECONDS)  # nothing signals that a deadline did not strike
    hasty.app.gate.set()
    assert (await connection.answer()).status == 200
    await connection.send(b"\r\n")
    assert (await connection.answer()).status == 200


async def test_body_that_the_application_does_not_take_yet_is_not_late(hasty: Front) -> None:
    connection = await hasty.connect()
    head = b"POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n"
    sending = asyncio.create_task(connection.send(head + b"b" * 3_000_000))
    await hasty.app.entered.wait()
    await asyncio.sleep(3 * HastyFront.BODY_SECONDS)  # nothing signals that a deadline did not strike
    hasty.app.gate.set()
    assert len((await connection.answer()).body) == 3_000_000
    await sending


async def test_body_has_its_own_deadline_however_slow_the_headers_were() -> None:
    class HastyInHeaders(FrontProtocol):
        HEADER_SECONDS = 0.15

    async with serve(HastyInHeaders) as front:
        connection = await front.connect()
        await connection.send(b"POST / HTTP/1.1\r\nHost: a\r\n")
        await asyncio.sleep(0.05)  # so that the server reads the headers in two pieces
        await connection.send(b"Content-Length: 3\r\n\r\na")
        await front.app.entered.wait()
        await asyncio.sleep(0.3)  # nothing signals that a deadline did not strike
        await connection.send(b"bc")
        assert (await connection.answer()).body == b"abc"


async def test_idle_connection_outlives_the_deadlines_of_its_last_request(hasty: Front) -> None:
    connection = await hasty.connect()
    await connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
    await hasty.app.entered.wait()
    await connection.send(b"abc")
    assert (await connection.answer()).status == 200
    await asyncio.sleep(3 * HastyFront.HEADER_SECONDS)  # nothing signals that a deadline did not strike
    await connection.send(GET + b"\r\n")
    assert (await connection.answer()).status == 200


async def test_keep_alive_ends_a_connection_whose_body_came_after_the_answer() -> None:
    async with serve(FrontProtocol, keep_alive=1) as front:
        connection = await front.connect()
        await connection.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
        assert (await connection.answer()).body == b"early"
        await connection.send(b"abc")
        assert await connection.is_closed()


async def test_refused_pipelined_request_does_not_cost_the_answer_before_it(front: Front) -> None:
    connection = await front.connect()
    await connection.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\nNONSENSE\r\n\r\n")
    await front.app.entered.wait()
    front.app.gate.set()
    assert (await connection.answer()).status == 200
    assert await connection.is_closed()


async def test_refusal_never_passes_for_the_answer_to_an_earlier_request(front: Front) -> None:
    connection = await front.connect()
    broken = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"
    await connection.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n" + broken)
    assert await connection.is_closed()


async def test_pipeline_is_bounded(front: Front) -> None:
    connection = await front.connect()
    await connection.send((GET + b"\r\n") * 1000)
    for _ in range(1 + FrontProtocol.MAX_PIPELINED):
        assert (await connection.answer()).status == 200
    assert await connection.is_closed()
    assert len(front.app.requests) == 1 + FrontProtocol.MAX_PIPELINED


async def test_refusal_is_read_even_by_a_client_that_is_still_sending(front: Front) -> None:
    connection = await front.connect()
    sending = asyncio.create_task(connection.send(GET + b"X: " + b"a" * 4_000_000))
    assert (await connection.answer()).status == 431
    await sending


@pytest.mark.parametrize("target", [b"http://elsewhere/jobs", b"elsewhere:443", b"jobs"])
async def test_a_target_that_is_no_path_is_refused(front: Front, target: bytes) -> None:
    answer = await refused(front, b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % target)
    assert answer.status == 400


@pytest.mark.parametrize("value", [b"a\r\nSet-Cookie: b", b"a\nb"])
async def test_a_line_break_in_an_answers_header_never_leaves_the_server(front: Front, value: bytes) -> None:
    front.app.extra.append((b"x-told", value))
    connection = await front.connect()
    await connection.send(GET + b"\r\n")
    assert (await connection.answer()).status == 500
