"""JSON documents as jobs carry them: payloads and results.

What the server would refuse is refused here first, with the reason, so that it never travels. NaN and
Infinity are refused rather than turned into null.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from rota.client import models
from rota.domain.job import MAX_NESTING, MAX_PAYLOAD_BYTES
from rota.domain.json_text import holds_nul, nests_too_deep
from rota.errors import ValidationFailed

_to_json = msgspec.json.Encoder(enc_hook=models.to_builtins).encode


def encode(value: Any, field: str) -> bytes:
    """The JSON text of a payload or result.

    Raises ValidationFailed about ``field``, with the path within it, when the value is no JSON, holds NaN,
    Infinity, U+0000 or a lone surrogate, nests deeper than 100 levels or takes more than 65,536 bytes.
    """
    try:
        text = _to_json(value)
    except RecursionError:
        raise _deep(field) from None
    except UnicodeEncodeError:
        where = field + _path(value, _writable)
        raise ValidationFailed.of(where, "bad-text", "holds a lone surrogate, which is no text") from None
    except (TypeError, ValueError, OverflowError) as fault:
        where = field + _path(value, _writable)
        raise ValidationFailed.of(where, "not-json", f"cannot be written as JSON: {fault}") from None
    if len(text) > MAX_PAYLOAD_BYTES:
        message = f"takes {len(text):,} bytes as JSON; at most {MAX_PAYLOAD_BYTES:,} are allowed"
        raise ValidationFailed.of(field, "too-large", message)
    # msgspec writes NaN and Infinity as null: only a text with a null can hide one.
    if b"null" in text and not _finite(value):
        where = field + _path(value, _finite)
        raise ValidationFailed.of(where, "not-finite", "holds NaN or Infinity, which JSON cannot write")
    if holds_nul(text):
        raise ValidationFailed.of(field, "bad-text", "holds the character U+0000")
    if nests_too_deep(text):
        raise _deep(field)
    return text


def plain(text: str) -> str:
    """Text for an error, log or progress message: lone surrogates are written as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _deep(field: str) -> ValidationFailed:
    return ValidationFailed.of(field, "too-deep", f"nests deeper than {MAX_NESTING} levels")


def _path(value: Any, good: Callable[[Any], bool]) -> str:
    """Where within a value the innermost part is that is not good, such as ``.lines[2].price``."""
    for step, part in _parts(value):
        if not good(part):
            return step + _path(part, good)
    return ""


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f".{name}", part) for name, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{one.name}", getattr(value, one.name)) for one in dataclasses.fields(value))
    elif isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)


def _writable(value: Any) -> bool:
    try:
        _to_json(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    return True


def _finite(value: Any) -> bool:
    waiting = [msgspec.to_builtins(value, enc_hook=models.to_builtins)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, float):
            if not math.isfinite(part):
                return False
        elif isinstance(part, Mapping):
            waiting.extend(part.values())
        elif isinstance(part, list | tuple | set | frozenset):
            waiting.extend(part)
    return True
