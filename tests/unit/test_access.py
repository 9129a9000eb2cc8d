"""Grants and visibility: the rules alone, without a store."""

from __future__ import annotations

from typing import Any

import pytest

from rota.domain.access import (
    ALL_SCOPES,
    EVERYTHING,
    PRESETS,
    RANGES,
    Grant,
    Principal,
    Scope,
    Visibility,
)
from rota.domain.job import PRIORITIES, Job
from rota.errors import Forbidden
from tests.credentials import grant

ADMIN = Grant(scopes=ALL_SCOPES, max_priority=PRIORITIES["critical"])


def job(**fields: Any) -> Job:
    made = dict.fromkeys(Job.__struct_fields__)
    made |= {
        "id": 1,
        "queue": "default",
        "type": "mail",
        "status": "pending",
        "priority": 0,
        "producer": "tok_producer",
        "payload": b'{"secret":1}',
        "result": b'"done"',
        "error": "boom",
        "progress_message": "halfway",
        "idempotency_key": "key-1",
        "has_error": 1,
    }
    return Job(**{**made, **fields})


# --- grants ---------------------------------------------------------------------------------------


def test_a_grant_covers_itself_and_anything_narrower() -> None:
    own = grant("jobs:read", "jobs:manage", types=["a", "b"], max_priority=20)
    assert not own.missing_for(own)
    assert not own.missing_for(grant("jobs:read", types=["a"], queues=["q"], max_priority=0))
    assert not ADMIN.missing_for(own)


@pytest.mark.parametrize(
    ("other", "field"),
    [
        (grant("jobs:read", "jobs:work"), "scopes"),
        (grant("jobs:read", max_priority=20), "max_priority"),
    ],
)
def test_more_scopes_or_priority_are_not_covered(other: Grant, field: str) -> None:
    missing = grant("jobs:read", max_priority=10).missing_for(other)
    assert [each.field for each in missing] == [field]


@pytest.mark.parametrize("name", RANGES)
def test_a_range_covers_only_parts_of_itself(name: str) -> None:
    own = grant("jobs:read", **{name: ["a", "b"]})
    assert not own.missing_for(grant("jobs:read", **{name: ["a"]}))
    assert not own.missing_for(grant("jobs:read", **{name: []}))
    for wider in (grant("jobs:read", **{name: ["a", "c"]}), grant("jobs:read")):
        assert [each.field for each in own.missing_for(wider)] == [name]


def test_a_token_for_the_open_api_grants_no_more_than_that() -> None:
    own = grant("schedules:read", open_api_only=True)
    assert [each.field for each in own.missing_for(grant("schedules:read"))] == ["open_api_only"]
    assert not own.missing_for(grant("schedules:read", open_api_only=True))
    assert not ADMIN.missing_for(own)


def test_every_lack_is_named() -> None:
    missing = grant("jobs:read", types=["a"], max_priority=0).missing_for(ADMIN)
    assert [each.field for each in missing] == ["scopes", "max_priority", "types"]


def test_only_admin_covers_every_preset() -> None:
    grants = {
        name: Grant(scopes=preset.scopes, max_priority=preset.max_priority)
        for name, preset in PRESETS.items()
    }
    for name, own in grants.items():
        assert (name != "admin") == any(own.missing_for(other) for other in grants.values())


@pytest.mark.parametrize(
    ("preset", "ceiling"),
    [
        ("producer", "medium"),
        ("worker", "medium"),
        ("observer", "medium"),
        ("operator", "high"),
        ("integrator", "medium"),
        ("admin", "critical"),
    ],
)
def test_high_and_critical_need_a_token_that_allows_them(preset: str, ceiling: str) -> None:
    chosen = PRESETS[preset]
    who = Principal(id="t", name="t", grant=Grant(scopes=chosen.scopes, max_priority=chosen.max_priority))
    for number in PRIORITIES.values():
        if number <= PRIORITIES[ceiling]:
            who.require_priority(number)
        else:
            with pytest.raises(Forbidden):
                who.require_priority(number)


def test_a_job_is_in_range_when_type_and_queue_both_are() -> None:
    own = grant("jobs:work", types=["mail"], queues=["fast"])
    assert own.admits("fast", "mail")
    assert not own.admits("slow", "mail")
    assert not own.admits("fast", "print")


# --- visibility -----------------------------------------------------------------------------------

ALL = {"payload", "result", "error", "progress_message", "idempotency_key"}
OWN = Principal(id="tok_producer", name="p", grant=grant("jobs:enqueue"))
OTHER = Principal(id="tok_other", name="o", grant=grant("jobs:enqueue"))
HOLDER = Principal(id="tok_worker", name="w", grant=grant("jobs:work"))
OBSERVER = Principal(id="tok_obs", name="v", grant=Grant(scopes=PRESETS["observer"].scopes))
OPERATOR = Principal(id="tok_op", name="b", grant=Grant(scopes=PRESETS["operator"].scopes))
ADMINISTRATOR = Principal(id="tok_admin", name="a", grant=ADMIN)
ELSEWHERE = Principal(id="tok_producer", name="e", grant=grant("jobs:read", "jobs:enqueue", types=["print"]))
BOTH = Principal(id="tok_producer", name="b", grant=grant("jobs:enqueue", "jobs:read"))


@pytest.mark.parametrize(
    ("who", "shown"),
    [
        (OWN, ALL - {"error"}),
        (OTHER, None),
        (HOLDER, ALL - {"error", "idempotency_key"}),
        (OBSERVER, set()),
        (OPERATOR, ALL - {"idempotency_key"}),
        (ADMINISTRATOR, ALL),
        (ELSEWHERE, None),
        (BOTH, ALL - {"error"}),
    ],
    ids=[
        "producer",
        "other producer",
        "holder",
        "observer",
        "operator",
        "admin",
        "out of range",
        "reader of own",
    ],
)
def test_what_of_a_held_job_is_shown_to_whom(who: Principal, shown: set[str] | None) -> None:
    held = job(status="running", owner="tok_worker")
    view = Visibility.of(who)
    assert view.sees(held) is (shown is not None)
    if shown is None:
        return
    masked = view.mask(held)
    assert {name for name in ALL if getattr(masked, name) is not None} == shown
    assert masked.has_error == 1
    assert (masked.id, masked.type, masked.status) == (1, "mail", "running")


@pytest.mark.parametrize("status", ["pending", "completed", "failed", "cancelled"])
def test_a_worker_sees_a_job_only_while_it_holds_it(status: str) -> None:
    view = Visibility.of(HOLDER)
    assert not view.sees(job(status=status, owner="tok_worker"))
    assert not view.sees(job(status="running", owner="tok_other"))
    assert not view.sees(job(status="running", owner=None))


def test_who_just_ended_an_attempt_sees_what_it_could_see_before() -> None:
    ended = job(status="completed", owner="tok_worker")
    masked = Visibility.of(HOLDER).mask(ended, just_held=True)
    assert (masked.payload, masked.error) == (ended.payload, None)


def test_a_principal_without_a_job_scope_sees_no_job() -> None:
    nobody = Principal(id="tok_producer", name="n", grant=Grant(scopes=ALL_SCOPES - job_scopes()))
    assert not Visibility.of(nobody).sees(job(owner="tok_producer", status="running"))


def job_scopes() -> frozenset[Scope]:
    return frozenset({Scope.JOBS_ENQUEUE, Scope.JOBS_WORK, Scope.JOBS_READ})


@pytest.mark.parametrize("ranges", [{"types": ["print"]}, {"queues": ["slow"]}])
def test_a_range_hides_by_type_and_by_queue(ranges: dict[str, list[str]]) -> None:
    who = Principal(id="tok_producer", name="p", grant=grant(*(str(each) for each in ALL_SCOPES), **ranges))
    assert not Visibility.of(who).sees(job(status="running", owner="tok_producer"))


def test_the_server_itself_sees_everything() -> None:
    whole = job(status="running", owner="tok_worker")
    assert EVERYTHING.sees(whole)
    assert EVERYTHING.mask(whole) == whole
