"""Refusals are noted, and no flood of them fills the disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from rota.auth.seals import AuditSealer
from rota.clock import FakeClock
from rota.domain.access import Grant, Principal, Scope
from rota.domain.audit import AuditFilter, AuditRecord
from rota.errors import Forbidden
from rota.services.audit import MAX_KNOWN, Audit
from rota.store.sqlite.store import SqliteStore

EVE = Principal(id="t-eve", name="eve", grant=Grant(scopes=frozenset({Scope.JOBS_READ})))
READER = Principal(id="t-ann", name="ann", grant=Grant(scopes=frozenset({Scope.AUDIT_READ})))
ROUTE = "POST /tokens"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_780_000_020_000 // 60_000 * 60_000)


@pytest.fixture
async def audit(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Audit]:
    store = await SqliteStore.open(tmp_path / "rota.db", clock)
    yield Audit(store, AuditSealer(bytes(range(64))), clock)
    await store.close()


async def noted(audit: Audit) -> list[AuditRecord]:
    return (await audit.page(READER, AuditFilter(), limit=200)).records


async def test_the_first_refusal_is_noted_at_once(audit: Audit) -> None:
    audit.refuse(EVE, ROUTE, "192.0.2.9", "r-1")
    await audit.run_once()
    (row,) = await noted(audit)
    assert (row.actor_id, row.actor_name, row.address, row.request_id) == ("t-eve", "eve", "192.0.2.9", "r-1")
    assert (row.object_id, row.outcome, row.times) == (ROUTE, "refused", 1)


async def test_a_flood_leaves_two_rows_a_minute_for_a_principal_and_route(
    audit: Audit, clock: FakeClock
) -> None:
    for _ in range(50):
        for _ in range(100):
            audit.refuse(EVE, ROUTE, "192.0.2.9", "r")
        await audit.run_once()
        clock.advance(1)
    clock.advance(10)
    await audit.run_once()
    assert [row.times for row in await noted(audit)] == [4_900, 100]
    audit.refuse(EVE, ROUTE, "192.0.2.9", "r")
    await audit.run_once()
    assert [row.times for row in await noted(audit)] == [1, 4_900, 100]


async def test_many_principals_and_routes_are_counted_together_in_the_end(audit: Audit) -> None:
    for n in range(MAX_KNOWN + 300):
        audit.refuse(EVE, f"GET /{n}", "192.0.2.9", "r")
    await audit.close()
    page = await audit.page(READER, AuditFilter(), limit=500)
    assert len(page.records) == MAX_KNOWN + 1
    assert sum(row.times for row in page.records) == MAX_KNOWN + 300
    (others,) = [row for row in page.records if row.object_id == "*"]
    assert (others.actor_id, others.times) == ("*", 300)


async def test_what_was_counted_is_written_when_the_server_stops(audit: Audit) -> None:
    for _ in range(3):
        audit.refuse(EVE, ROUTE, "192.0.2.9", "r")
        await audit.run_once()
    await audit.close()
    assert [row.times for row in await noted(audit)] == [2, 1]


@pytest.mark.parametrize("limited", ["types", "queues", "groups", "flows"])
async def test_a_token_that_is_limited_to_a_range_cannot_read_it(audit: Audit, limited: str) -> None:
    grant = msgspec.structs.replace(READER.grant, **{limited: frozenset({"a"})})
    with pytest.raises(Forbidden):
        await audit.page(Principal(id="t", name="t", grant=grant), AuditFilter(), limit=1)
