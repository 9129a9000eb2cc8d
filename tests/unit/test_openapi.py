"""The OpenAPI document says what the route table says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from rota.api import refusals, vocabulary
from rota.api.contract_page import contract_page
from rota.api.examples import STRUCTS
from rota.api.meta import advice
from rota.api.routes import ROUTES
from rota.errors import BY_CODE
from rota.openapi import document, documentation
from rota.wire import Problem

ALL = (*ROUTES, *documentation(ROUTES))
DOCUMENT: dict[str, Any] = json.loads(document(ALL))


def calls() -> Iterator[dict[str, Any]]:
    for methods in DOCUMENT["paths"].values():
        yield from methods.values()


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
    limit = next(each for each in listing if each["name"] == "limit")
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}
    (id_parameter, _) = DOCUMENT["paths"]["/jobs/{id}"]["get"]["parameters"]
    assert (id_parameter["name"], id_parameter["in"], id_parameter["required"]) == ("id", "path", True)


def test_a_parameter_is_never_null() -> None:
    for call in calls():
        assert all({"type": "null"} not in each["schema"].get("anyOf", ()) for each in call["parameters"])


def test_every_field_and_parameter_is_explained() -> None:
    silent = [
        f"{struct}.{field}"
        for struct, schema in DOCUMENT["components"]["schemas"].items()
        for field, each in schema.get("properties", {}).items()
        if "description" not in each and not list(refs(each))
    ]
    silent += [
        f"{call['operationId']}?{each['name']}"
        for call in calls()
        for each in call["parameters"]
        if "description" not in each
    ]
    assert silent == [], "say what they mean in rota/api/vocabulary.py"


def test_every_word_is_about_a_field_that_there_is() -> None:
    structs = {kind for route in ALL for kind in (route.body, route.query) if kind is not None}
    fields = {field for kind in structs for field in kind.__struct_encode_fields__}
    fields |= {
        field
        for schema in DOCUMENT["components"]["schemas"].values()
        for field in schema.get("properties", ())
    }
    assert {word.rpartition(".")[2] for word in vocabulary.FIELDS} - fields == set()
    assert set(STRUCTS) - set(DOCUMENT["components"]["schemas"]) == set()


def test_examples_are_what_the_server_would_take() -> None:
    bodies = {route.body for route in ALL if route.body is not None}
    shown = {kind.__name__: kind for kind in bodies} | {"Problem": Problem}
    for name, words in STRUCTS.items():
        for example in words.get("examples", ()):
            msgspec.json.decode(msgspec.json.encode(example), type=shown[name])


def test_payloads_and_results_are_any_json() -> None:
    job = DOCUMENT["components"]["schemas"]["JobAnswer"]["properties"]
    for field in ("payload", "result"):
        assert set(job[field]) == {"description"}
    asked = DOCUMENT["components"]["schemas"]["EnqueueRequest"]["properties"]
    assert set(asked["payload"]) == {"description"}


def test_limits_are_told_and_null_stays_allowed() -> None:
    retries = DOCUMENT["components"]["schemas"]["EnqueueRequest"]["properties"]["max_retries"]
    assert retries["anyOf"] == [{"type": "integer", "minimum": 0, "maximum": 10_000}, {"type": "null"}]


def test_every_refusal_of_a_call_is_a_problem_with_advice() -> None:
    for call in calls():
        for status, answer in call["responses"].items():
            if "$ref" in answer:
                described = DOCUMENT["components"]["responses"][answer["$ref"].rpartition("/")[2]]
                assert set(described["content"]) == {"application/problem+json"}
                assert described["content"]["application/problem+json"]["example"]["status"] == int(status)
                assert "/problems/" in described["description"]


def test_calls_tell_the_refusals_that_can_happen_to_them() -> None:
    complete = DOCUMENT["paths"]["/jobs/{id}/complete"]["post"]["responses"]
    assert {"401", "403", "404", "409", "413", "415", "422", "429", "503"} <= set(complete)
    assert not {"409", "413", "404"} & set(DOCUMENT["paths"]["/jobs"]["get"]["responses"])
    assert not {"401", "403"} & set(DOCUMENT["paths"]["/health/live"]["get"]["responses"])
    assert {(route.method, route.path) for route in ALL} >= refusals.CONFLICTS


def test_headers_are_described_where_they_are_sent() -> None:
    responses = DOCUMENT["paths"]["/jobs"]["post"]["responses"]
    assert set(responses["201"]["headers"]) == {"X-Request-Id", "Location"}
    assert {"Idempotency-Replayed", "Idempotency-Mismatch"} <= set(responses["200"]["headers"])
    for name in ("RateLimited", "Unavailable"):
        assert "Retry-After" in DOCUMENT["components"]["responses"][name]["headers"]
    (key, *_) = DOCUMENT["paths"]["/jobs"]["post"]["parameters"]
    assert (key["name"], key["in"], key["schema"]["maxLength"]) == ("Idempotency-Key", "header", 255)


def test_the_page_for_people_shows_every_call_field_and_problem() -> None:
    shown = contract_page(DOCUMENT).decode()
    for route in ALL:
        assert f"<code>{route.method} {route.path}</code>" in shown
        for kind in (route.body, route.query):
            for field in kind.__struct_encode_fields__ if kind is not None else ():
                assert f"<code>{field}</code>" in shown
    for code in set(BY_CODE) - {"start-refused"}:
        assert f"/problems/{code}" in shown


@pytest.mark.parametrize("code", sorted(set(BY_CODE) - {"start-refused"}))
def test_every_problem_says_what_to_do(code: str) -> None:
    assert advice(BY_CODE[code])
    if BY_CODE[code].status != 500:
        assert advice(BY_CODE[code]) != advice(BY_CODE["internal"])
