"""Texts made to be expensive to clean: whoever sends them holds up nobody but themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Self

import pytest
import pytest_asyncio

from rota.clock import FakeClock
from rota.domain.job import MAX_ERROR_BYTES, MAX_LOG_BYTES, Beat, Claim, Finish, Job, NewJob, Progress
from rota.domain.redaction import CUT, clean, window
from rota.services import cleaning
from rota.services.cleaning import BREATH, MAX_CLEANED, SHORT, SMALL, Cleaner
from rota.store.sqlite.store import SqliteStore

HOSTILE = ["\u202e", "\n", "password=hunter2 /etc/x Bearer abc ", "--token ", "http://a:b@c/d ", "[secret]"]
OWNER = "tok_worker"
NOBODYS = bytes(16)
ERROR = (HOSTILE[2] * 500)[:15_000]
LOG = ("--token " * 8_000)[:57_000]


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "rota.db", FakeClock())
    yield store
    await store.close()


@pytest.fixture
def cleaner(store: SqliteStore) -> Cleaner:
    return Cleaner(store.reader)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of each text that is cleaned, as it goes."""
    lengths: list[int] = []

    def counted(real: Callable[[str, int], object]) -> Callable[[str, int], object]:
        def call(text: str, limit: int) -> object:
            if text != CUT:
                lengths.append(min(len(text), window(limit)))
            return real(text, limit)

        return call

    for name in ("clean", "cleaning"):
        monkeypatch.setattr(cleaning, name, counted(getattr(cleaning, name)))
    return lengths


async def hold(store: SqliteStore, count: int = 1) -> list[Job]:
    jobs = [NewJob("default", "mail", 0, "tok_p", b"{}", 3, bytes([n]) * 16) for n in range(count)]
    await store.enqueue(jobs)
    return await store.claim(Claim(OWNER, "worker", count))


def failure(job: Job | None, error: str) -> Finish:
    if job is None or job.lease_token is None:
        return Finish(1, OWNER, NOBODYS, "fail", error=error)
    return Finish(job.id, OWNER, job.lease_token, "fail", error=error)


class Turns:
    """Counts how often the loop goes round, beside what is measured."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()


async def test_a_thousand_failures_of_unheld_jobs_clean_nothing(
    store: SqliteStore, cleaner: Cleaner, looked_at: list[int]
) -> None:
    (job,) = await hold(store)
    attack = [failure(None, ERROR) for _ in range(1_000)]
    stolen = Finish(job.id, "tok_other", failure(job, "").lease_token, "fail", error=ERROR)
    guessed = Finish(job.id, OWNER, NOBODYS, "fail", error=ERROR)
    await cleaner.clean([*attack, stolen, guessed])
    assert looked_at == []
    assert {each.error for each in (*attack, stolen, guessed)} == {CUT}
    refused = await store.finish(attack[:3], answer=False)
    assert all(isinstance(each, Exception) for each in refused)


async def test_heartbeats_with_logs_for_unheld_jobs_clean_nothing(
    cleaner: Cleaner, looked_at: list[int]
) -> None:
    await cleaner.clean(
        [Beat(n, OWNER, NOBODYS, progress=Progress(message=ERROR), log=LOG) for n in range(17)]
    )
    assert looked_at == []


async def test_a_held_job_named_a_thousand_times_has_so_much_cleaned_and_no_more(
    store: SqliteStore, cleaner: Cleaner, looked_at: list[int]
) -> None:
    (job,) = await hold(store)
    attack = [failure(job, ERROR) for _ in range(1_000)]
    await cleaner.clean(attack)
    whole = [size for size in looked_at if size > SHORT]
    assert len(looked_at) == 1_000
    assert sum(whole) <= MAX_CLEANED < sum(whole) + len(ERROR)
    for each in attack:
        assert each.error is not None
        assert "hunter2" not in each.error
        assert each.error.endswith(CUT)
    assert len((attack[-1].error or "").encode()) <= SHORT + 8


@pytest.mark.parametrize("shape", HOSTILE)
async def test_other_requests_get_their_turn_many_times_within_one_text(
    store: SqliteStore, cleaner: Cleaner, shape: str
) -> None:
    (job,) = await hold(store)
    ending = failure(job, (shape * 15_000)[:15_000])
    async with Turns() as turns:
        await cleaner.clean([ending])
        assert turns.count >= 20
    assert ending.error == clean((shape * 15_000)[:15_000], MAX_ERROR_BYTES)


async def test_other_requests_get_their_turn_between_small_texts(
    store: SqliteStore, cleaner: Cleaner
) -> None:
    jobs = await hold(store, 100)
    async with Turns() as turns:
        await cleaner.clean([failure(job, "x" * (BREATH // 2)) for job in jobs])
        assert turns.count >= 30


async def test_requests_take_turns_text_by_text(
    store: SqliteStore, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def held(leases: Sequence[object]) -> list[bool]:
        return [True] * len(leases)

    monkeypatch.setattr(store.reader, "held", held)  # asked by threads, either request might be first
    first, second = await hold(store, 2)
    attack = [failure(first, ERROR) for _ in range(12)]
    honest = failure(second, ERROR)
    attacking = asyncio.create_task(cleaner.clean(attack))
    await asyncio.sleep(0)
    await cleaner.clean([honest])
    assert not attacking.done()
    assert any(each.error == ERROR for each in attack)
    await attacking


async def test_a_usual_error_is_cleaned_on_the_spot(store: SqliteStore, cleaner: Cleaner) -> None:
    ending = failure(None, "password=hunter2 is wrong".ljust(SMALL))
    async with Turns() as turns:
        await cleaner.clean([ending])
        assert turns.count == 0
    assert ending.error is not None
    assert ending.error.startswith("password=[secret] is wrong")


async def test_every_text_of_a_large_heartbeat_is_cleaned(store: SqliteStore, cleaner: Cleaner) -> None:
    (job,) = await hold(store)
    assert job.lease_token is not None
    beat = Beat(job.id, OWNER, job.lease_token, progress=Progress(1, 2, "pw=hunter2 x"), log=LOG)
    await cleaner.clean([beat])
    assert beat.progress == Progress(1, 2, "pw=[secret] x")
    assert beat.log == clean(LOG, MAX_LOG_BYTES)


@pytest.mark.parametrize("shape", HOSTILE)
def test_hostile_text_costs_no_more_than_some_times_plain_text(shape: str) -> None:
    def cost(shape: str) -> float:
        text = (shape * 8_192)[:8_192]
        costs = []
        for _ in range(5):
            began = time.process_time()
            clean(text, MAX_ERROR_BYTES)
            costs.append(time.process_time() - began)
        return min(costs)

    assert cost(shape) < 60 * max(cost("could not connect to the host "), 0.0002)
