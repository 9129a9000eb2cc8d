"""Tokens of claims that wait: judged again and again, by what is known without reading."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from rota.auth.authenticate import FEW, Authenticator, RecordOverdue
from rota.auth.tokens import new_secret
from rota.clock import FakeClock
from rota.domain.access import Principal
from rota.domain.job import Claim, NewJob
from rota.errors import Unauthenticated, Unavailable
from rota.services.backlog import Backlog
from rota.services.disk import Disk
from rota.services.endings import Endings
from rota.services.queue import Queue
from rota.services.types import Types
from rota.store.base import Store
from rota.store.sqlite.store import SqliteStore
from rota.wire import ClaimRequest
from tests.credentials import ACTOR, PEPPER, add_token, grant
from tests.token_reader import TokenReader


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest_asyncio.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "rota.db", clock)
    store._reader = TokenReader(store)
    yield store
    await store.close()


@pytest.fixture
def reader(store: SqliteStore) -> TokenReader:
    assert isinstance(store.reader, TokenReader)
    return store.reader


@pytest.fixture
def authenticator(store: SqliteStore, clock: FakeClock) -> Authenticator:
    return Authenticator(store, PEPPER, clock)


async def enter(authenticator: Authenticator, header: bytes) -> Principal:
    return await authenticator.look_up(header, "192.0.2.1")


async def test_a_judge_refuses_what_expired_or_was_revoked_meanwhile(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    _, expiring = await add_token(store, "a", grant("jobs:work"), expires_at=clock.now() + 500)
    record, revoked = await add_token(store, "b", grant("jobs:work"))
    judges = [authenticator.judge(await enter(authenticator, each)) for each in (expiring, revoked)]
    assert [judge() for judge in judges] == [None, None]
    clock.advance(0.5)
    authenticator.learn(await store.revoke_token(record.key_id, ACTOR, lambda _: None))
    assert [type(judge()) for judge in judges] == [Unauthenticated, Unauthenticated]


async def test_a_rotation_without_grace_ends_what_the_old_secret_began(
    store: Store, authenticator: Authenticator
) -> None:
    record, header = await add_token(store, "a", grant("jobs:work"))
    judge = authenticator.judge(await enter(authenticator, header))
    token = new_secret(record.key_id)
    rotated = await store.rotate_token(
        record.key_id, PEPPER.hash(token), PEPPER.key_id, 0, ACTOR, lambda _: None
    )
    authenticator.learn(rotated)
    assert isinstance(judge(), Unauthenticated)
    assert authenticator.judge(await enter(authenticator, f"Bearer {token}".encode()))() is None


async def test_a_rotation_with_grace_lets_the_old_secret_wait_until_its_end(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    record, header = await add_token(store, "a", grant("jobs:work"))
    judge = authenticator.judge(await enter(authenticator, header))
    token = new_secret(record.key_id)
    rotated = await store.rotate_token(
        record.key_id, PEPPER.hash(token), PEPPER.key_id, 0.5, ACTOR, lambda _: None
    )
    authenticator.learn(rotated)
    assert judge() is None
    clock.advance(0.5)
    assert isinstance(judge(), Unauthenticated)


@pytest.mark.parametrize("tokens", [1, FEW + 1])
async def test_a_waiting_claim_of_a_token_revoked_elsewhere_ends_within_a_second(
    tmp_path: Path, store: SqliteStore, clock: FakeClock, authenticator: Authenticator, tokens: int
) -> None:
    made = [await add_token(store, f"a{n}", grant("jobs:work")) for n in range(tokens)]
    judges = [authenticator.judge(await enter(authenticator, header)) for _, header in made]
    other = await SqliteStore.open(tmp_path / "rota.db", clock)
    await other.revoke_token(made[0][0].key_id, ACTOR, lambda _: None)
    await other.close()
    clock.advance(0.5)
    await authenticator.run_once()
    assert [type(judge()) for judge in judges] == [Unauthenticated] + [type(None)] * (tokens - 1)


async def test_a_waiting_claim_outlives_a_change_of_other_things(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:work"))
    judge = authenticator.judge(await enter(authenticator, header))
    await add_token(store, "b", grant("jobs:work"))
    assert judge() is None


async def test_a_waiting_claim_ends_with_503_when_its_token_can_no_longer_be_checked(
    store: Store, reader: TokenReader, clock: FakeClock, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:work"))
    judge = authenticator.judge(await enter(authenticator, header))
    reader.lost = True
    await add_token(store, "b", grant("jobs:work"))
    clock.advance(1.001)
    await authenticator.run_once()
    assert type(judge()) is Unavailable


async def test_a_waiting_claim_whose_token_was_not_read_again_in_time_is_no_failure(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:work"))
    judge = authenticator.judge(await enter(authenticator, header))
    await add_token(store, "b", grant("jobs:work"))
    clock.advance(1.001)
    assert isinstance(judge(), RecordOverdue)
    await authenticator.run_once()
    assert judge() is None


async def test_a_claim_whose_token_is_overdue_ends_empty(store: SqliteStore, clock: FakeClock) -> None:
    types = Types(store, clock)
    queue = Queue(
        store, types, clock, Disk(Path("/"), 0), Endings(store.reader), Backlog(store.reader, 1_000_000)
    )
    record, _ = await add_token(store, "a", grant("jobs:work"))
    who = Principal(id=record.id, name="a", grant=record.grant)
    await store.enqueue([NewJob("default", "mail", 0, "tok_p", b"{}", 3, bytes(16))])
    assert await queue.claim(who, ClaimRequest(wait_seconds=5), judge=RecordOverdue) == []


async def test_a_revoked_tokens_own_waiting_claim_does_not_get_its_jobs_back(
    store: SqliteStore, authenticator: Authenticator
) -> None:
    record, header = await add_token(store, "a", grant("jobs:work"))
    job = NewJob("default", "mail", 0, "tok_p", b"{}", 3, bytes(16))
    await store.enqueue([job])
    who = await enter(authenticator, header)
    (held,) = await store.claim(Claim(record.id, "a", 1))
    waiting = asyncio.create_task(
        store.claim(Claim(record.id, "a", 1), wait_seconds=5, judge=authenticator.judge(who))
    )
    while not store._batcher._parked:  # noqa: ASYNC110 - the batcher tells nobody that a claim is parked
        await asyncio.sleep(0)
    authenticator.learn(await store.revoke_token(record.key_id, ACTOR, lambda _: None))
    with pytest.raises(Unauthenticated):
        await waiting
    (again,) = await store.claim(Claim("tok_other", "b", 1))
    assert again.id == held.id
