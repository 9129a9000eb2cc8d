"""JSON Schemas of payloads: which ones are taken, and whether a payload fits.

A schema names nothing outside itself, cannot grow by referring to itself, and matches patterns with an engine
that takes linear time. So neither who writes a schema nor who sends a payload can hold the server up; a check
that is slow all the same is the last of its schema.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import unquote

import msgspec
import structlog

from rota.errors import FieldError, ValidationFailed
from rota.services.payloads import check_json

if TYPE_CHECKING:
    from jsonschema_rs import RegexOptions, Validator

FIELD: Final = "payload_schema"
MAX_BYTES: Final = 16_384
MAX_NODES: Final = 1_000
"""Schemas within a schema, each reference followed."""
SLOWEST_SECONDS: Final = 0.010
SLOWEST_COMPILE_SECONDS: Final = 0.100
MAX_FAULTS: Final = 20
MAX_LISTED_BYTES: Final = 4_096
"""Of a longer payload only the first fault is told: listing all takes much longer than finding one."""
MAX_SHOWN: Final = 200
PATTERN_BYTES: Final = 1 << 18

DIALECTS: Final = frozenset(
    f"{scheme}://json-schema.org/{name}{end}"
    for scheme in ("http", "https")
    for name in (
        "draft-04/schema",
        "draft-06/schema",
        "draft-07/schema",
        "draft/2019-09/schema",
        "draft/2020-12/schema",
    )
    for end in ("", "#")
)
_ELSEWHERE: Final = frozenset(
    {"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "$vocabulary"}
)
_ONE: Final = (
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
_MANY: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_NAMED: Final = (
    *("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"),
)
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")

log = structlog.get_logger("rota.schemas")
_decode: Final = msgspec.json.Decoder().decode


def check_schema(text: bytes) -> None:
    """Raise ValidationFailed when this cannot be the schema of payloads; takes up to 100 ms."""
    check_json(text, MAX_BYTES, FIELD)
    schema = _decode(text)
    if not isinstance(schema, dict):
        raise _refused("not-a-schema", "must be a JSON object that holds a JSON Schema")
    _check_references(schema)
    began = time.thread_time()
    try:
        _compiled(schema)
    except ValueError as fault:
        raise _refused("not-a-schema", f"is no valid JSON Schema: {_first_line(fault)}") from None
    if time.thread_time() - began > SLOWEST_COMPILE_SECONDS:
        raise _refused("too-costly", "takes too long to prepare; use fewer or shorter patterns")


class PayloadSchema:
    """The compiled schema of one type."""

    def __init__(self, type: str, text: bytes) -> None:
        self.type = type
        self.disabled = False
        """Whether a check took over 10 ms, so that payloads are taken unchecked."""
        self._validator = _compiled(_decode(text))

    def check(self, payload: bytes) -> None:
        """Raise ValidationFailed naming what is wrong in the payload, which is known to be storable JSON."""
        if self.disabled:
            return
        value = _decode(payload)
        # Processor time of this thread: a machine with much else to do makes no schema slow.
        began = time.thread_time()
        fits = self._validator.is_valid(value)
        taken = time.thread_time() - began
        if taken > SLOWEST_SECONDS:
            self.disabled = True
            log.warning("payload_schema_disabled", type=self.type, milliseconds=round(taken * 1000))
        if not fits:
            faults = self._faults(value, every=len(payload) <= MAX_LISTED_BYTES)
            raise ValidationFailed(
                "; ".join(f"{each.field}: {each.message}" for each in faults), errors=faults
            )

    def _faults(self, value: Any, *, every: bool) -> list[FieldError]:
        if every:
            return list(islice(_told(self._validator.iter_errors(value)), MAX_FAULTS))
        try:
            self._validator.validate(value)
        except ValueError as fault:
            return list(islice(_told([fault]), MAX_FAULTS))
        return [FieldError("payload", "schema", "does not fit the schema of its type")]


def _told(faults: Iterable[Any]) -> Iterator[FieldError]:
    """Each fault with the path of the value that it is about; the value itself is not repeated."""
    for fault in faults:
        path, keyword, said = fault.instance_path, fault.kind.name, fault.message
        if keyword == "required":
            yield FieldError(_place([*path, fault.kind.property]), "missing", "is required")
        elif keyword == "additionalProperties":
            for name in fault.kind.unexpected:
                yield FieldError(_place([*path, name]), "unknown", "is not known here; leave it out")
        else:
            yield FieldError(
                _place(path), _CAPITAL.sub("-", keyword).lower(), _cut(said.removeprefix("the value "))
            )


def _place(path: Sequence[str | int]) -> str:
    """Such as ``payload.items[3].price``."""
    where = "payload"
    for step in path:
        if isinstance(step, int):
            where += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            where += f".{step}"
        else:
            where += f"[{json.dumps(step[:MAX_SHOWN])}]"
    return _cut(where)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _first_line(fault: ValueError) -> str:
    return _cut(str(fault).partition("\n")[0])


# --- compiling ------------------------------------------------------------------------------------
# jsonschema_rs takes memory of its own, so it is loaded by the first schema only.


def _compiled(schema: Mapping[str, Any]) -> Validator:
    from jsonschema_rs import validator_for  # noqa: PLC0415

    return validator_for(
        dict(schema),
        validate_formats=True,
        retriever=_retrieve_nothing,
        mask="the value",
        pattern_options=_pattern_options(),
    )


@cache
def _pattern_options() -> RegexOptions:
    from jsonschema_rs import RegexOptions  # noqa: PLC0415

    return RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)


def _retrieve_nothing(_: str) -> NoReturn:
    raise ValueError("schemas refer to nothing outside themselves")


# --- references -----------------------------------------------------------------------------------


def _check_references(root: Mapping[str, Any]) -> None:
    """Refuse references that leave the schema, go in circles, or make it grow beyond the limit."""
    if "$schema" in root and root["$schema"] not in DIALECTS:
        raise _refused("unknown-dialect", "$schema must be draft 4, 6, 7, 2019-09 or 2020-12, or left out")
    nodes = 0
    waiting: list[tuple[Any, frozenset[str]]] = [(root, frozenset())]
    while waiting:
        schema, followed = waiting.pop()
        nodes += 1
        if nodes > MAX_NODES:
            raise _refused("too-large", f"holds more than {MAX_NODES:,} schemas when references are followed")
        if not isinstance(schema, dict):
            continue
        if found := _ELSEWHERE & schema.keys():
            raise _refused("not-allowed", f"{min(found)} is not taken; refer by $ref to #/…")
        if schema is not root and isinstance(schema.get("$id", schema.get("id")), str):
            raise _refused("not-allowed", "an inner $id is not taken: references would start from there")
        if (reference := schema.get("$ref")) is not None:
            if reference in followed:
                raise _refused("circular", f"{_cut(str(reference))} refers to itself")
            waiting.append((_resolved(root, reference), followed | {reference}))
        waiting += [(each, followed) for each in _inner(schema)]


def _inner(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas directly within a schema."""
    for keyword in _ONE:
        if isinstance(each := schema.get(keyword), dict):
            yield each
    for keyword in _MANY:
        if isinstance(listed := schema.get(keyword), list):
            yield from listed
    for keyword in _NAMED:
        if isinstance(named := schema.get(keyword), dict):
            yield from named.values()


def _resolved(root: Mapping[str, Any], reference: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise _refused("not-allowed", "$ref must begin with #/ : nothing outside the schema is read")
    at: Any = root
    for step in unquote(reference[2:]).split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict) and key in at:
            at = at[key]
        elif isinstance(at, list) and key.isdecimal() and int(key) < len(at):
            at = at[int(key)]
        else:
            raise _refused("unknown-reference", f"{_cut(reference)} leads to nothing")
    return at


def _refused(code: str, message: str) -> ValidationFailed:
    return ValidationFailed.of(FIELD, code, message)
