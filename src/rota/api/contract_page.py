"""The contract for people: the OpenAPI document as one plain page, which loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from rota.api.meta import PROBLEMS, advice, page

Schema = Mapping[str, Any]


def contract_page(document: Schema) -> bytes:
    """Every call with its fields and answers, and every problem with what to do about it."""
    schemas = document["components"]["schemas"]
    calls = [
        (method.upper(), path, call)
        for path, methods in document["paths"].items()
        for method, call in methods.items()
    ]
    parts = [
        f"<p>{escape(document['info']['description'])}</p>",
        (
            "<p>The same for programs: <a href='/openapi.json'>/openapi.json</a>. "
            "<a href='#problems'>What each problem means</a>.</p>"
        ),
    ]
    for tag in document["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2>")
        parts += [
            _call(method, path, call, schemas) for method, path, call in calls if tag["name"] in call["tags"]
        ]
    parts.append("<h2 id='problems'>problems</h2>")
    rows = sorted(PROBLEMS.values(), key=lambda kind: (kind.status, kind.code))
    parts.append(
        _table(
            ("Status", "Code", "Meaning", "What to do"),
            (
                (
                    str(kind.status),
                    f"<a href='/problems/{kind.code}'>{_code(kind.code)}</a>",
                    escape(kind.title),
                    escape(advice(kind)),
                )
                for kind in rows
            ),
        )
    )
    return page("Rota", "".join(parts))


def _call(method: str, path: str, call: Schema, schemas: Schema) -> str:
    head = f"{_code(f'{method} {path}')} <span>{escape(call['summary'])}</span>"
    body = [f"<p>{escape(call['description'])}</p>"]
    if call["parameters"]:
        rows = ((_code(each["name"]), each["in"], *_meaning(each)) for each in call["parameters"])
        body += ["<p>Parameters</p>", _table(("Name", "In", "Holds", "Meaning"), rows)]
    if "requestBody" in call:
        named = _name(call["requestBody"]["content"]["application/json"]["schema"])
        body += _fields("Body", schemas[named])
    for status, answer in call["responses"].items():
        if "$ref" not in answer:
            body.append(f"<p>Answers {status}{_shown(answer, schemas)}</p>")
    refused = [status for status, answer in call["responses"].items() if "$ref" in answer]
    body.append(f"<p>May be refused with {', '.join(refused)}.</p>")
    return f"<details><summary>{head}</summary>{''.join(body)}</details>"


def _shown(answer: Schema, schemas: Schema) -> str:
    """What an answer brings: the names of its fields."""
    for media, content in answer.get("content", {}).items():
        if media != "application/json":
            return f": {escape(media)}"
        schema = schemas.get(_name(content["schema"]), content["schema"])
        fields = schema.get("properties", {})
        items = fields.get("items", {}).get("items", {})
        within = schemas.get(_name(items), {}).get("properties", {})
        words = ", ".join(_code(field) for field in fields)
        return f": {words}" + (f"; each item: {', '.join(map(_code, within))}" if within else "")
    return ", with nothing"


def _fields(title: str, schema: Schema) -> Iterator[str]:
    fields = schema.get("properties", {})
    if not fields:
        yield f"<p>{title}: none, or an empty object</p>"
        return
    required = schema.get("required", ())
    yield f"<p>{title}</p>"
    yield _table(
        ("Field", "Holds", "Meaning"),
        (
            (_code(name) + (" *" if name in required else ""), *_meaning(each))
            for name, each in fields.items()
        ),
    )
    if required:
        yield "<p>* must be given</p>"


def _meaning(described: Schema) -> tuple[str, str]:
    schema = described.get("schema", described)
    return escape(_holds(schema)), escape(described.get("description", schema.get("description", "")))


def _holds(schema: Schema) -> str:
    """What a value may be, in a few words."""
    if "anyOf" in schema:
        return " or ".join(_holds(each) for each in schema["anyOf"])
    if "$ref" in schema:
        return _name(schema)
    if "enum" in schema:
        values = [str(value) for value in schema["enum"]]
        return ", ".join(values[:8]) + (" …" if len(values) > 8 else "")
    kind: str = schema.get("format") or schema.get("type", "any JSON")
    if "items" in schema:
        kind = f"list of {_holds(schema['items'])}"
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum")
    if low is not None and high is not None:
        kind += f", {low:,} to {high:,}" if "minimum" in schema else f", above {low:,} to {high:,}"
    return kind


def _name(schema: Schema) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    made = "".join(f"<tr><td>{'<td>'.join(row)}</tr>" for row in rows)
    return f"<table><tr><th>{'<th>'.join(head)}</tr>{made}</table>"
