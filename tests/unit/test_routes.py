"""The route table: every entry is guarded, and every path finds the right one."""

from __future__ import annotations

from typing import Any

import pytest

from rota.api.call import Answer, Call
from rota.api.route import Needs, Route, all_of, one_of
from rota.api.routes import ROUTES
from rota.api.table import Table
from rota.domain.access import ALL_SCOPES, Scope
from rota.errors import MethodNotAllowed, NotFound

OPEN_PATHS = {"/health/live", "/health/ready", "/problems/{code}", "/"}


class Named:
    def __init__(self, name: str, *, is_open: bool = False) -> None:
        self.name = name
        self.open = is_open


TABLE = Table(
    {
        ("GET", "/jobs"): Named("list"),
        ("POST", "/jobs"): Named("enqueue"),
        ("POST", "/jobs/claim"): Named("claim"),
        ("GET", "/jobs/{id}"): Named("get"),
        ("POST", "/jobs/{id}/complete"): Named("complete"),
        ("GET", "/types/{name}"): Named("type"),
        ("GET", "/health/live"): Named("live", is_open=True),
    }
)


async def handler(_: Call, __: Any) -> Answer:
    return Answer(200)


def route(*, needs: Needs = (), public: bool = False) -> Route:
    return Route(
        method="GET",
        path="/x",
        handler=handler,
        summary="",
        tag="",
        needs=needs,
        public=public,
        answers={},
    )


def test_only_health_docs_and_problems_are_open() -> None:
    assert {route.path for route in ROUTES if route.public} == OPEN_PATHS


@pytest.mark.parametrize(
    ("needs", "public"), [((), False), ((frozenset(),), False), (one_of(Scope.JOBS_READ), True)]
)
def test_a_route_names_its_scopes_or_is_public(needs: Needs, public: bool) -> None:
    with pytest.raises(ValueError, match="must name the scopes"):
        route(needs=needs, public=public)
    route(needs=all_of(Scope.JOBS_READ, Scope.DETAIL_READ))
    route(public=True)


@pytest.mark.parametrize(
    ("method", "path", "found", "segment"),
    [
        ("GET", "/jobs", "list", ""),
        ("HEAD", "/jobs", "list", ""),
        ("POST", "/jobs/claim", "claim", ""),
        ("GET", "/jobs/17", "get", "17"),
        ("HEAD", "/jobs/17", "get", "17"),
        ("POST", "/jobs/123456789012345678/complete", "complete", "123456789012345678"),
        ("GET", "/types/jobs", "type", "jobs"),
    ],
)
def test_a_path_finds_its_route(method: str, path: str, found: str, segment: str) -> None:
    entry, name, refused = TABLE.find(method, path)
    assert entry is not None
    assert (entry.name, name, refused) == (found, segment, None)


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/nothing", "/jobs/", "/jobs/x", "/jobs/1x", "/jobs/-1", "/jobs/٣", "/jobs/1/", "//jobs"),
        *(
            "/jobs/1/complete/2",
            "/jobs//complete",
            "/jobs/1234567890123456789",
            "/jobs/{id}",
            "/types/",
            "/{}",
        ),
        *("/types/a/b", "/jobs/{id}/complete"),
    ],
)
def test_any_other_path_is_not_found(path: str) -> None:
    entry, _, refused = TABLE.find("GET", path)
    assert entry is None
    assert isinstance(refused, NotFound)


def test_a_wrong_method_names_the_right_ones() -> None:
    for path, allowed in (("/jobs", "GET, HEAD, POST"), ("/jobs/claim", "POST"), ("/jobs/1", "GET, HEAD")):
        entry, _, refused = TABLE.find("PATCH", path)
        assert entry is None
        assert isinstance(refused, MethodNotAllowed)
        assert refused.headers == {"Allow": allowed}
    entry, _, refused = TABLE.find("POST", "/health/live")
    assert entry is not None
    assert isinstance(refused, MethodNotAllowed)


@pytest.mark.parametrize("path", ["/types", "/types/{name}"])
def test_types_are_read_with_types_read_or_any_scope_for_jobs(path: str) -> None:
    (found,) = [each for each in ROUTES if (each.method, each.path) == ("GET", path)]
    jobs = [scope for scope in ALL_SCOPES if scope.startswith("jobs:")]
    assert set(found.needs) == {frozenset({scope}) for scope in (Scope.TYPES_READ, *jobs)}
