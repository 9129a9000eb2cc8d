"""Writes the tables that follow from the code into the pages: ``python -m docs.reference``.

A table stands between two marks in its page; the words around it are written by hand. While a table says
something else than the code, ``tests/unit/test_docs.py`` fails.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from rota.api.meta import advice, needs_in_words
from rota.api.route import Route
from rota.api.routes import ROUTES
from rota.cli.serve import run_server
from rota.domain.job import STATUSES
from rota.domain.transitions import TRANSITIONS, Event, refusal
from rota.errors import BY_CODE, StartError
from rota.openapi import documentation
from rota.settings import DEFAULT_DATA, PREFIX, SETTINGS_HELP, Settings
from rota.telemetry import EVENTS, METRICS, SPANS

FOLDER: Final = Path(__file__).parent

_MADE: Final = re.compile(
    r"(<!-- made by python -m docs\.reference: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL
)
_ROUTES: Final = (*ROUTES, *documentation(ROUTES))
_HINTS: Final[Mapping[str, Any]] = get_type_hints(Settings)


def refreshed(page: str) -> str:
    """The page with all its tables made anew."""
    return _MADE.sub(
        lambda found: found[1] + "".join(f"{line}\n" for line in TABLES[found[2]]()) + found[3], page
    )


def _calls() -> list[str]:
    lines: list[str] = []
    for tag in dict.fromkeys(route.tag for route in _ROUTES):
        rows = (
            (f"`{route.method} {route.path}`", route.summary, needs_in_words(route), _answers(route))
            for route in _ROUTES
            if route.tag == tag
        )
        lines += [
            f"## {tag.capitalize()}",
            "",
            *_table(("call", "what it does", "needs", "answers"), rows),
            "",
        ]
    return lines[:-1]


def _answers(route: Route) -> str:
    return ", ".join(str(status) for status in sorted(route.answers))


def _request_fields() -> list[str]:
    rows = ((f"`{route.method} {route.path}`", _inputs(route)) for route in _ROUTES if _inputs(route))
    return _table(("call", "fields"), rows)


def _inputs(route: Route) -> str:
    fields = [_field(one) for one in _fields(route.body)]
    if names := [f"`?{one.encode_name}`" for one in _fields(route.query)]:
        fields.append("in the query: " + ", ".join(names))
    return ", ".join(fields)


def _fields(struct: type[msgspec.Struct] | None) -> tuple[msgspec.structs.FieldInfo, ...]:
    return () if struct is None else msgspec.structs.fields(struct)


def _field(one: msgspec.structs.FieldInfo) -> str:
    name = f"`{one.encode_name}`"
    return f"**{name}**" if one.required else name


def _settings() -> list[str]:
    flags = inspect.signature(run_server).parameters
    rows = (
        (
            f"`{one.name}`",
            f"`{PREFIX}{one.name.upper()}`",
            f"`--{one.name.replace('_', '-')}`" if one.name in flags else "",
            _type(_HINTS[one.name]),
            _default(one),
            SETTINGS_HELP[one.name],
        )
        for one in msgspec.structs.fields(Settings)
    )
    return _table(("in the file", "variable", "flag", "value", "default", "meaning"), rows)


def _type(hint: Any) -> str:
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    if get_origin(hint) is Literal:
        return ", ".join(get_args(hint))
    if get_origin(hint) is tuple:
        return "list"
    kind = kinds[0] if kinds else hint
    return {str: "text", int: "number", bool: "true or false", Path: "path"}[kind]


def _default(one: msgspec.structs.FieldInfo) -> str:
    if one.name == "data":
        return f"`{DEFAULT_DATA}`"
    if isinstance(one.default, bool):
        return f"`{str(one.default).lower()}`"
    return "" if one.default in (None, ()) else f"`{one.default}`"


def _picture() -> list[str]:
    edges: dict[tuple[str, str], list[str]] = {}
    for (state, event), target in TRANSITIONS.items():
        edges.setdefault((state, target), []).append(event.value)
    arrows = [f"    {a} --> {b}: {', '.join(events)}" for (a, b), events in edges.items()]
    return ["```mermaid", "stateDiagram-v2", "    [*] --> pending: enqueue", *arrows, "```"]


def _transitions() -> list[str]:
    rows = ((f"`{event}`", *(_cell(status, event) for status in STATUSES)) for event in Event)
    return _table(("event", *STATUSES), rows)


def _cell(status: Any, event: Event) -> str:
    refused = refusal(status, event)
    return f"**{TRANSITIONS[status, event]}**" if refused is None else refused.code


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = (head, tuple("---" for _ in head), *rows)
    return [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines]


def _errors() -> list[str]:
    kinds = sorted((kind for kind in BY_CODE.values() if kind is not StartError), key=lambda one: one.status)
    rows = ((str(kind.status), f"`{kind.code}`", kind.title, advice(kind)) for kind in kinds)
    return _table(("status", "code", "meaning", "what to do"), rows)


def _metrics() -> list[str]:
    rows = (
        (f"`{name}`", one.kind, ", ".join(f"`{label}`" for label in one.labels), one.meaning)
        for name, one in METRICS.items()
    )
    return _table(("metric", "kind", "labels", "meaning"), rows)


def _events() -> list[str]:
    return _table(("event", "meaning"), ((f"`{name}`", meaning) for name, meaning in EVENTS.items()))


def _spans() -> list[str]:
    return _table(("span", "meaning"), ((f"`{name}`", meaning) for name, meaning in SPANS.items()))


TABLES: Final[Mapping[str, Callable[[], list[str]]]] = {
    "calls": _calls,
    "fields": _request_fields,
    "errors": _errors,
    "settings": _settings,
    "picture": _picture,
    "transitions": _transitions,
    "metrics": _metrics,
    "events": _events,
    "spans": _spans,
}


if __name__ == "__main__":
    for path in FOLDER.glob("*.md"):
        path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")
