"""Every call answers as the OpenAPI document says, whatever is sent with whichever preset's token.

Schemathesis makes requests from the document, fitting and unfitting ones. Some fitting ones are then aimed at
things that exist, so that they reach further than the first look-up.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rota.api.route import Route
from rota.api.routes import ROUTES
from rota.domain.access import PRESETS
from rota.openapi import document, documentation
from rota.services.leases import MAX_WAIT_SECONDS
from tests.live_server import Api, LiveServer, fresh

EVERY: Final = (*ROUTES, *documentation(ROUTES))
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
JUDGED_ONE_BY_ONE: Final = ("/jobs/batch", "/jobs/batch/finish", "/jobs/batch/heartbeat")
"""An entry that does not fit is refused by itself: the call as a whole answers 200."""


def operations() -> dict[tuple[str, str], APIOperation[Any, Any, Any, Any]]:
    described = json.loads(document(EVERY))
    for calls in described["paths"].values():
        for call in calls.values():
            call["security"] = []  # the tests bring tokens; made-up ones are played in tests/security
    del described["components"]["securitySchemes"]
    found: dict[tuple[str, str], APIOperation[Any, Any, Any, Any]] = {}
    for result in schemathesis.openapi.from_dict(described).get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        found[operation.method.upper(), operation.path] = operation
    return found


OPERATIONS: Final = operations()


def admitted(route: Route, preset: str) -> bool:
    held = PRESETS[preset]
    return route.public or (not held.open_api_only and any(scopes <= held.scopes for scopes in route.needs))


@pytest.fixture(scope="module")
def holders(server: LiveServer) -> dict[str, Api]:
    return {preset: server.token(preset) for preset in PRESETS}


def aims(server: LiveServer, holder: Api, preset: str) -> dict[str, Any]:
    """Values that mean something to this server, by the field or parameter that they fit."""
    type = server.type()
    waiting = server.admin.enqueue(type)
    found: dict[str, Any] = {
        "type": type,
        "types": [type],
        "name": type,
        "lease_token": "0" * 32,
        "id": waiting["id"],
    }
    if "jobs:work" in PRESETS[preset].scopes:
        server.admin.enqueue(type)
        held = holder.claim(type)
        found |= {"lease_token": held["lease_token"], "id": held["id"]}
    victim = server.admin.post("/tokens", {"name": fresh("victim"), "preset": "producer"}).json()
    return {**found, "key_id": victim["key_id"], "code": "conflict"}


def aimed(case: Case[Any], at: dict[str, Any]) -> Case[Any]:
    for name in case.path_parameters:
        case.path_parameters[name] = at.get(name, case.path_parameters[name])
    for name in set(case.query) & set(at):
        case.query[name] = at[name]
    if isinstance(case.body, dict):
        entries = next((value for value in case.body.values() if isinstance(value, list)), [])
        for body in (case.body, *(entry for entry in entries if isinstance(entry, dict))):
            body.update({name: at[name] for name in set(body) & set(at) - {"name"}})
            body.pop("queues", None)
    return case


def patient(case: Case[Any]) -> Case[Any]:
    """Nothing here shall wait for a minute; waits that are refused may stay."""
    for place in (case.body, case.query):
        if isinstance(place, dict):
            wait = place.get("wait_seconds")
            if isinstance(wait, int | float) and wait is not True and 0 < wait <= MAX_WAIT_SECONDS:
                place["wait_seconds"] = 0
    return case


class Unexpected(AssertionError):
    """A call succeeded that the token has no scope for."""


def play(server: LiveServer, holder: Api, preset: str, route: Route, *, examples: int, fixed: bool) -> None:
    operation, allowed = OPERATIONS[route.method, route.path], admitted(route, preset)
    at = aims(server, holder, preset) if allowed else {}

    def run(cases: st.SearchStrategy[Case[Any]], checks: list[Any]) -> None:
        @settings(
            max_examples=examples if allowed else max(1, examples // 10),
            deadline=None,
            derandomize=fixed,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases.map(patient))
        def sent(case: Case[Any]) -> None:
            answer = case.call(base_url=server.url, session=session, allow_redirects=False)
            case.validate_response(answer, checks=checks)
            if answer.status_code < 400 and not allowed:
                raise Unexpected(f"{preset}: {route.method} {route.path} answered {answer.status_code}")

        sent()

    fitting = operation.as_strategy(GenerationMode.POSITIVE)
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {holder.token}"
        session.trust_env = False
        run(st.one_of(fitting, fitting.map(lambda case: aimed(case, at))), CHECKS)
        if allowed and (route.body is not None or route.query is not None or "{" in route.path):
            judged_one_by_one = route.path in JUDGED_ONE_BY_ONE
            run(
                operation.as_strategy(GenerationMode.NEGATIVE),
                CHECKS if judged_one_by_one else [*CHECKS, negative_data_rejection],
            )


def words(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", EVERY, ids=words)
def test_answers_are_as_described_and_nothing_forbidden_succeeds(
    server: LiveServer, holders: dict[str, Api], route: Route
) -> None:
    for preset, holder in holders.items():
        play(server, holder, preset, route, examples=6, fixed=True)


@pytest.mark.soak
@pytest.mark.parametrize("route", EVERY, ids=words)
def test_answers_stay_as_described_over_many_requests(
    server: LiveServer, holders: dict[str, Api], route: Route
) -> None:
    for preset, holder in holders.items():
        play(server, holder, preset, route, examples=100, fixed=False)
