"""Types and tokens as the store keeps them."""

from __future__ import annotations

import asyncio

import pytest

from rota.clock import FakeClock
from rota.domain.access import Grant, Scope
from rota.domain.retry import Backoff
from rota.errors import Conflict, NameTaken, NotFound, StartError
from rota.store.base import JobType, Store, TokenRecord
from tests.contract.conftest import Place
from tests.contract.factories import ACTOR, agree, put_type, token


def refuse(_: object) -> None:
    raise Conflict("no")


async def by_key(store: Store, key_id: str) -> TokenRecord:
    record = await store.reader.token(key_id)
    assert record is not None
    return record


async def test_a_type_is_new_once_and_then_replaced_whole(store: Store, clock: FakeClock) -> None:
    wanted = JobType(
        name="mail",
        description="sends",
        queue="q",
        default_priority=20,
        max_retries=7,
        backoff=Backoff("fixed", 5, jitter=0.5),
        lease_seconds=2.5,
        timeout_seconds=9,
        max_payload_bytes=100,
        paused=True,
    )
    first, new = await store.put_type(wanted, ACTOR, refuse)  # nothing is replaced, so nobody is asked
    assert new
    clock.advance(1)
    second, new_again = await store.put_type(JobType(name="mail"), ACTOR, agree)
    assert not new_again
    assert (first.created_at, second.created_at, second.updated_at) == (
        clock.now() - 1_000,
        clock.now() - 1_000,
        clock.now(),
    )
    assert (first.backoff, first.timeout_seconds, first.paused) == (wanted.backoff, 9, True)
    assert (second.description, second.timeout_seconds, second.paused) == ("", None, False)
    assert second in await store.reader.types()


async def test_types_are_listed_by_name_without_deleted_ones(store: Store) -> None:
    for name in ("b", "z", "a"):
        await put_type(store, name)
    await store.delete_type("z", ACTOR, agree)
    assert [kind.name for kind in await store.reader.types()] == ["a", "b", "work"]
    for gone in ("z", "unknown"):
        with pytest.raises(NotFound):
            await store.delete_type(gone, ACTOR, agree)
        with pytest.raises(NotFound):
            await store.pause_type(gone, True, ACTOR, agree)
    _, new = await store.put_type(JobType(name="z"), ACTOR, refuse)
    assert new


async def test_a_judge_of_a_type_sees_what_is_stored_and_its_refusal_keeps_it(store: Store) -> None:
    before = await store.reader.types()
    with pytest.raises(Conflict):
        await store.put_type(JobType(name="work", paused=True), ACTOR, refuse)
    with pytest.raises(Conflict):
        await store.delete_type("work", ACTOR, refuse)
    with pytest.raises(Conflict):
        await store.pause_type("work", True, ACTOR, refuse)
    assert await store.reader.types() == before
    seen: list[JobType] = []
    await store.delete_type("work", ACTOR, seen.append)
    assert seen == before


async def test_a_change_of_types_or_tokens_raises_the_version(store: Store) -> None:
    before = store.reader.types_version()
    await put_type(store, "other")
    between = store.reader.types_version()
    await store.add_token(token(), ACTOR)
    assert before < between < store.reader.types_version()


async def test_a_token_is_kept_as_it_was_given(store: Store, clock: FakeClock) -> None:
    grant = Grant(
        scopes=frozenset({Scope.JOBS_READ, Scope.JOBS_WORK}),
        max_priority=20,
        types=frozenset({"a"}),
        queues=frozenset(),
        open_api_only=True,
    )
    given = token(grant=grant, rate_limit_per_minute=9, expires_at=5, created_by="t-admin")
    added = await store.add_token(given, ACTOR)
    assert added == await by_key(store, "k-worker")
    assert (added.grant, added.hash, added.created_at) == (grant, b"hash", clock.now())
    assert (added.rate_limit_per_minute, added.expires_at, added.created_by) == (9, 5, "t-admin")
    assert await store.reader.token("k-unknown") is None


async def test_of_many_tokens_with_one_name_the_first_is_kept_for_ever(store: Store) -> None:
    asked = [token("same", id=f"t-{n}", key_id=f"k-{n}") for n in range(10)]
    answers = await asyncio.gather(*(store.add_token(each, ACTOR) for each in asked), return_exceptions=True)
    assert sum(isinstance(answer, NameTaken) for answer in answers) == 9
    (kept,) = await store.reader.tokens()
    await store.revoke_token(kept.key_id, ACTOR, agree)
    with pytest.raises(NameTaken):
        await store.add_token(token("same", id="t-x", key_id="k-x"), ACTOR)


async def test_a_rotation_keeps_id_name_and_key_id_and_the_old_secret_for_its_grace(
    store: Store, clock: FakeClock
) -> None:
    await store.add_token(token(), ACTOR)
    rotated = await store.rotate_token("k-worker", b"second", "p2", 60, ACTOR, agree)
    assert (rotated.id, rotated.name, rotated.hash, rotated.pepper_key_id) == (
        "t-worker",
        "worker",
        b"second",
        "p2",
    )
    assert (rotated.previous_hash, rotated.previous_until) == (b"hash", clock.now() + 60_000)
    at_once = await store.rotate_token("k-worker", b"third", "p2", 0, ACTOR, agree)
    assert (at_once.previous_hash, at_once.previous_until) == (None, None)
    with pytest.raises(Conflict):
        await store.rotate_token("k-worker", b"fourth", "p2", 0, ACTOR, refuse)
    assert await by_key(store, "k-worker") == at_once
    with pytest.raises(NotFound):
        await store.rotate_token("k-unknown", b"x", "p2", 0, ACTOR, agree)


async def test_revoking_again_keeps_the_first_instant(store: Store, clock: FakeClock) -> None:
    await store.add_token(token(), ACTOR)
    first = await store.revoke_token("k-worker", ACTOR, agree)
    clock.advance(5)
    assert await store.revoke_token("k-worker", ACTOR, agree) == first
    assert first.revoked_at == clock.now() - 5_000
    with pytest.raises(NotFound):
        await store.revoke_token("k-unknown", ACTOR, agree)


async def test_the_last_use_only_moves_forward(store: Store) -> None:
    await store.add_token(token(), ACTOR)
    await store.touch_tokens({"t-worker": 20, "t-unknown": 30})
    await store.touch_tokens({"t-worker": 10})
    assert (await by_key(store, "k-worker")).last_used_at == 20


async def test_no_more_calls_are_reserved_than_a_minute_allows_over_all_processes(
    store: Store, place: Place
) -> None:
    other = await place.open()
    await store.add_token(token(), ACTOR)
    taken = await asyncio.gather(
        *((store, other)[n % 2].reserve_calls("t-worker", 7, 3, 50) for n in range(30))
    )
    assert sum(taken) == 50
    assert await store.reserve_calls("t-worker", 8, 3, 50) == 3
    assert await store.reserve_calls("t-unknown", 8, 3, 50) == 0


async def test_another_secret_key_is_refused_and_its_successor_taken(store: Store) -> None:
    await store.keep_fingerprint("first", None)
    await store.keep_fingerprint("first", None)
    with pytest.raises(StartError):
        await store.keep_fingerprint("second", None)
    with pytest.raises(StartError):
        await store.keep_fingerprint("second", "other")
    await store.keep_fingerprint("second", "first")
    with pytest.raises(StartError):
        await store.keep_fingerprint("first", None)
