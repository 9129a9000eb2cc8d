"""Health is red when it should be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.clock import FakeClock
from rota.services.disk import Disk
from rota.services.health import Health, is_ready
from rota.store.base import Store
from rota.store.sqlite import writer
from rota.store.sqlite.store import SqliteStore
from tests.contract.factories import held_up


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "rota.db", FakeClock())
    await store.sweep()
    yield store
    await store.close()


def health(store: Store, folder: Path, *, min_free_mb: int = 0) -> Health:
    return Health(store, Disk(folder, min_free_mb))


async def test_all_is_well_with_a_server_that_writes(store: SqliteStore, tmp_path: Path) -> None:
    checks = await health(store, tmp_path).checks()
    assert checks == {"database": "ok", "writer": "ok", "disk": "ok"}
    assert is_ready(checks)


async def test_a_full_disk_is_red(store: SqliteStore, tmp_path: Path) -> None:
    checks = await health(store, tmp_path, min_free_mb=10**9).checks()
    assert checks["disk"] == "low"
    assert not is_ready(checks)


async def test_a_writer_that_hangs_is_red_though_others_still_write(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "HUNG_SECONDS", 0.0)
    async with held_up(store):
        checks = await health(store, tmp_path).checks()
    assert (checks["database"], checks["writer"]) == ("ok", "stopped")
    assert not is_ready(checks)


async def test_a_writer_that_has_ended_is_red(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "rota.db", FakeClock())
    await store.close()
    assert (await health(store, tmp_path).checks())["writer"] == "stopped"
