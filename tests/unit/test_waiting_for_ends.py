"""Requests that wait for the end of a job: how many may, and what lets them go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rota.api.call import Call
from rota.api.jobs import get_job
from rota.api.queries import JobQuery
from rota.domain.job import Job
from rota.errors import RateLimited, Unauthenticated
from rota.services import waiting
from rota.services.endings import Endings
from rota.services.waiting import Waiting
from tests.credentials import principal

JOB = Job(7, "default", "mail", "pending", 10)


class Queue:
    """A queue whose job never ends."""

    def __init__(self) -> None:
        self.waiting = 0

    async def get(self, *_: object) -> Job:
        return JOB

    async def wait(self, *_: object) -> Job:
        self.waiting += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.waiting -= 1
        raise AssertionError


class Services:
    def __init__(self) -> None:
        self.queue = Queue()
        self.waiting = Waiting()

    def judge(self, _: object) -> None:
        return None


class Client:
    """Asks for the end of the job, and stays until ``leave``."""

    def __init__(self, services: Services) -> None:
        self.leave: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call = Call(
            services=services,  # type: ignore[arg-type]
            principal=principal("jobs:read"),
            headers={},
            query=JobQuery(wait_seconds=60),
            name="7",
            request_id="r",
            address="",
            receive=self.receive,
        )
        self.asking = asyncio.ensure_future(get_job(call, None))

    async def receive(self) -> dict[str, Any]:
        await self.leave
        return {"type": "http.disconnect"}


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_token_has_only_so_many_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MAX_PER_TOKEN", 1)
    services = Services()
    first = Client(services)
    await turns()
    with pytest.raises(RateLimited):
        await Client(services).asking
    first.leave.set_result(None)
    await first.asking
    again = Client(services)
    await turns()
    assert services.queue.waiting == 1
    again.leave.set_result(None)
    await again.asking
    await turns()
    assert services.queue.waiting == 0


async def test_a_server_that_stops_answers_with_the_job_as_it_is() -> None:
    services = Services()
    client = Client(services)
    await turns()
    services.waiting.end()
    assert (await client.asking).status == 200
    assert (await Client(services).asking).status == 200


class Database:
    """Tells which jobs have ended."""

    def __init__(self) -> None:
        self.ended: set[int] = set()
        self.asked = 0

    async def ended_of(self, ids: list[int]) -> list[int]:
        self.asked += 1
        return [id for id in ids if id in self.ended]


async def test_an_end_is_told_to_all_who_wait_for_it_and_to_nobody_else() -> None:
    database = Database()
    endings = Endings(database)  # type: ignore[arg-type]
    with endings.watch(7, None) as one, endings.watch(7, None) as two, endings.watch(8, None) as other:
        endings.announce([7, 9])
        assert (one.done(), two.done(), other.done()) == (True, True, False)
        database.ended = {8}
        await endings.run_once()
        assert other.done()


async def test_nobody_is_looked_for_while_nobody_waits() -> None:
    database = Database()
    endings = Endings(database)  # type: ignore[arg-type]
    with endings.watch(7, None):
        pass
    await endings.run_once()
    assert database.asked == 0


async def test_a_token_that_ends_is_told_to_those_who_wait_with_it() -> None:
    endings = Endings(Database())  # type: ignore[arg-type]
    with endings.watch(7, lambda: Unauthenticated("revoked")) as one, endings.watch(7, None) as two:
        await endings.run_once()
        assert not two.done()
        with pytest.raises(Unauthenticated):
            one.result()
