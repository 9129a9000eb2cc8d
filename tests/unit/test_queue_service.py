"""The queue service beside another process on the same database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from rota.clock import FakeClock
from rota.errors import Forbidden, RotaError, ValidationFailed
from rota.services.backlog import Backlog
from rota.services.disk import Disk
from rota.services.endings import Endings
from rota.services.queue import Queue
from rota.services.types import Types
from rota.store.sqlite.store import SqliteStore
from rota.wire import ClaimRequest, EnqueueRequest, TypeRequest
from tests.credentials import ACTOR, principal

WHO = principal("jobs:enqueue", "jobs:work", "types:write")
JOB = EnqueueRequest(type="mail")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest_asyncio.fixture
async def queue(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Queue]:
    """A queue whose copy of the types is older than a type that another process has put."""
    store = await SqliteStore.open(tmp_path / "rota.db", clock)
    types = Types(store, clock)
    await types.refresh()
    other = await SqliteStore.open(tmp_path / "rota.db", clock)
    await Types(other, clock).put(WHO, "mail", TypeRequest(), ACTOR)
    await other.close()
    clock.advance(1.001)
    yield Queue(
        store, types, clock, Disk(tmp_path, 0), Endings(store.reader), Backlog(store.reader, 1_000_000)
    )
    await store.close()


@pytest.mark.parametrize(
    "ask",
    [
        lambda queue: queue.enqueue(WHO, JOB),
        lambda queue: queue.enqueue_many(WHO, [JOB]),
        lambda queue: queue.enqueue_together(WHO, [JOB]),
        lambda queue: queue.claim(WHO, ClaimRequest(types=["mail"])),
    ],
    ids=["enqueue", "batch", "atomic batch", "claim"],
)
async def test_a_type_that_another_process_has_just_put_is_known(
    queue: Queue, ask: Callable[[Queue], Awaitable[Any]]
) -> None:
    answer = await ask(queue)
    assert not (isinstance(answer, list) and any(isinstance(one, RotaError) for one in answer))


@pytest.mark.parametrize(
    ("own", "asked", "says"),
    [
        ({"mail"}, "mial", "the token may use the types mail only, not mial"),
        ({"mail"}, "No Name", "the token may use the types mail only"),
        ({f"t{n:02d}" for n in range(11)}, "mail", "t09 and others only, not mail"),
    ],
)
async def test_refusal_of_a_type_out_of_range_names_it_and_the_range(
    queue: Queue, own: set[str], asked: str, says: str
) -> None:
    narrow = principal("jobs:enqueue", "jobs:work", types=own)
    for refused in (
        queue.enqueue(narrow, EnqueueRequest(type=asked)),
        queue.claim(narrow, ClaimRequest(types=[asked])),
    ):
        with pytest.raises(Forbidden) as told:
            await refused
        assert told.value.detail.endswith(says)


async def test_only_types_in_range_are_suggested(queue: Queue) -> None:
    for types, says in ((None, "Did you mean mail?"), ({"mial"}, "Declare it first: PUT /types/mial.")):
        with pytest.raises(ValidationFailed) as told:
            await queue.enqueue(principal("jobs:enqueue", types=types), EnqueueRequest(type="mial"))
        assert told.value.detail.endswith(says)
