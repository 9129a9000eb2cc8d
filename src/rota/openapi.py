"""The OpenAPI 3.1 document, made from the route table and the structs of the wire."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from rota import __version__
from rota.api.call import HTML
from rota.api.meta import docs_page, needs_in_words, static
from rota.api.route import Route
from rota.wire import Problem

_REF: Final = "#/components/schemas/{name}"
_PROBLEM_MEDIA: Final = "application/problem+json"
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
    return described(document(everything), docs_page(everything))


def document(routes: Sequence[Route]) -> bytes:
    """The document as JSON."""
    kinds: list[Any] = [Problem]
    for route in routes:
        kinds += [kind for kind in (route.body, route.query, *route.answers.values()) if kind is not None]
    kinds = list(dict.fromkeys(kinds))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    of: dict[Any, Any] = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, of, components)
    queries = {route.query.__name__ for route in routes if route.query is not None}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Rota",
                "version": __version__,
                "summary": "Durable background jobs and schedules behind one guarded HTTP API",
                "license": {"name": "MIT", "identifier": "MIT"},
            },
            "servers": [{"url": "/"}],
            "paths": paths,
            "components": {
                "schemas": {name: schema for name, schema in components.items() if name not in queries},
                "securitySchemes": {"token": _TOKEN},
            },
        }
    )


def _operation(route: Route, of: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": f"Needs {needs_in_words(route)}.",
        "tags": [route.tag],
        "security": [] if route.public else [{"token": []}],
        "parameters": _parameters(route, components),
        "responses": {str(status): _response(status, kind, of) for status, kind in route.answers.items()},
    }
    operation["responses"]["default"] = {
        "description": "A problem: its type is a page that explains it.",
        "content": {_PROBLEM_MEDIA: {"schema": of[Problem]}},
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


def _response(status: int, kind: Any, of: dict[Any, Any]) -> dict[str, Any]:
    response: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if kind is not None:
        media = "text/html" if kind is str else "application/json"
        response["content"] = {media: {"schema": of[kind]}}
    return response


def _parameters(route: Route, components: dict[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    if "{" in route.path:
        name = route.path[route.path.index("{") + 1 : route.path.index("}")]
        schema = {"type": "integer", "minimum": 0} if name == "id" else {"type": "string"}
        parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    if route.path == "/jobs" and route.method == "POST":
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "1 to 255 printable ASCII characters; the same as the field idempotency_key.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            }
        )
    if route.query is not None:
        parameters += [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in components[route.query.__name__]["properties"].items()
        ]
    return parameters
