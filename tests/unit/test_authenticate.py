"""Authentication: who gets in, how fresh that knowledge is, and what guessing costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter

import pytest
import pytest_asyncio

from rota.auth.authenticate import FEW, Authenticator
from rota.auth.tokens import Pepper, new_secret
from rota.clock import FakeClock
from rota.domain.access import Principal
from rota.domain.job import Claim, NewJob
from rota.errors import RateLimited, Unauthenticated, Unavailable
from rota.store.base import Store, TokenRecord
from rota.store.sqlite.reading import SqliteReader
from rota.store.sqlite.store import SqliteStore
from tests.credentials import ACTOR, PEPPER, add_token, grant

HOME = "192.0.2.1"


class Reader(SqliteReader):
    """The store's own reader, which counts reads of tokens and can lose its database."""

    def __init__(self, store: SqliteStore) -> None:
        self.__dict__ = dict(store.reader.__dict__)
        self.single = 0
        self.all = 0
        self.lost = False

    async def token(self, key_id: str) -> TokenRecord | None:
        self.single += 1
        if self.lost:
            raise Unavailable("out of reach")
        return await super().token(key_id)

    async def tokens(self) -> list[TokenRecord]:
        self.all += 1
        if self.lost:
            raise Unavailable("out of reach")
        return await super().tokens()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest_asyncio.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "rota.db", clock)
    store._reader = Reader(store)
    yield store
    await store.close()


@pytest.fixture
def reader(store: SqliteStore) -> Reader:
    assert isinstance(store.reader, Reader)
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
    store: Store, reader: Reader, clock: FakeClock, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:read"))
    await enter(authenticator, header)
    clock.advance(1.001)
    assert authenticator.known(header) is None
    await asyncio.gather(*(authenticator.look_up(header, HOME) for _ in range(50)))
    assert (reader.single, reader.all) == (1, 1)


async def test_unknown_ids_cause_one_reading_a_second(
    reader: Reader, clock: FakeClock, authenticator: Authenticator
) -> None:
    unknown = [b"Bearer " + new_secret(f"{n:012d}").encode() for n in range(100)]
    for header in unknown:
        await refused(authenticator, header)
    assert (reader.single, reader.all) == (0, 1)
    clock.advance(1)
    await asyncio.gather(*(refused(authenticator, header) for header in unknown))
    assert (reader.single, reader.all) == (0, 2)


async def test_a_record_older_than_a_second_that_cannot_be_read_gives_503(
    store: Store, reader: Reader, clock: FakeClock, authenticator: Authenticator
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
    store: Store, reader: Reader, authenticator: Authenticator
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
    store: Store, reader: Reader, clock: FakeClock, authenticator: Authenticator
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


# --- waiting claims -------------------------------------------------------------------------------


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
    store: Store, reader: Reader, clock: FakeClock, authenticator: Authenticator
) -> None:
    _, header = await add_token(store, "a", grant("jobs:work"))
    judge = authenticator.judge(await enter(authenticator, header))
    reader.lost = True
    await add_token(store, "b", grant("jobs:work"))
    clock.advance(1.001)
    await authenticator.run_once()
    assert isinstance(judge(), Unavailable)


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


# --- last use -------------------------------------------------------------------------------------


async def test_last_use_is_written_once_a_minute(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    record, header = await add_token(store, "a", grant("jobs:read"))
    await add_token(store, "b", grant("jobs:read"))
    await enter(authenticator, header)
    used_at = clock.now()
    clock.advance(59)
    await authenticator.run_once()
    assert await last_use(store, record.key_id) is None
    clock.advance(1)
    await authenticator.run_once()
    assert await last_use(store, record.key_id) == used_at
    assert [each.last_used_at for each in await store.reader.tokens() if each.name == "b"] == [None]


async def test_a_refused_attempt_is_no_use(
    store: Store, clock: FakeClock, authenticator: Authenticator
) -> None:
    record, _ = await add_token(store, "a", grant("jobs:read"))
    await refused(authenticator, f"Bearer {new_secret(record.key_id)}".encode())
    clock.advance(60)
    await authenticator.run_once()
    assert await last_use(store, record.key_id) is None


async def last_use(store: Store, key_id: str) -> int | None:
    record = await store.reader.token(key_id)
    assert record is not None
    return record.last_used_at
