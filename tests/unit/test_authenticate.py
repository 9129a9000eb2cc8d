"""Authentication: who gets in, how fresh that knowledge is, and what guessing costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter

import pytest
import pytest_asyncio

from rota.auth.authenticate import Authenticator
from rota.auth.tokens import Pepper, new_secret
from rota.clock import FakeClock
from rota.domain.access import Principal
from rota.errors import RateLimited, Unauthenticated, Unavailable
from rota.store.base import Store, TokenRecord
from rota.store.sqlite.store import SqliteStore
from tests.credentials import ACTOR, PEPPER, add_token, grant
from tests.token_reader import TokenReader

HOME = "192.0.2.1"


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


async def enter(authenticator: Authenticator, header: bytes | None, address: str = HOME) -> Principal:
    """As the front does it: the quick way, else the other."""
    return authenticator.known(header) or await authenticator.look_up(header, address)


async def refused(authenticator: Authenticator, header: bytes | None, address: str = HOME) -> Unauthenticated:
    assert authenticator.known(header) is None
    with pytest.raises(Unauthenticated) as raised:
        await authenticator.look_up(header, address)
    return raised.value


async def test_a_valid_token_gives_its_principal(store: Store, authenticator: Authenticator) -> None:
    rights = grant("jobs:work", types=["mail"])
    record, header = await add_token(store, "worker-1", rights, rate_limit_per_minute=7)
    found = await enter(authenticator, header)
    assert (found.id, found.name, found.grant) == (record.id, "worker-1", rights)
    assert (found.key_id, found.rate_limit_per_minute) == (record.key_id, 7)
    assert authenticator.known(header) == found


async def test_the_scheme_is_read_in_any_case(store: Store, authenticator: Authenticator) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"))
    assert (await enter(authenticator, header.replace(b"Bearer ", b"bEARER  "))).name == "a"


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic dXNlcjpwYXNz",
        b"Bearer rota_",
        b"Bearer \xff\xfe\x00",
        "Bearer rota_Ä".encode(),
        b"Bearer " + b"x" * 5000,
        b"Bearer rota_" + b"a" * 12 + b"_" + b"\xff" * 43,
        b"Bearer rota_" + b"a" * 12 + b"_" + b"A" * 43,
        b"Bearer rota_" + b"\xc3\xa4" * 6 + b"_" + b"A" * 43,
    ],
)
async def test_whatever_is_no_valid_token_is_a_401(
    authenticator: Authenticator, header: bytes | None
) -> None:
    error = await refused(authenticator, header)
    assert error.headers["WWW-Authenticate"].startswith("Bearer")


async def test_an_empty_token_is_called_so(authenticator: Authenticator) -> None:
    for header in (b"Bearer", b"Bearer ", b"Bearer   "):
        assert "the token is empty" in (await refused(authenticator, header)).detail
    assert "empty" not in (await refused(authenticator, b"Bearer rota_")).detail


async def test_a_wrong_secret_under_a_known_key_id_is_refused(
    store: Store, authenticator: Authenticator
) -> None:
    record, header = await add_token(store, "a", grant("jobs:read"))
    await enter(authenticator, header)
    await refused(authenticator, f"Bearer {new_secret(record.key_id)}".encode())
    await refused(authenticator, header[:-1] + (b"a" if header[-1:] != b"a" else b"b"))
    await refused(authenticator, header + b"a")
    await refused(authenticator, header.replace(b"Bearer ", b"Beerer "))


async def test_a_token_hashed_under_a_foreign_key_is_refused(store: Store, clock: FakeClock) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"))
    await refused(Authenticator(store, Pepper(bytes(range(1, 33))), clock), header)


async def test_a_token_hashed_under_the_previous_key_is_valid(store: Store, clock: FakeClock) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"))
    changed = Authenticator(store, Pepper(bytes(range(1, 33)), bytes(range(32))), clock)
    assert (await enter(changed, header)).name == "a"


async def test_an_expired_token_is_refused_at_its_instant(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"), expires_at=clock.now() + 500)
    await enter(authenticator, header)
    clock.advance(0.499)
    assert authenticator.known(header) is not None
    clock.advance(0.001)
    await refused(authenticator, header)


async def test_a_revoked_token_is_refused_at_once(store: Store, authenticator: Authenticator) -> None:
    record, header = await add_token(store, "a", grant("jobs:read"))
    await enter(authenticator, header)
    await store.revoke_token(record.key_id, ACTOR, lambda _: None)
    await refused(authenticator, header)


async def test_a_revocation_by_another_process_is_seen_within_a_second(
    tmp_path: Path, store: SqliteStore, clock: FakeClock, authenticator: Authenticator
) -> None:
    record, header = await add_token(store, "a", grant("jobs:read"))
    await enter(authenticator, header)
    other = await SqliteStore.open(tmp_path / "rota.db", clock)
    await other.revoke_token(record.key_id, ACTOR, lambda _: None)
    await other.close()
    clock.advance(1.001)
    await refused(authenticator, header)


async def test_a_token_of_another_process_is_known_within_a_second(
    tmp_path: Path, store: SqliteStore, clock: FakeClock, authenticator: Authenticator
) -> None:
    await refused(authenticator, b"Bearer " + new_secret("a" * 12).encode())
    other = await SqliteStore.open(tmp_path / "rota.db", clock)
    _, header = await add_token(other, "late", grant("jobs:read"))
    await other.close()
    clock.advance(1)
    assert (await enter(authenticator, header)).name == "late"


async def test_both_secrets_work_during_the_grace_of_a_rotation(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    record, old = await add_token(store, "a", grant("jobs:read"))
    token = new_secret(record.key_id)
    await store.rotate_token(record.key_id, PEPPER.hash(token), PEPPER.key_id, 60, ACTOR, lambda _: None)
    new = f"Bearer {token}".encode()
    assert (await enter(authenticator, old)).id == (await enter(authenticator, new)).id == record.id
    clock.advance(60)
    await refused(authenticator, old)
    await enter(authenticator, new)


async def test_without_grace_the_old_secret_ends_with_the_rotation(
    store: Store, authenticator: Authenticator
) -> None:
    record, old = await add_token(store, "a", grant("jobs:read"))
    await enter(authenticator, old)
    token = new_secret(record.key_id)
    await store.rotate_token(record.key_id, PEPPER.hash(token), PEPPER.key_id, 0, ACTOR, lambda _: None)
    await refused(authenticator, old)


# --- what is read, and when -----------------------------------------------------------------------


async def test_a_known_token_is_read_once_a_second_by_however_many_requests(
    store: Store, reader: TokenReader, clock: FakeClock, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"))
    await enter(authenticator, header)
    clock.advance(1.001)
    assert authenticator.known(header) is None
    await asyncio.gather(*(authenticator.look_up(header, HOME) for _ in range(50)))
    assert (reader.single, reader.all) == (1, 1)


async def test_unknown_ids_cause_one_reading_a_second(
    reader: TokenReader, clock: FakeClock, authenticator: Authenticator
) -> None:
    unknown = [b"Bearer " + new_secret(f"{n:012d}").encode() for n in range(100)]
    for header in unknown:
        await refused(authenticator, header)
    assert (reader.single, reader.all) == (0, 1)
    clock.advance(1)
    await asyncio.gather(*(refused(authenticator, header) for header in unknown))
    assert (reader.single, reader.all) == (0, 2)


async def test_a_record_older_than_a_second_that_cannot_be_read_gives_503(
    store: Store, reader: TokenReader, clock: FakeClock, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"))
    await enter(authenticator, header)
    reader.lost = True
    assert (await enter(authenticator, header)).name == "a"
    clock.advance(1.001)
    assert authenticator.known(header) is None
    with pytest.raises(Unavailable):
        await authenticator.look_up(header, HOME)
    reader.lost = False
    assert (await enter(authenticator, header)).name == "a"


async def test_unknown_ids_get_503_rather_than_401_while_tokens_cannot_be_read(
    store: Store, reader: TokenReader, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"))
    reader.lost = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            await authenticator.look_up(header, HOME)
    assert reader.all == 1


async def test_a_caller_that_gives_up_leaves_the_reading_to_others(
    store: Store, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"))
    first = asyncio.create_task(authenticator.look_up(header, HOME))
    second = asyncio.create_task(authenticator.look_up(header, HOME))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).name == "a"


async def test_a_reading_overtaken_by_a_change_of_our_own_is_done_again(
    store: Store, reader: TokenReader, clock: FakeClock, authenticator: Authenticator
) -> None:
    record, header = await add_token(store, "a", grant("jobs:read"))
    await enter(authenticator, header)
    clock.advance(1.001)
    old = await store.reader.token(record.key_id)
    assert old is not None
    answers = iter([old])
    really = reader.token

    async def late(key_id: str) -> TokenRecord | None:
        """The first answer is from before the revocation and arrives after it."""
        for answer in answers:
            revoked = await store.revoke_token(key_id, ACTOR, lambda _: None)
            authenticator.learn(revoked)
            return answer
        return await really(key_id)

    reader.token = late  # type: ignore[method-assign]
    await refused(authenticator, header)


@pytest.mark.alone
async def test_a_known_token_takes_less_than_5_microseconds(
    store: Store, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"))
    await enter(authenticator, header)
    rounds = []
    for _ in range(20):
        began = perf_counter()
        for _ in range(1000):
            authenticator.known(header)
        rounds.append((perf_counter() - began) / 1000)
    assert authenticator.known(header) is not None
    assert min(rounds) < 5e-6


# --- guessing -------------------------------------------------------------------------------------


async def test_the_301st_failure_of_a_minute_is_429_and_valid_tokens_still_enter(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"))
    for _ in range(300):
        await refused(authenticator, None)
    with pytest.raises(RateLimited) as raised:
        await authenticator.look_up(b"Bearer " + new_secret("b" * 12).encode(), HOME)
    assert 0 < (raised.value.retry_after or 0) <= 60
    assert (await enter(authenticator, header)).name == "a"
    await refused(authenticator, None, address="192.0.2.2")
    clock.advance(60)
    await refused(authenticator, None)


async def test_an_ipv6_network_of_64_bits_counts_as_one_address(authenticator: Authenticator) -> None:
    for n in range(300):
        await refused(authenticator, None, address=f"2001:db8:1:2::{n:x}")
    with pytest.raises(RateLimited):
        await authenticator.look_up(None, "2001:db8:1:2:ffff::1")
    await refused(authenticator, None, address="2001:db8:1:3::1")


async def test_an_ipv4_address_counts_the_same_when_it_comes_mapped(authenticator: Authenticator) -> None:
    for _ in range(300):
        await refused(authenticator, None, address="::ffff:192.0.2.1")
    with pytest.raises(RateLimited):
        await authenticator.look_up(None, HOME)
    await refused(authenticator, None, address="::ffff:192.0.2.2")


# --- last use -------------------------------------------------------------------------------------


async def test_last_uses_are_recorded_together_and_not_while_answering(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    record, header = await add_token(store, "a", grant("jobs:read"))
    await add_token(store, "b", grant("jobs:read"))
    await enter(authenticator, header)
    used_at = clock.now()
    clock.advance(59)
    assert await last_use(store, record.key_id) is None
    await authenticator.record_uses()
    assert await last_use(store, record.key_id) == used_at
    assert [each.last_used_at for each in await store.reader.tokens() if each.name == "b"] == [None]


async def test_a_refused_attempt_is_no_use(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    record, _ = await add_token(store, "a", grant("jobs:read"))
    await refused(authenticator, f"Bearer {new_secret(record.key_id)}".encode())
    await authenticator.record_uses()
    assert await last_use(store, record.key_id) is None


async def last_use(store: Store, key_id: str) -> int | None:
    record = await store.reader.token(key_id)
    assert record is not None
    return record.last_used_at
