"""The types service: validation, range and ceiling of the writer, the copy in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from rota.clock import FakeClock
from rota.domain.access import ALL_SCOPES, Grant, Principal
from rota.domain.job import MAX_TYPES
from rota.domain.retry import Backoff
from rota.errors import Conflict, Forbidden, NotFound, ValidationFailed
from rota.services.types import Types
from rota.store.sqlite.connection import immediate, open_writer
from rota.store.sqlite.store import SqliteStore
from rota.wire import TypeRequest
from tests.credentials import ACTOR, principal

ADMIN = Principal(id="tok_admin", name="admin", grant=Grant(scopes=ALL_SCOPES, max_priority=30))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest_asyncio.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "rota.db", clock)
    yield store
    await store.close()


@pytest.fixture
def types(store: SqliteStore, clock: FakeClock) -> Types:
    return Types(store, clock)


async def put(types: Types, name: str, who: Principal = ADMIN, **fields: Any) -> bool:
    _, created = await types.put(who, name, TypeRequest(**fields), ACTOR)
    return created


async def test_a_type_is_stored_as_it_was_put(types: Types, clock: FakeClock) -> None:
    asked = TypeRequest(
        description="Sends mail – to people",
        queue="slow",
        default_priority="MEDIUM",
        max_retries=10_000,
        backoff=Backoff("fixed", 1, 1, 5, 0),
        lease_seconds=86_400,
        timeout_seconds=0.5,
        max_payload_bytes=1,
        payload_schema=msgspec.Raw(b'{"type": "string"}'),
        idempotent=True,
        paused=True,
    )
    stored, created = await types.put(ADMIN, "mail.v2", asked, ACTOR)
    assert created
    assert (stored.name, stored.default_priority) == ("mail.v2", "medium")
    as_asked = msgspec.structs.asdict(asked) | {"default_priority": "medium"}
    assert {name: getattr(stored, name) for name in as_asked} == as_asked
    assert await types.show(ADMIN, "mail.v2") == stored
    assert await types.list(ADMIN) == [stored]


async def test_putting_again_replaces_and_keeps_the_creation(types: Types, clock: FakeClock) -> None:
    first, _ = await types.put(ADMIN, "mail", TypeRequest(max_retries=9), ACTOR)
    clock.advance(1)
    second, created = await types.put(ADMIN, "mail", TypeRequest(), ACTOR)
    assert not created
    assert second.max_retries == 3
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


async def test_a_deleted_type_is_gone_and_can_be_put_anew(types: Types, clock: FakeClock) -> None:
    first, _ = await types.put(ADMIN, "mail", TypeRequest(), ACTOR)
    await types.delete(ADMIN, "mail", ACTOR)
    assert types.get("mail") is None
    with pytest.raises(NotFound):
        await types.show(ADMIN, "mail")
    with pytest.raises(NotFound):
        await types.delete(ADMIN, "mail", ACTOR)
    with pytest.raises(NotFound):
        await types.pause(ADMIN, "mail", ACTOR)
    clock.advance(1)
    again, created = await types.put(ADMIN, "mail", TypeRequest(), ACTOR)
    assert created
    assert again.created_at > first.created_at


async def test_pause_and_resume_may_be_repeated(types: Types) -> None:
    await put(types, "mail")
    for _ in range(2):
        assert (await types.pause(ADMIN, "mail", ACTOR)).paused
    for _ in range(2):
        assert not (await types.resume(ADMIN, "mail", ACTOR)).paused


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("description", "x" * 1001),
        ("description", "two\nlines"),
        ("description", "\x00"),
        ("description", "\u202eevil"),
        ("description", "a\u2028b"),
        ("description", "a\u2066b"),
        ("queue", ""),
        ("queue", "Mail"),
        ("queue", "q" * 65),
        ("queue", "rota.internal"),
        ("queue", "a\n"),
        ("default_priority", "urgent"),
        ("max_retries", -1),
        ("max_retries", 10_001),
        ("lease_seconds", 1.9),
        ("lease_seconds", 86_401),
        ("lease_seconds", float("nan")),
        ("timeout_seconds", 0),
        ("timeout_seconds", -1),
        ("timeout_seconds", 1e300),
        ("max_payload_bytes", 0),
        ("max_payload_bytes", 65_537),
    ],
)
async def test_a_field_out_of_its_range_is_refused_by_name(types: Types, field: str, value: Any) -> None:
    with pytest.raises(ValidationFailed) as raised:
        await put(types, "mail", **{field: value})
    assert [each.field for each in raised.value.errors] == [field]
    assert await types.list(ADMIN) == []


async def test_a_backoff_out_of_its_range_is_refused_by_name(types: Types) -> None:
    with pytest.raises(ValidationFailed) as raised:
        await put(types, "mail", backoff=Backoff(factor=0.5))
    assert [each.field for each in raised.value.errors] == ["backoff.factor"]


async def test_every_fault_is_told_at_once(types: Types) -> None:
    with pytest.raises(ValidationFailed) as raised:
        await put(types, "No", lease_seconds=0, max_retries=-1, timeout_seconds=-1)
    fields = [each.field for each in raised.value.errors]
    assert fields == ["name", "max_retries", "lease_seconds", "timeout_seconds"]


@pytest.mark.parametrize("name", ["", "A", "-a", "_a", ".a", "a b", "a/b", "a" * 65, "ä", "a\n", "a';--"])
async def test_a_name_that_is_none_is_refused(types: Types, name: str) -> None:
    with pytest.raises(ValidationFailed):
        await put(types, name)


async def test_names_of_the_server_are_reserved(types: Types) -> None:
    with pytest.raises(ValidationFailed) as raised:
        await put(types, "rota.rpc")
    assert raised.value.errors[0].code == "reserved"
    await put(types, "rotary.rpc")


async def test_at_most_a_thousand_types_are_kept(tmp_path: Path, types: Types) -> None:
    await put(types, "first")
    with closing(open_writer(tmp_path / "rota.db")) as connection:
        immediate(connection)
        connection.executemany(
            "INSERT INTO rota_types SELECT ?, description, queue, default_priority, max_retries, backoff,"
            " lease_seconds, timeout_seconds, max_payload_bytes, paused, deleted, created_at, updated_at,"
            " payload_schema, idempotent FROM rota_types WHERE name = 'first'",
            [(f"t{n}",) for n in range(MAX_TYPES - 1)],
        )
        connection.commit()
    with pytest.raises(Conflict):
        await put(types, "one-more")
    assert not await put(types, "first", max_retries=1)
    await types.delete(ADMIN, "t7", ACTOR)
    assert await put(types, "one-more")


# --- range and ceiling ----------------------------------------------------------------------------

IN_RANGE = principal("types:write", "types:read", types=["mail", "print"], queues=["default", "fast"])


async def test_creating_out_of_range_is_403(types: Types) -> None:
    for name, queue in (("other", "default"), ("mail", "slow")):
        with pytest.raises(Forbidden):
            await put(types, name, IN_RANGE, queue=queue)
    assert await put(types, "mail", IN_RANGE, queue="fast")


async def test_a_type_out_of_range_is_unknown_to_every_other_verb(types: Types) -> None:
    await put(types, "other")
    await put(types, "print", queue="slow")
    for name in ("other", "print", "never-put"):
        refusals = []
        for call in (
            types.show(IN_RANGE, name),
            types.delete(IN_RANGE, name, ACTOR),
            types.pause(IN_RANGE, name, ACTOR),
            types.resume(IN_RANGE, name, ACTOR),
        ):
            with pytest.raises(NotFound) as raised:
                await call
            refusals.append(raised.value.detail)
        assert set(refusals) == {refusals[0]}
    assert await types.list(IN_RANGE) == []


async def test_replacing_a_type_of_a_foreign_queue_is_404(types: Types) -> None:
    await put(types, "print", queue="slow", max_retries=9)
    with pytest.raises(NotFound):
        await put(types, "print", IN_RANGE, queue="fast")
    assert (await types.show(ADMIN, "print")).max_retries == 9


async def test_moving_a_type_out_of_ones_range_is_403(types: Types) -> None:
    await put(types, "mail")
    with pytest.raises(Forbidden):
        await put(types, "mail", IN_RANGE, queue="slow")


async def test_the_ceiling_of_the_writer_holds_for_the_default_priority(types: Types) -> None:
    with pytest.raises(Forbidden):
        await put(types, "mail", IN_RANGE, default_priority="high")
    assert await put(types, "mail", IN_RANGE, default_priority="medium")


# --- the copy in memory ---------------------------------------------------------------------------


async def test_the_copy_knows_a_type_as_soon_as_it_is_put(types: Types) -> None:
    await put(types, "mail", queue="slow")
    found = types.get("mail")
    assert found is not None
    assert found.queue == "slow"
    assert types.queues() == {"default", "slow"}


async def test_the_copy_follows_another_process_within_a_second(
    tmp_path: Path, types: Types, clock: FakeClock
) -> None:
    await types.refresh()
    other = await SqliteStore.open(tmp_path / "rota.db", clock)
    await put(Types(other, clock), "mail")
    await other.close()
    clock.advance(1.001)
    await types.refresh()
    assert types.get("mail") is not None
