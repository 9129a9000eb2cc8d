"""Every metric, event and span is declared with its meaning, and what is logged is what is declared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from docs.reference import FOLDER
from rota.telemetry import EVENTS, METRICS, SPANS, Spread

SOURCES = Path(rota.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "critical", "exception", "log"}
PAGE = (FOLDER / "observability.md").read_text(encoding="utf-8")


def logged() -> Iterator[tuple[str, object]]:
    """Each call of a structlog logger: where it stands, and the event that it names."""
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "structlog.get_logger(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "log"
                and node.func.attr in LEVELS
            ):
                event = node.args[1 if node.func.attr == "log" else 0]
                name = event.value if isinstance(event, ast.Constant) else ast.unparse(event)
                yield f"{path.relative_to(SOURCES)}:{node.lineno}", name


@pytest.mark.parametrize(("place", "event"), list(logged()), ids=str)
def test_every_logged_event_is_declared(place: str, event: object) -> None:
    assert event in EVENTS, f"{place}: give it a meaning in telemetry.EVENTS"


def test_every_declared_event_is_logged() -> None:
    assert set(EVENTS) == {event for _, event in logged()}


@pytest.mark.parametrize("name", [*METRICS, *EVENTS, *SPANS])
def test_everything_that_can_be_observed_is_described(name: str) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1


def test_a_counter_and_nothing_else_is_called_total() -> None:
    assert {name for name, one in METRICS.items() if one.kind == "counter"} == {
        name for name in METRICS if name.endswith("_total")
    }


def test_a_value_on_the_bound_of_a_bucket_lies_within_it() -> None:
    spread = Spread((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 7.0):
        spread.add(value)
    assert spread.counts == [2, 2, 1]
    assert spread.total == 12.0
