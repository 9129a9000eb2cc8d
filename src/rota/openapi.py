"""The OpenAPI 3.1 document, made from the route table, the structs of the wire and the words about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from rota import __version__
from rota.api import refusals, vocabulary
from rota.api.call import HTML
from rota.api.contract_page import contract_page
from rota.api.examples import STRUCTS
from rota.api.meta import needs_in_words, static
from rota.api.route import Route
from rota.problems import CONTENT_TYPE
from rota.wire import EnqueueRequest, Problem

_REF: Final = "#/components/schemas/{name}"
_PROBLEM: Final = CONTENT_TYPE.decode()
_FORM: Final = (
    "JSON in UTF-8. Instants are RFC 3339 in UTC, durations are seconds, ids are integers of up to 64 bits. "
    "Unknown fields and parameters are refused (422). Read answers tolerantly: later releases add fields. "
    "Send X-Request-Id (1 to 64 letters, digits, dots, dashes, underscores) to name a request yourself. "
    "Every refusal is a problem whose type is a page that says what to do."
)
_ABOUT: Final = ("description", "examples")
_TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token: rota_<key id>_<secret>. What it may do is shown at each call.",
}


def documentation(routes: Sequence[Route]) -> tuple[Route, ...]:
    """The routes that describe ``routes`` and themselves: /openapi.json and /docs."""

    def described(body: bytes, page: bytes) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/openapi.json",
                handler=static(body),
                summary="This contract for programs",
                tag="server",
                public=True,
                answers={200: dict[str, Any]},
            ),
            Route(
                method="GET",
                path="/docs",
                handler=static(page, HTML),
                summary="This contract for people",
                tag="server",
                public=True,
                answers={200: str},
            ),
        )

    everything = (*routes, *described(b"", b""))
    body = document(everything)
    return described(body, contract_page(msgspec.json.decode(body)))


def document(routes: Sequence[Route]) -> bytes:
    """The document as JSON."""
    kinds: list[Any] = [Problem, EnqueueRequest]
    for route in routes:
        kinds += [kind for kind in (route.body, route.query, *route.answers.values()) if kind is not None]
    kinds = list(dict.fromkeys(kinds))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    of: dict[Any, Any] = dict(zip(kinds, schemas, strict=True))
    described = {name: _described(name, schema) for name, schema in components.items()}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, of, described)
    queries = {route.query.__name__ for route in routes if route.query is not None}
    refused = sorted({status for route in routes for status in refusals.statuses(route)})
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Rota",
                "version": __version__,
                "summary": "Durable background jobs and schedules behind one guarded HTTP API",
                "description": _FORM,
                "license": {"name": "MIT", "identifier": "MIT"},
            },
            "servers": [{"url": "/"}],
            "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
            "paths": paths,
            "components": {
                "schemas": {
                    **vocabulary.SHARED,
                    **{name: schema for name, schema in described.items() if name not in queries},
                },
                "responses": {refusals.title(status): _refusal(status, of[Problem]) for status in refused},
                "headers": refusals.HEADERS,
                "securitySchemes": {"token": _TOKEN},
            },
        }
    )


def _described(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A struct's schema with the words about it and its fields."""
    made = {**schema, **STRUCTS.get(name, {})}
    if "properties" in schema:
        made["properties"] = {
            field: _told(each, _words_for(name, field)) for field, each in schema["properties"].items()
        }
    return made


def _words_for(struct: str, field: str) -> vocabulary.Words:
    """The words for a field; none where nothing has been written about it."""
    return vocabulary.FIELDS.get(f"{struct}.{field}") or vocabulary.FIELDS.get(field, {})


def _told(schema: dict[str, Any], words: vocabulary.Words) -> dict[str, Any]:
    """The schema with the words: constraints go to what it is when it is not null."""
    if {} in schema.get("anyOf", ()):
        schema = {key: value for key, value in schema.items() if key != "anyOf"}  # any JSON, null as well
    constraints = {key: value for key, value in words.items() if key not in _ABOUT}
    about = {key: words[key] for key in _ABOUT if key in words}
    branches = schema.get("anyOf")
    if branches is None:
        return {**_constrained(schema, constraints), **about}
    narrowed = [each if each == {"type": "null"} else _constrained(each, constraints) for each in branches]
    return {**schema, "anyOf": narrowed, **about}


def _constrained(schema: dict[str, Any], constraints: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in constraints:
        kept = {key: schema[key] for key in ("default",) if key in schema}
        return {**constraints, **kept}
    made = {**schema, **constraints}
    items = constraints.get("items")
    if items is not None and "$ref" not in items and "items" in schema:
        made["items"] = {**schema["items"], **items}
    return made


def _operation(route: Route, of: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    refused = refusals.statuses(route)
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": f"Needs {needs_in_words(route)}.",
        "tags": [route.tag],
        "security": [] if route.public else [{"token": []}],
        "parameters": _parameters(route, components),
        "responses": {
            **{str(status): _answer(route, status, of) for status in route.answers},
            **{
                str(status): {"$ref": f"#/components/responses/{refusals.title(status)}"}
                for status in refused
                if status not in route.answers
            },
        },
    }
    if route.body is not None:
        fields = components[route.body.__name__]
        operation["requestBody"] = {
            "required": bool(fields.get("required")),
            "content": {"application/json": {"schema": of[route.body]}},
        }
    return operation


def _operation_id(route: Route) -> str:
    words = route.handler.__name__ if route.handler.__name__ != "handler" else route.path.strip("/")
    return words.replace(".", "_")


def _answer(route: Route, status: int, of: dict[Any, Any]) -> dict[str, Any]:
    kind = route.answers[status]
    response: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "headers": _headers(refusals.headers_of_answer(route, status)),
    }
    content: dict[str, Any] = {}
    if kind is not None:
        plain = "text/plain" if route.path == "/metrics" else "text/html"
        content[plain if kind is str else "application/json"] = {"schema": of[kind]}
    if status in refusals.statuses(route):
        content[_PROBLEM] = {"schema": of[Problem]}
    if content:
        response["content"] = content
    return response


def _refusal(status: int, problem: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": refusals.explained(status),
        "headers": _headers(refusals.headers_of_refusal(status)),
        "content": {_PROBLEM: {"schema": problem, "example": refusals.example(status)}},
    }


def _headers(names: Sequence[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _parameters(route: Route, components: dict[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    if "{" in route.path:
        name = route.path[route.path.index("{") + 1 : route.path.index("}")]
        parameters.append(_parameter(name, "path", dict(vocabulary.PATH.get(name, {"type": "string"}))))
    parameters += [
        _parameter(name, "header", dict(words))
        for name, words in refusals.SENT_WITH.get((route.method, route.path), {}).items()
    ]
    if route.query is not None:
        parameters += [
            _parameter(name, "query", _present(schema))
            for name, schema in components[route.query.__name__]["properties"].items()
        ]
    return parameters


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    parameter: dict[str, Any] = {"name": name, "in": place, "required": place == "path"}
    if "description" in schema:
        parameter["description"] = schema.pop("description")
    return {**parameter, "schema": schema}


def _present(schema: dict[str, Any]) -> dict[str, Any]:
    """What a parameter may be when it is given: null is no text."""
    present = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    for branch in schema.get("anyOf", ()):
        if branch != {"type": "null"}:
            present = {**branch, **present}
    if schema.get("default") is not None:
        present["default"] = schema["default"]
    return present
