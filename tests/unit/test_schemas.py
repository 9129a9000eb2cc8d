"""Schemas of payloads: what is taken, what is told of a payload that does not fit, and when one gives up."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from typing import Any

import msgspec
import pytest

from rota.errors import ValidationFailed
from rota.services.schemas import PayloadSchema, check_schema

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"price": {"$ref": "#/$defs/amount"}},
                "required": ["price"],
                "additionalProperties": False,
            },
        },
        "code": {"type": "string", "pattern": "^(a+)+$", "maxLength": 60_000},
    },
    "$defs": {"amount": {"type": "number", "minimum": 0}},
}


def refused(schema: Any) -> str:
    """The code with which a schema is refused."""
    with pytest.raises(ValidationFailed) as caught:
        check_schema(msgspec.json.encode(schema))
    (fault,) = caught.value.errors
    assert fault.field == "payload_schema"
    return fault.code


def faults(schema: Any, payload: Any) -> dict[str, str]:
    """The faults of a payload: where each is, and its message."""
    compiled = PayloadSchema("order", msgspec.json.encode(schema))
    with pytest.raises(ValidationFailed) as caught:
        compiled.check(msgspec.json.encode(payload))
    return {each.field: each.message for each in caught.value.errors}


def test_a_payload_that_fits_is_taken() -> None:
    check_schema(msgspec.json.encode(ORDER))
    PayloadSchema("order", msgspec.json.encode(ORDER)).check(b'{"items":[{"price":1e300},{"price":0}]}')


def test_each_fault_is_told_with_its_path() -> None:
    payload = {"items": [{"price": 1}, {"price": -1}, {}, {"price": 1, "x": 2}]}
    assert faults(ORDER, payload) == {
        "payload.items[1].price": "is less than the minimum of 0",
        "payload.items[2].price": "is required",
        "payload.items[3].x": "is not known here; leave it out",
    }


def test_the_value_at_fault_is_not_repeated() -> None:
    schema = {"properties": {"card": {"enum": ["none"], "maxLength": 3, "pattern": "^n", "format": "email"}}}
    told = faults(schema, {"card": "4111-1111"})
    assert told
    assert "4111" not in str(told)


def test_odd_keys_stand_quoted_in_the_path() -> None:
    schema = {"additionalProperties": {"type": "string"}}
    assert list(faults(schema, {"a b\n": 1})) == ['payload["a b\\n"]']
    (where,) = faults(schema, {"x" * 5_000: 1})
    assert len(where) < 300


def test_no_more_than_twenty_faults_are_told_and_of_a_long_payload_the_first() -> None:
    schema = {"items": {"type": "string"}}
    assert len(faults(schema, list(range(500)))) == 20
    assert len(faults(schema, list(range(5_000)))) == 1


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ([], "not-a-schema"),
        ({"type": "nonsense"}, "not-a-schema"),
        ({"pattern": "(?=a)b"}, "not-a-schema"),
        ({"pattern": r"(a)\1"}, "not-a-schema"),
        ({"pattern": "a{1000}{1000}"}, "not-a-schema"),
        ({"description": "x" * 17_000}, "too-long"),
        ({"$schema": "https://example.org/mine"}, "unknown-dialect"),
        ({"$ref": "https://example.org/schema.json"}, "not-allowed"),
        ({"$ref": "file:///etc/passwd"}, "not-allowed"),
        ({"$ref": "#"}, "not-allowed"),
        ({"$ref": "#/$defs/missing"}, "unknown-reference"),
        ({"properties": {"a": {"$id": "https://example.org/", "$ref": "#/x"}}}, "not-allowed"),
        ({"allOf": [{"$dynamicRef": "#a"}]}, "not-allowed"),
        ({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}, "circular"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}, "circular"),
        ({"example": {"$ref": "#/example"}, "$ref": "#/example"}, "circular"),
    ],
)
def test_a_schema_that_could_do_harm_is_refused(schema: Any, code: str) -> None:
    assert refused(schema) == code


def test_references_that_multiply_are_refused_however_short_they_are() -> None:
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    assert refused({"$defs": {**doubling, "d40": {}}, "$ref": "#/$defs/d0"}) == "too-large"


def test_words_of_json_schema_may_be_names_of_properties() -> None:
    check_schema(msgspec.json.encode({"properties": {"$ref": {"type": "string"}, "id": {}, "$anchor": {}}}))
    check_schema(msgspec.json.encode({"const": {"$ref": "https://example.org"}}))


def test_a_pattern_takes_linear_time() -> None:
    assert "payload.code" in faults(ORDER, {"code": "a" * 50_000 + "b"})


def test_a_slow_check_is_the_last_of_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = PayloadSchema("order", msgspec.json.encode(ORDER))
    ticks = count(step=0.011)
    monkeypatch.setattr("time.thread_time", lambda: next(ticks))
    with pytest.raises(ValidationFailed):
        compiled.check(b'{"items":1}')
    assert compiled.disabled
    compiled.check(b'{"items":1}')


def test_without_a_schema_the_validator_is_not_loaded() -> None:
    lines = "import rota.server, rota.compose, sys; raise SystemExit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0
