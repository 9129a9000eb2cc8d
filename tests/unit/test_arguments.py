"""Typed arguments and results: they arrive as they were sent, and faults name the argument's path."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from rota import Task
from rota.client import documents
from rota.client.tasks import BadPayload
from rota.errors import ValidationFailed


class Colour(Enum):
    RED = "red"


@dataclass
class Address:
    street: str
    lines: list[Decimal]


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


class Options(TypedDict):
    copies: int


class Line(pydantic.BaseModel):
    amount: int
    due: datetime | None = None


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    number: uuid.UUID
    placed: datetime
    lines: list[Line] = []
    to: str = pydantic.Field(default="nobody", alias="recipient")


NUMBER = uuid.UUID(int=7)
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def task_of(kind: Any) -> Task[..., Any]:
    """A task with one argument ``value`` of this type."""

    def typed(value: Any) -> None: ...

    typed.__annotations__["value"] = kind
    return Task(typed)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Colour, Colour.RED),
        (Address, Address("High Street", [Decimal("1.10")])),
        (Point, Point(1.5)),
        (Options, Options(copies=2)),
        (uuid.UUID, NUMBER),
        (datetime, NOON),
        (Decimal, Decimal("0.10")),
        (set[int], {1, 2}),
        (Order, Order(number=NUMBER, placed=NOON, lines=[Line(amount=3, due=NOON)], recipient="Ann")),
        (list[Line] | None, [Line(amount=1), Line(amount=2)]),
        (dict[str, Order], {"a": Order(number=NUMBER, placed=NOON)}),
    ],
)
def test_a_typed_argument_arrives_as_it_was_sent(kind: Any, value: Any) -> None:
    task = task_of(kind)
    payload = documents.encode(task.job(value=value).payload, "payload")
    assert task.arguments(payload) == {"value": value}


@pytest.mark.parametrize(
    ("kind", "payload", "path", "what"),
    [
        (Address, b'{"street":"a","lines":["x"]}', "value.lines[0]", "decimal"),
        (Point, b'{"y":1}', "value", "missing required field `x`"),
        (Options, b'{"copies":"two"}', "value.copies", "Expected `int`"),
        (Colour, b'"blue"', "value", "Invalid enum value"),
        (Line, b'{"amount":"many"}', "value.amount", "valid integer"),
        (list[Line], b'[{"amount":1},{"amount":null}]', "value[1].amount", "valid integer"),
        (Order, b'{"number":"7","placed":1,"lines":[{"amount":[]}]}', "value.number", "(and 2 more)"),
        (Line, b"3", "value", "object"),
    ],
)
def test_a_payload_that_does_not_fit_names_the_path(kind: Any, payload: bytes, path: str, what: str) -> None:
    with pytest.raises(BadPayload) as refused:
        task_of(kind).arguments(b'{"value":' + payload + b"}")
    assert str(refused.value).endswith(f" - at argument `{path}`")
    assert what in str(refused.value)


def test_a_models_fault_does_not_show_the_value() -> None:
    with pytest.raises(BadPayload) as refused:
        task_of(Line).arguments(b'{"value":{"amount":"hunter2"}}')
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "path", "what"),
    [
        (lambda: {"lines": [1, {"price": object()}]}, "payload.lines[1].price", "builtins.object"),
        (lambda: {"to": Address("\ud800", [])}, "payload.to.street", "lone surrogate"),
        (lambda: {"at": Point(float("nan"))}, "payload.at.x", "NaN"),
        (lambda: {"orders": [None, {"x": float("inf")}]}, "payload.orders[1].x", "Infinity"),
    ],
)
def test_a_value_that_json_cannot_write_names_the_path(
    make: Callable[[], dict[str, Any]], path: str, what: str
) -> None:
    with pytest.raises(ValidationFailed) as refused:
        documents.encode(make(), "payload")
    assert refused.value.errors[0].field == path
    assert what in refused.value.detail


def test_results_may_be_models() -> None:
    assert documents.encode([Line(amount=3)], "result") == b'[{"amount":3,"due":null}]'


def test_pydantic_is_never_imported_for_its_own_sake() -> None:
    script = (
        "import sys, rota\n"
        "@rota.task\n"
        "def count(n: int) -> None: ...\n"
        "count.arguments(count.job(n=1).body() and b'{\"n\":1}')\n"
        "print('pydantic' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20
    )
    assert ran.stdout.strip() == "False"
