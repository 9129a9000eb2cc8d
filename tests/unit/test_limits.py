"""Rate limits: a minute's budget of a token holds over all nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

from rota.clock import FakeClock
from rota.domain.access import Principal
from rota.errors import RateLimited, Unavailable
from rota.services.limits import Limits
from rota.store.sqlite.store import SqliteStore
from tests.credentials import add_token, grant, principal

MINUTE = 29_666_667 * 60_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(MINUTE)


@pytest_asyncio.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "rota.db", clock)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def limited(store: SqliteStore) -> Principal:
    record, _ = await add_token(store, "limited", grant("jobs:read"))
    return replace(principal("jobs:read"), id=record.id, rate_limit_per_minute=100)


async def charge(limits: Limits, who: Principal, units: int = 1) -> None:
    waiting = limits.charge(who, units)
    if waiting is not None:
        await waiting


async def allowed(limits: Limits, who: Principal, tries: int) -> int:
    """How many of so many single calls are allowed."""
    passed = 0
    for _ in range(tries):
        try:
            await charge(limits, who)
        except RateLimited:
            continue
        passed += 1
    return passed


async def test_exactly_the_limit_passes_in_a_minute(
    store: SqliteStore, clock: FakeClock, limited: Principal
) -> None:
    limits = Limits(store, clock)
    clock.advance(50)
    assert await allowed(limits, limited, 150) == 100
    with pytest.raises(RateLimited) as raised:
        limits.charge(limited)
    assert raised.value.retry_after == 10
    clock.advance(10)
    assert await allowed(limits, limited, 150) == 100


async def test_the_limit_holds_over_two_nodes(
    store: SqliteStore, clock: FakeClock, limited: Principal
) -> None:
    one, two = Limits(store, clock), Limits(store, clock)
    passed = 0
    for _ in range(80):
        passed += await allowed(one, limited, 1) + await allowed(two, limited, 1)
    assert passed == 100


async def test_concurrent_calls_never_pass_the_limit(
    store: SqliteStore, clock: FakeClock, limited: Principal
) -> None:
    nodes = [Limits(store, clock) for _ in range(3)]
    passed = await asyncio.gather(*(allowed(node, limited, 25) for node in nodes for _ in range(3)))
    assert sum(passed) == 100


async def test_a_block_serves_the_calls_that_follow_without_the_store(
    store: SqliteStore, clock: FakeClock, limited: Principal
) -> None:
    limits = Limits(store, clock)
    await charge(limits, limited)
    before = store.commits
    assert limits.charge(limited) is None
    assert store.commits == before


async def test_a_token_without_a_limit_costs_nothing(store: SqliteStore, clock: FakeClock) -> None:
    before = store.commits
    limits = Limits(store, clock)
    assert all(limits.charge(principal("jobs:read"), 5_000) is None for _ in range(1_000))
    assert store.commits == before


async def test_an_exhausted_budget_asks_the_store_no_more(
    store: SqliteStore, clock: FakeClock, limited: Principal
) -> None:
    limits = Limits(store, clock)
    await charge(limits, limited, 100)
    await allowed(limits, limited, 1)
    before = store.commits
    assert await allowed(limits, limited, 50) == 0
    assert store.commits == before


async def test_a_batch_is_charged_as_a_whole_or_not_at_all(
    store: SqliteStore, clock: FakeClock, limited: Principal
) -> None:
    limits = Limits(store, clock)
    await charge(limits, limited, 60)
    with pytest.raises(RateLimited):
        await charge(limits, limited, 41)
    assert await allowed(limits, limited, 50) == 40


async def test_a_batch_above_the_limit_never_passes_and_takes_nothing(
    store: SqliteStore, clock: FakeClock, limited: Principal
) -> None:
    limits = Limits(store, clock)
    with pytest.raises(RateLimited):
        limits.charge(limited, 101)
    await charge(limits, limited, 100)


async def test_budgets_of_tokens_are_apart(store: SqliteStore, clock: FakeClock, limited: Principal) -> None:
    record, _ = await add_token(store, "other", grant("jobs:read"))
    limits = Limits(store, clock)
    await charge(limits, limited, 100)
    await charge(limits, replace(limited, id=record.id), 100)


async def test_a_node_whose_clock_is_behind_takes_from_the_present_minute(
    store: SqliteStore, clock: FakeClock, limited: Principal
) -> None:
    await charge(Limits(store, FakeClock(MINUTE + 60_000)), limited, 70)
    assert await allowed(Limits(store, clock), limited, 50) == 30


async def test_where_the_store_cannot_decide_the_answer_is_503(
    store: SqliteStore, clock: FakeClock, limited: Principal
) -> None:
    await store.close()
    with pytest.raises(Unavailable):
        await charge(Limits(store, clock), limited)
