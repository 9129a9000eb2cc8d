"""Reads bodies and query strings into structs, and says precisely what is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET

from rota.errors import FieldError, Malformed, NotAvailableYet, RotaError, ValidationFailed
from rota.services.payloads import too_deep
from rota.wire import LATER, FinishBatchRequest, Request

T = TypeVar("T", bound=msgspec.Struct)

MAX_DIAGNOSED_BYTES: Final = 1_048_576
MAX_PARAMETERS: Final = 50
MAX_SHOWN: Final = 64
_WHERE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_NAMED = re.compile(r"Object (?P<fault>contains unknown|missing required) field `(?P<name>.*)`", re.DOTALL)
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: one character
    rb"|\\u(?P<lone>[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)
_VISIBLE = re.compile(rb"\\\\u([dD][89a-fA-F][0-9a-fA-F]{2})")


def body_reader(struct: type[T]) -> Callable[[bytes], T]:
    """A function that decodes a body; it raises Malformed or ValidationFailed. No body counts as ``{}``."""
    decode = msgspec.json.Decoder(struct).decode

    def read(body: bytes) -> T:
        try:
            return decode(body or b"{}")
        except (msgspec.DecodeError, RecursionError) as fault:
            raise explain(fault, struct, body) from None

    return read


def bounded_reader(read: Callable[[bytes], T], field: str, most: int) -> Callable[[bytes], T]:
    """``read`` for a body whose list ``field`` may hold at most ``most`` items; more are never decoded.

    A struct that reads an array by position keeps its first ``most`` + 1 items and skips over the rest,
    so a body of millions of tiny items costs neither their memory nor their time.
    """
    nothing = msgspec.Raw()
    places = [(f"item_{n}", msgspec.Raw, nothing) for n in range(most + 1)]
    items = msgspec.defstruct("Items", places, array_like=True, gc=False)
    decode = msgspec.json.Decoder(msgspec.defstruct("Body", [(field, items, None)])).decode

    def bounded(body: bytes) -> T:
        if body.count(b",") >= most:
            try:
                found = getattr(decode(body), field)
            except (msgspec.DecodeError, RecursionError):
                found = None  # `read` will say what is wrong
            if found is not None and getattr(found, f"item_{most}"):
                raise ValidationFailed.of(
                    field, "too-many", f"holds more than {most:,} items; send less at once"
                )
        return read(body)

    return bounded


def text_body_reader(struct: type[T]) -> Callable[[bytes], T]:
    """As :func:`body_reader`, for bodies with an error, log or progress text.

    A lone surrogate in them is never a reason to refuse: it arrives as the six characters of its escape.
    """
    decode = body_reader(struct)

    def read(body: bytes) -> T:
        try:
            return decode(body)
        except ValidationFailed:
            visible = _ESCAPES.sub(_made_visible, body)
            if visible == body:
                raise
        decoded = decode(visible)
        if isinstance(decoded, FinishBatchRequest):
            for outcome in decoded.outcomes:
                if outcome.result is not UNSET:
                    # A result is kept as it is or refused: given back its surrogates, it is refused.
                    outcome.result = msgspec.Raw(_VISIBLE.sub(rb"\\u\1", bytes(outcome.result)))
        return decoded

    return read


def _made_visible(found: re.Match[bytes]) -> bytes:
    lone = found["lone"]
    return found[0] if lone is None else rb"\\u" + lone


def query_reader(struct: type[T]) -> Callable[[bytes], T]:
    """A function that reads a query string; it raises ValidationFailed for unknown and repeated names."""

    def read(query: bytes) -> T:
        found = _parameters(query)
        try:
            decoded = msgspec.convert(found, struct, strict=False)
        except msgspec.ValidationError as fault:
            raise explain(fault, struct, b"") from None
        for name, text in found.items():
            # The lenient decoder takes the word null for a value that is missing.
            if text.lower() == "null" and msgspec.to_builtins(decoded)[name] is None:
                raise ValidationFailed.of(name, "invalid", "null is no value; leave the parameter out")
        return decoded

    return read


def no_query(query: bytes) -> None:
    """The reader of routes that take no parameters."""
    for name in _parameters(query):
        raise _unknown(name[:MAX_SHOWN])


def _parameters(query: bytes) -> dict[str, str]:
    if not query:
        return {}
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        raise ValidationFailed("the query string cannot be read; write it as name=value&name=value") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValidationFailed("a query parameter is given twice; give each once")
    return found


def explain(
    fault: msgspec.DecodeError | RecursionError, struct: type[msgspec.Struct], body: bytes
) -> RotaError:
    """What to answer when a body or query does not fit ``struct``."""
    if isinstance(fault, RecursionError):
        return too_deep("body")
    if not isinstance(fault, msgspec.ValidationError):
        return _unreadable(fault, body)
    match = _WHERE.fullmatch(str(fault))
    assert match is not None
    what, path = match["what"], match["path"] or ""
    named = _NAMED.fullmatch(what)
    if named is None:
        return ValidationFailed.of(path or "body", "invalid", what[0].lower() + what[1:].replace("`", ""))
    name = named["name"][:MAX_SHOWN]
    where = f"{path}.{name}" if path else name
    if named["fault"] == "missing required":
        return ValidationFailed.of(where, "missing", "is required")
    if issubclass(struct, Request) and name in LATER.get(struct, ()):
        return not_yet(where)
    return _unknown(where)


def not_yet(where: str) -> NotAvailableYet:
    """What a field or parameter is answered with whose part is not built yet."""
    message = "is not available yet; leave it out"
    return NotAvailableYet(f"{where}: {message}", errors=[FieldError(where, NotAvailableYet.code, message)])


def _unknown(where: str) -> ValidationFailed:
    return ValidationFailed.of(where, "unknown", "is not known here; leave it out")


def _unreadable(fault: msgspec.DecodeError, body: bytes) -> RotaError:
    """Broken JSON is malformed; JSON that only holds what no JSON may hold is said to be just that."""
    if len(body) <= MAX_DIAGNOSED_BYTES:
        try:
            json.loads(body.decode(), parse_constant=_refuse_constant)
        except _NotANumber as constant:
            return ValidationFailed.of(
                "body", "not-a-number", f"{constant} is no JSON; send null or a string instead"
            )
        except (ValueError, RecursionError):
            pass
        else:
            return ValidationFailed.of(
                "body", "lone-surrogate", "holds half of a surrogate pair (\\ud800 to \\udfff); remove it"
            )
    return Malformed(f"the body is not JSON in UTF-8: {fault}")


class _NotANumber(Exception):
    pass


def _refuse_constant(name: str) -> NoReturn:
    raise _NotANumber(name)
