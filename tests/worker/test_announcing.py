"""Workers that the server knows: what they say about themselves, and draining them from afar."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec
import pytest
from pydantic import BaseModel

from rota import Task
from rota.client.announcing import described
from rota.client.workers import WorkerInfo
from tests.live_server import fresh
from tests.worker.conftest import Place, WorkerProcess

StartProcess = Callable[..., WorkerProcess]


async def listed(place: Place, instance: str) -> WorkerInfo:
    (found,) = [one for one in await place.client.workers.list() if one.instance == instance]
    return found


async def test_a_drain_from_afar_lets_the_job_end_and_the_process_with_it(
    place: Place, worker_process: StartProcess
) -> None:
    type, instance = await place.type(), fresh("drained")
    worker = worker_process(type, TEST_INSTANCE=instance, TEST_GRACE="30")
    job = await place.client.enqueue(type, {"do": "sleep", "seconds": 1.5})
    await worker.until_noted(1)
    found = await listed(place, instance)
    assert (found.handlers, found.held) == ([type], 1)
    assert (await place.client.workers.drain(found.id)).drain_requested
    later = await place.client.enqueue(type, delay_seconds=1)
    assert await worker.end() == 0
    assert (await place.client.get(job.id)).status == "completed"
    assert (await place.client.get(later.id)).status == "pending"
    assert len(worker.lines()) == 2


async def test_a_worker_that_may_not_announce_itself_works_on(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rota.worker")
    task, instance = Task(_answer, name=await place.type()), fresh("taken")
    other = await place.client.tokens.create(fresh("token"), preset="worker")
    async with place.working(task, instance=instance):
        job = await task.enqueue(place.client)
        await place.until(job.id)
        place.token = other.token
        async with place.working(task, instance=instance):
            for _ in range(20):
                job = await task.enqueue(place.client)
                assert (await place.until(job.id)).status == "completed"
    assert len([line for line in caplog.messages if "is not listed by the server" in line]) == 1


async def _answer() -> int:
    return 42


class Address(BaseModel):
    street: str


def send(to: str, count: int = 1, address: Address | None = None) -> None:
    """Send a mail.

    And more that is not for the list.
    """


def test_a_handler_is_described_by_its_docstring_and_its_arguments() -> None:
    (one,) = described([Task(send)])
    assert (one.name, one.description) == ("send", "Send a mail.")
    schema = msgspec.json.decode(msgspec.json.encode(one.schema))
    arguments = schema["$defs"]["Arguments"]
    assert arguments["required"] == ["to"]
    assert arguments["additionalProperties"] is False
    assert set(arguments["properties"]) == {"to", "count", "address"}


def test_a_default_is_not_told_it_may_be_a_secret() -> None:
    def connect(password: str = "hunter2") -> None: ...

    (one,) = described([Task(connect)])
    assert b"hunter2" not in msgspec.json.encode(one.schema)


def test_a_schema_that_is_too_long_is_left_out_and_the_handler_is_not() -> None:
    namespace: dict[str, object] = {}
    arguments = ", ".join(f"argument_{n}: int" for n in range(400))
    exec(f"def wide({arguments}): ...", namespace)
    (one,) = described([Task(namespace["wide"])])  # type: ignore[arg-type]
    assert (one.name, one.schema) == ("wide", msgspec.UNSET)
