"""The count of pending jobs by producer: judged in memory, corrected by the database."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from rota.errors import RateLimited, Unavailable
from rota.services import backlog
from rota.services.backlog import Backlog


class Database:
    """Answers counts, and notes what it was asked for."""

    def __init__(self) -> None:
        self.pending: dict[str, int] = {}
        self.asked: list[int] = []
        self.broken = False

    async def pending_by_producer(self, at_least: int) -> dict[str, int]:
        self.asked.append(at_least)
        await asyncio.sleep(0)
        if self.broken:
            raise Unavailable
        return dict(self.pending) if sum(self.pending.values()) >= at_least else {}


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture(autouse=True)
def recounts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "RECOUNT_SECONDS", 0)


def of(database: Database, most: int) -> Backlog:
    return Backlog(cast("Any", database), most)


async def test_what_was_taken_since_the_count_is_added(database: Database) -> None:
    database.pending = {"a": 4}
    counted = of(database, 10)
    await counted.run_once()
    await counted.require_room("a", 6)
    database.pending = {"a": 10}
    with pytest.raises(RateLimited):
        await counted.require_room("a", 1)
    await counted.require_room("b", 10)


async def test_nobody_is_turned_away_for_what_has_been_claimed_meanwhile(database: Database) -> None:
    counted = of(database, 10)
    await counted.require_room("a", 10)
    database.pending = {"a": 2}
    await counted.require_room("a", 8)


async def test_the_database_is_asked_for_single_producers_only_when_one_may_be_near(
    database: Database,
) -> None:
    counted = of(database, 1_000_000)
    database.pending = {"a": 400_000}
    await counted.run_once()
    await counted.require_room("a", 5_000)
    assert database.asked == [500_000]
    database.pending = {"a": 999_000, "b": 5}
    await counted.run_once()
    await counted.require_room("b", 5_000)
    with pytest.raises(RateLimited):
        await counted.require_room("a", 5_000)


async def test_a_count_that_fails_forgets_nothing(database: Database) -> None:
    counted = of(database, 10)
    await counted.require_room("a", 8)
    database.broken = True
    with pytest.raises(Unavailable):
        await counted.run_once()
    database.broken = False
    database.pending = {"a": 8}
    with pytest.raises(RateLimited):
        await counted.require_room("a", 3)


async def test_a_producer_at_its_limit_costs_at_most_one_count_a_second(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "RECOUNT_SECONDS", 3_600)
    database.pending = {"a": 10}
    counted = of(database, 10)
    await counted.run_once()
    for _ in range(5):
        with pytest.raises(RateLimited):
            await counted.require_room("a", 1)
    assert len(database.asked) == 2
