"""Who may wait, and what becomes of jobs that were claimed for a client that is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rota.api.call import Call
from rota.api.jobs import claimed
from rota.domain.access import Principal
from rota.services import waiting
from rota.services.waiting import Waiting
from rota.wire import ClaimRequest
from tests.credentials import principal


class Queue:
    """Claims what ``found`` is set to."""

    def __init__(self) -> None:
        self.found: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.waits: list[bool] = []
        self.given_back: list[Any] = []

    async def claim(self, _: Principal, __: ClaimRequest, *, wait: bool, judge: object) -> list[Any]:
        self.waits.append(wait)
        return await self.found

    async def give_back(self, _: Principal, jobs: list[Any]) -> None:
        self.given_back += jobs


class Services:
    def __init__(self) -> None:
        self.queue = Queue()
        self.waiting = Waiting()

    def judge(self, _: Principal) -> None:
        return None


class Client:
    """Stays until ``leave``; its call is claimed for."""

    def __init__(self, services: Services) -> None:
        self.leave: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call = Call(
            services=services,  # type: ignore[arg-type]
            principal=principal("jobs:work"),
            headers={},
            query=None,
            name="",
            request_id="r",
            address="",
            receive=self.receive,
        )
        self.claiming = asyncio.ensure_future(claimed(call, ClaimRequest(wait_seconds=60)))

    async def receive(self) -> dict[str, Any]:
        await self.leave
        return {"type": "http.disconnect"}


async def test_jobs_for_a_client_that_is_there_are_handed_over() -> None:
    services = Services()
    client = Client(services)
    await asyncio.sleep(0)
    services.queue.found.set_result(["job"])
    handed_over: list[Any] = await client.claiming
    assert handed_over == ["job"]
    assert services.queue.given_back == []


async def test_jobs_claimed_in_the_moment_the_client_leaves_are_given_back() -> None:
    services = Services()
    client = Client(services)
    await asyncio.sleep(0)
    services.queue.found.set_result(["job"])
    client.leave.set_result(None)
    assert await client.claiming == []
    assert services.queue.given_back == ["job"]


async def test_a_client_that_leaves_first_cancels_its_claim() -> None:
    services = Services()
    client = Client(services)
    await asyncio.sleep(0)
    client.leave.set_result(None)
    assert await client.claiming == []
    assert services.queue.found.cancelled()


async def test_the_end_of_waiting_lets_every_claim_go_and_admits_no_other() -> None:
    services = Services()
    client = Client(services)
    await asyncio.sleep(0)
    services.waiting.end()
    assert await client.claiming == []
    services.queue.found = asyncio.get_running_loop().create_future()
    services.queue.found.set_result([])
    assert await Client(services).claiming == []
    assert services.queue.waits == [True, False]


async def test_a_token_and_a_node_have_only_so_many_waiters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MAX_PER_TOKEN", 2)
    monkeypatch.setattr(waiting, "MAX_PER_NODE", 3)
    waiters = Waiting()
    assert [waiters.enter("a") for _ in range(3)] == [True, True, False]
    assert [waiters.enter("b") for _ in range(2)] == [True, False]
    waiters.leave("a")
    assert [waiters.enter("b"), waiters.enter("a")] == [True, False]
