"""The labels of metrics come from what was declared, and the page stays small."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.clock import FakeClock
from rota.errors import Unavailable
from rota.services.disk import Disk
from rota.services.health import Health
from rota.services.measures import MAX_LANES, Measures
from rota.services.types import Types
from rota.services.waiting import Waiting
from rota.store.sqlite.store import SqliteStore
from tests.contract.factories import new_job, put_type


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "rota.db", FakeClock())
    yield store
    await store.close()


async def measures(store: SqliteStore, folder: Path) -> Measures:
    types = Types(store, FakeClock())
    await types.refresh()
    health = Health(store, Disk(folder, 0))
    return Measures(store.telemetry, store.reader, types, health, Waiting(), FakeClock(), folder / "none")


async def test_lanes_that_nobody_declared_share_one_label(store: SqliteStore, tmp_path: Path) -> None:
    await put_type(store, "work")
    await store.enqueue([new_job(), new_job("stray"), new_job(queue="nowhere"), new_job("stray-2")])
    page = (await (await measures(store, tmp_path)).page()).decode()
    assert 'rota_jobs_total{event="enqueued",queue="default",type="work"} 1.0' in page
    assert 'rota_jobs_total{event="enqueued",queue="other",type="other"} 3.0' in page
    assert 'rota_ready_jobs{queue="other",type="other"} 3.0' in page
    assert "stray" not in page
    assert "nowhere" not in page


async def test_no_number_of_declared_lanes_makes_the_page_endless(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_LANES == 1_000
    monkeypatch.setattr("rota.services.measures.MAX_LANES", 2)
    for name in ("a", "b", "c", "d"):
        await put_type(store, name)
        await store.enqueue([new_job(name)])
    page = (await (await measures(store, tmp_path)).page()).decode()
    lanes = [line for line in page.splitlines() if line.startswith("rota_jobs_total{")]
    assert len(lanes) == 3
    assert sum(float(line.rpartition(" ")[2]) for line in lanes) == 4


async def test_lanes_that_take_too_long_to_count_are_left_out(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*_: object) -> None:
        raise Unavailable("the search took too long")

    await put_type(store, "work")
    await store.enqueue([new_job()])
    monkeypatch.setattr(store.reader, "count_lanes", slow)
    page = (await (await measures(store, tmp_path)).page()).decode()
    assert "rota_ready_jobs{" not in page
    assert "rota_jobs_total{" in page
