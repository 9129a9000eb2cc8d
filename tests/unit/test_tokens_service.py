"""The tokens service: nobody grants what they lack, and what was granted can be taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from rota.auth.authenticate import Authenticator
from rota.auth.tokens import key_id_of
from rota.clock import FakeClock
from rota.domain.access import ALL_SCOPES, PRESETS, Grant, Principal
from rota.domain.job import Claim, NewJob
from rota.errors import (
    Conflict,
    Forbidden,
    NameTaken,
    NotFound,
    StartError,
    Unauthenticated,
    ValidationFailed,
)
from rota.services.tokens import Tokens
from rota.store.sqlite.store import SqliteStore
from rota.wire import NewTokenAnswer, TokenRequest, instant
from tests.credentials import ACTOR, PEPPER, principal

ADMIN = Principal(id="tok_admin", name="admin", grant=Grant(scopes=ALL_SCOPES, max_priority=30))
LIMITED = principal(*("jobs:read", "jobs:enqueue", "tokens:manage"), types=["mail", "print"], max_priority=10)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest_asyncio.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "rota.db", clock)
    yield store
    await store.close()


@pytest.fixture
def authenticator(store: SqliteStore, clock: FakeClock) -> Authenticator:
    return Authenticator(store, PEPPER, clock)


@pytest.fixture
def tokens(store: SqliteStore, clock: FakeClock, authenticator: Authenticator) -> Tokens:
    return Tokens(store, PEPPER, clock, authenticator)


def limited(clock: FakeClock, seconds: float | None, rate: int | None) -> Principal:
    """An administrator whose own token ends, or may make only so many calls a minute."""
    ends = None if seconds is None else clock.now() + round(seconds * 1000)
    return msgspec.structs.replace(ADMIN, expires_at=ends, rate_limit_per_minute=rate)


async def create(tokens: Tokens, who: Principal = ADMIN, name: str = "new", **asked: Any) -> NewTokenAnswer:
    if "scopes" not in asked:
        asked.setdefault("preset", "producer")
    return await tokens.create(who, TokenRequest(name=name, **asked), ACTOR)


async def enter(authenticator: Authenticator, token: str) -> Principal:
    return await authenticator.look_up(f"Bearer {token}".encode(), "192.0.2.1")


# --- creating -------------------------------------------------------------------------------------


async def test_a_created_token_opens_the_door_with_what_was_granted(
    tokens: Tokens, authenticator: Authenticator, clock: FakeClock
) -> None:
    answer = await create(
        tokens,
        scopes=["jobs:enqueue", "jobs:read"],
        max_priority="HIGH",
        types=["mail"],
        queues=["slow"],
        groups=["billing"],
        rate_limit_per_minute=1_000_000,
        expires_at=instant(clock.now() + 1000),
    )
    assert key_id_of(answer.token) == answer.key_id
    found = await enter(authenticator, answer.token)
    assert found.grant == Grant(
        scopes=frozenset(answer.scopes),  # type: ignore[arg-type]
        max_priority=20,
        types=frozenset({"mail"}),
        queues=frozenset({"slow"}),
        groups=frozenset({"billing"}),
    )
    assert found.rate_limit_per_minute == 1_000_000
    clock.advance(1)
    with pytest.raises(Unauthenticated):
        await enter(authenticator, answer.token)


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_preset_gives_its_scopes_and_ceiling(
    tokens: Tokens, authenticator: Authenticator, preset: str
) -> None:
    found = await enter(authenticator, (await create(tokens, preset=preset)).token)
    expected = PRESETS[preset]
    assert found.grant == Grant(
        scopes=expected.scopes, max_priority=expected.max_priority, open_api_only=expected.open_api_only
    )


async def test_the_list_and_the_database_hold_no_secret(
    tmp_path: Path, store: SqliteStore, tokens: Tokens
) -> None:
    answer = await create(tokens)
    secret = answer.token.rpartition("_")[2]
    assert secret not in repr(await tokens.list(ADMIN))
    await store.close()
    assert secret.encode() not in (tmp_path / "rota.db").read_bytes()


async def test_the_list_shows_all_newest_first(tokens: Tokens, clock: FakeClock) -> None:
    for name in ("a", "b", "c"):
        await create(tokens, name=name)
        clock.advance(1)
    assert [each.name for each in await tokens.list(ADMIN)] == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "a\n"}, "name"),
        ({"name": "a" * 65}, "name"),
        ({"name": "ä"}, "name"),
        ({"preset": "root"}, "preset"),
        ({"preset": None}, "preset"),
        ({"preset": "worker", "scopes": ["jobs:read"]}, "preset"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["jobs:read", "jobs:*"]}, "scopes"),
        ({"max_priority": "urgent"}, "max_priority"),
        ({"types": []}, "types"),
        ({"types": ["Mail"]}, "types"),
        ({"queues": ["a\n"]}, "queues"),
        ({"groups": [""]}, "groups"),
        ({"services": ["a\x00b"]}, "services"),
        ({"types": [f"t{n}" for n in range(1001)]}, "types"),
        ({"rate_limit_per_minute": 0}, "rate_limit_per_minute"),
        ({"rate_limit_per_minute": 1_000_001}, "rate_limit_per_minute"),
        ({"expires_at": "tomorrow"}, "expires_at"),
        ({"expires_at": "2020-01-01T00:00:00.000Z"}, "expires_at"),
        ({"expires_at": "9999-12-31T23:59:59.999-12:00"}, "expires_at"),
        ({"expires_at": "2030-01-01T00:00:00.000"}, "expires_at"),
    ],
)
async def test_a_wrong_field_is_refused_by_name(tokens: Tokens, asked: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationFailed) as raised:
        await create(tokens, **asked)
    assert [each.field for each in raised.value.errors] == [field]
    assert await tokens.list(ADMIN) == []


async def test_a_name_is_never_used_again(tokens: Tokens) -> None:
    first = await create(tokens, name="mailer")
    await tokens.revoke(ADMIN, first.key_id, ACTOR)
    with pytest.raises(NameTaken):
        await create(tokens, name="mailer")
    await create(tokens, name="Mailer")


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ({"preset": "worker", "types": ["mail"]}, ["scopes"]),
        ({"scopes": ["jobs:read", "detail:read"], "types": ["mail"]}, ["scopes"]),
        ({"types": ["mail", "other"]}, ["types"]),
        ({}, ["types"]),
        ({"types": ["mail"], "max_priority": "high"}, ["max_priority"]),
        ({"preset": "admin", "max_priority": "critical"}, ["scopes", "max_priority", "types"]),
    ],
)
async def test_nobody_grants_what_they_lack(tokens: Tokens, asked: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(Forbidden) as raised:
        await create(tokens, LIMITED, **asked)
    assert [each.field for each in raised.value.errors] == fields
    assert await tokens.list(ADMIN) == []


async def test_a_ceiling_not_asked_for_is_lowered_to_the_creators(tokens: Tokens) -> None:
    low = msgspec.structs.replace(ADMIN, grant=msgspec.structs.replace(ADMIN.grant, max_priority=0))
    assert (await create(tokens, low, preset="operator")).max_priority == "low"
    with pytest.raises(Forbidden):
        await create(tokens, low, name="other", preset="operator", max_priority="high")


async def test_a_limit_or_end_not_asked_for_is_the_creators_own(tokens: Tokens, clock: FakeClock) -> None:
    made = await create(tokens, limited(clock, 60, 5))
    assert made.rate_limit_per_minute == 5
    assert made.expires_at == instant(clock.now() + 60_000)


@pytest.mark.parametrize(
    ("seconds", "rate", "asked", "fields"),
    [
        (None, 5, {"rate_limit_per_minute": 6}, ["rate_limit_per_minute"]),
        (60, None, {"expires_at": 60_001}, ["expires_at"]),
        (60, 5, {"expires_at": 60_001, "rate_limit_per_minute": 6}, ["rate_limit_per_minute", "expires_at"]),
        (60, 5, {"expires_at": 60_000, "rate_limit_per_minute": 5}, []),
        (60, 5, {"expires_at": 1, "rate_limit_per_minute": 1}, []),
        (None, None, {"expires_at": 60_000, "rate_limit_per_minute": 6}, []),
    ],
)
async def test_no_token_outlives_or_outruns_its_creator(
    tokens: Tokens,
    clock: FakeClock,
    seconds: float | None,
    rate: int | None,
    asked: dict[str, Any],
    fields: list[str],
) -> None:
    if "expires_at" in asked:
        asked = asked | {"expires_at": instant(clock.now() + asked["expires_at"])}
    who = limited(clock, seconds, rate)
    if not fields:
        await create(tokens, who, **asked)
        return
    with pytest.raises(Forbidden) as raised:
        await create(tokens, who, **asked)
    assert [each.field for each in raised.value.errors] == fields


# --- rotating and revoking ------------------------------------------------------------------------


async def test_a_rotation_keeps_name_and_key_id_and_ends_the_old_secret(
    tokens: Tokens, authenticator: Authenticator
) -> None:
    old = await create(tokens)
    before = await enter(authenticator, old.token)
    new = await tokens.rotate(ADMIN, old.key_id, 0, ACTOR)
    assert (new.key_id, new.name) == (old.key_id, old.name)
    assert new.token != old.token
    after = await enter(authenticator, new.token)
    assert (after.id, after.grant) == (before.id, before.grant)
    with pytest.raises(Unauthenticated):
        await enter(authenticator, old.token)


async def test_a_second_rotation_ends_the_first_secret_even_in_its_grace(
    tokens: Tokens, authenticator: Authenticator
) -> None:
    first = await create(tokens)
    second = await tokens.rotate(ADMIN, first.key_id, 3600, ACTOR)
    await enter(authenticator, first.token)
    third = await tokens.rotate(ADMIN, first.key_id, 3600, ACTOR)
    await enter(authenticator, second.token)
    await enter(authenticator, third.token)
    with pytest.raises(Unauthenticated):
        await enter(authenticator, first.token)


@pytest.mark.parametrize("grace", [-1, 86_401, float("nan")])
async def test_a_grace_out_of_its_range_is_refused(tokens: Tokens, grace: float) -> None:
    made = await create(tokens)
    with pytest.raises(ValidationFailed):
        await tokens.rotate(ADMIN, made.key_id, grace, ACTOR)


async def test_a_revoked_token_is_out_at_once_and_for_good(
    tokens: Tokens, authenticator: Authenticator, clock: FakeClock
) -> None:
    made = await create(tokens)
    await enter(authenticator, made.token)
    revoked = await tokens.revoke(ADMIN, made.key_id, ACTOR)
    with pytest.raises(Unauthenticated):
        await enter(authenticator, made.token)
    clock.advance(1)
    assert (await tokens.revoke(ADMIN, made.key_id, ACTOR)).revoked_at == revoked.revoked_at
    with pytest.raises(Conflict):
        await tokens.rotate(ADMIN, made.key_id, 0, ACTOR)


async def test_a_revoked_tokens_jobs_go_back_uncounted(store: SqliteStore, tokens: Tokens) -> None:
    made = await create(tokens, preset="worker")
    (record,) = await store.reader.tokens()
    await store.enqueue([NewJob("default", "mail", 0, "tok_p", b"{}", 3, bytes([n]) * 16) for n in range(3)])
    held = await store.claim(Claim(record.id, "new", 2))
    await tokens.revoke(ADMIN, made.key_id, ACTOR)
    again = await store.claim(Claim("tok_other", "other", 3))
    assert {job.id for job in held} < {job.id for job in again}
    assert [job.retry_count for job in again] == [0, 0, 0]


@pytest.mark.parametrize(
    ("seconds", "rate", "field"), [(60, None, "expires_at"), (None, 5, "rate_limit_per_minute")]
)
async def test_a_token_that_lasts_longer_or_may_call_more_can_be_revoked_but_not_rotated(
    tokens: Tokens, clock: FakeClock, seconds: float | None, rate: int | None, field: str
) -> None:
    made = await create(tokens)
    who = limited(clock, seconds, rate)
    with pytest.raises(Forbidden) as raised:
        await tokens.rotate(who, made.key_id, 0, ACTOR)
    assert [each.field for each in raised.value.errors] == [field]
    await tokens.revoke(who, made.key_id, ACTOR)


async def test_a_secret_in_its_grace_makes_nothing_that_outlives_the_grace(
    tokens: Tokens, authenticator: Authenticator, clock: FakeClock
) -> None:
    old = await create(tokens, preset="admin", max_priority="critical")
    await tokens.rotate(ADMIN, old.key_id, 60, ACTOR)
    leaked = await enter(authenticator, old.token)
    made = await create(tokens, leaked, name="another")
    assert made.expires_at == instant(clock.now() + 60_000)
    with pytest.raises(Forbidden):
        await tokens.rotate(leaked, old.key_id, 60, ACTOR)


async def test_tokens_out_of_range_do_not_exist_for_a_manager(tokens: Tokens) -> None:
    inside = await create(tokens, name="inside", types=["mail"])
    outside: dict[str, Any] = {
        "everything": {},
        "other": {"types": ["other"]},
        "both": {"types": ["mail", "other"]},
    }
    for name, ranges in outside.items():
        made = await create(tokens, name=name, **ranges)
        answers = set()
        for key_id in (made.key_id, "a" * 12):
            for call in (tokens.rotate(LIMITED, key_id, 0, ACTOR), tokens.revoke(LIMITED, key_id, ACTOR)):
                with pytest.raises(NotFound) as raised:
                    await call
                answers.add((raised.value.detail, tuple(raised.value.errors)))
        assert len(answers) == 1
    assert [each.key_id for each in await tokens.list(LIMITED)] == [inside.key_id]
    assert len(await tokens.list(ADMIN)) == 4


@pytest.mark.parametrize(
    "target",
    [
        {"preset": "worker", "types": ["mail"]},
        {"preset": "producer", "types": ["mail"], "max_priority": "high"},
    ],
)
async def test_a_token_with_more_rights_can_be_neither_rotated_nor_revoked(
    tokens: Tokens, authenticator: Authenticator, target: dict[str, Any]
) -> None:
    made = await create(tokens, **target)
    with pytest.raises(Forbidden):
        await tokens.rotate(LIMITED, made.key_id, 0, ACTOR)
    with pytest.raises(Forbidden):
        await tokens.revoke(LIMITED, made.key_id, ACTOR)
    await enter(authenticator, made.token)


async def test_a_token_within_ones_rights_can_be_rotated_and_revoked(tokens: Tokens) -> None:
    made = await create(tokens, types=["mail"])
    await tokens.rotate(LIMITED, made.key_id, 0, ACTOR)
    await tokens.revoke(LIMITED, made.key_id, ACTOR)


async def test_an_unknown_key_id_is_404(tokens: Tokens) -> None:
    with pytest.raises(NotFound):
        await tokens.rotate(ADMIN, "a" * 12, 0, ACTOR)
    with pytest.raises(NotFound):
        await tokens.revoke(ADMIN, "'; DROP TABLE rota_tokens --", ACTOR)


# --- the secret key's fingerprint -----------------------------------------------------------------


async def test_a_database_takes_only_the_key_that_wrote_it_or_its_successor(store: SqliteStore) -> None:
    await store.keep_fingerprint("one", None)
    await store.keep_fingerprint("one", None)
    with pytest.raises(StartError):
        await store.keep_fingerprint("two", None)
    with pytest.raises(StartError):
        await store.keep_fingerprint("two", "three")
    await store.keep_fingerprint("two", "one")
    with pytest.raises(StartError):
        await store.keep_fingerprint("one", None)
