"""The admin token: one, however many nodes start together, and never stored without its file."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from rota.auth.authenticate import Authenticator
from rota.clock import FakeClock
from rota.domain.access import ALL_SCOPES, Actor
from rota.host import ADMIN_FILE
from rota.services.admin_token import ensure_admin_token
from rota.store.base import TokenRecord
from rota.store.sqlite.store import SqliteStore
from tests.credentials import PEPPER


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(0o700)
    return folder


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "rota.db", FakeClock())
    yield store
    await store.close()


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


async def opens_the_door(store: SqliteStore, folder: Path) -> bool:
    header = b"Bearer " + (folder / ADMIN_FILE).read_bytes().strip()
    found = await Authenticator(store, PEPPER, FakeClock()).look_up(header, "192.0.2.1")
    return found.grant.scopes == ALL_SCOPES and found.grant.max_priority == 30


async def test_the_first_start_makes_a_private_file_that_opens_the_door(
    store: SqliteStore, folder: Path
) -> None:
    await ensure_admin_token(store, PEPPER, folder)
    assert await opens_the_door(store, folder)
    assert stat.S_IMODE((folder / ADMIN_FILE).stat().st_mode) == 0o600
    assert names(folder) == [ADMIN_FILE]


async def test_a_later_start_changes_nothing_and_brings_no_deleted_file_back(
    store: SqliteStore, folder: Path
) -> None:
    await ensure_admin_token(store, PEPPER, folder)
    (folder / ADMIN_FILE).unlink()
    await ensure_admin_token(store, PEPPER, folder)
    assert names(folder) == []
    assert len(await store.reader.tokens()) == 1


async def test_nodes_that_start_together_make_one_token_with_its_file(
    tmp_path: Path, store: SqliteStore, folder: Path
) -> None:
    nodes = [store] + [await SqliteStore.open(tmp_path / "rota.db", FakeClock()) for _ in range(3)]
    await asyncio.gather(*(ensure_admin_token(node, PEPPER, folder) for node in nodes * 3))
    assert len(await store.reader.tokens()) == 1
    assert await opens_the_door(store, folder)
    assert names(folder) == [ADMIN_FILE]
    for node in nodes[1:]:
        await node.close()


class Dying(SqliteStore):
    """A node that dies beside its insert."""

    stored = False

    async def add_token(self, record: TokenRecord, actor: Actor) -> TokenRecord:
        if self.stored:
            await super().add_token(record, actor)
        raise asyncio.CancelledError


@pytest.mark.parametrize("stored", [True, False])
async def test_a_start_that_died_beside_the_insert_is_finished_by_the_next(
    tmp_path: Path, store: SqliteStore, folder: Path, stored: bool
) -> None:
    dying = await Dying.open(tmp_path / "rota.db", FakeClock())
    assert isinstance(dying, Dying)
    dying.stored = stored
    with pytest.raises(asyncio.CancelledError):
        await ensure_admin_token(dying, PEPPER, folder)
    await dying.close()
    (left,) = names(folder)
    assert left != ADMIN_FILE
    secret = (folder / left).read_bytes()
    await ensure_admin_token(store, PEPPER, folder)
    assert await opens_the_door(store, folder)
    assert (secret == (folder / ADMIN_FILE).read_bytes()) is stored
    assert names(folder) == [ADMIN_FILE]
