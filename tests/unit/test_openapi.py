"""The OpenAPI document says what the route table says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rota.api.routes import ROUTES
from rota.openapi import document, documentation

ALL = (*ROUTES, *documentation(ROUTES))
DOCUMENT: dict[str, Any] = json.loads(document(ALL))


def refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for each in value.values():
            yield from refs(each)
    elif isinstance(value, list):
        for each in value:
            yield from refs(each)


def test_every_route_appears_once() -> None:
    described = {(method.upper(), path) for path, calls in DOCUMENT["paths"].items() for method in calls}
    assert described == {(route.method, route.path) for route in ALL}
    assert len(described) == len(ALL)


def test_every_reference_resolves() -> None:
    found = set(refs(DOCUMENT))
    assert found
    for ref in found:
        place: Any = DOCUMENT
        for part in ref.removeprefix("#/").split("/"):
            place = place[part]


def test_every_call_tells_its_scopes_and_needs_a_token_unless_it_is_open() -> None:
    for route in ALL:
        call = DOCUMENT["paths"][route.path][route.method.lower()]
        assert (call["security"] == []) == route.public
        for scopes in route.needs:
            assert all(scope in call["description"] for scope in scopes)


def test_operation_ids_are_unique() -> None:
    names = [call["operationId"] for calls in DOCUMENT["paths"].values() for call in calls.values()]
    assert len(names) == len(set(names))


def test_path_and_query_parameters_are_described() -> None:
    listing = DOCUMENT["paths"]["/jobs"]["get"]["parameters"]
    assert {"limit", "cursor", "status", "type", "queue", "q"} <= {each["name"] for each in listing}
    (id_parameter, _) = DOCUMENT["paths"]["/jobs/{id}"]["get"]["parameters"]
    assert (id_parameter["name"], id_parameter["in"], id_parameter["required"]) == ("id", "path", True)


def test_refusals_are_problems() -> None:
    answer = DOCUMENT["paths"]["/jobs"]["post"]["responses"]["default"]["content"]
    assert answer == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
