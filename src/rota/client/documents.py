"""JSON documents as jobs carry them: payloads and results.

What the server would refuse is refused here first, with the reason, so that it never travels. NaN and
Infinity are refused rather than turned into null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from rota.domain.job import MAX_NESTING, MAX_PAYLOAD_BYTES
from rota.errors import ValidationFailed

_to_json = msgspec.json.Encoder().encode
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def encode(value: Any, field: str) -> bytes:
    """The JSON text of a payload or result.

    Raises ValidationFailed about ``field`` when the value is no JSON, holds NaN, Infinity, U+0000 or a
    lone surrogate, nests deeper than 100 levels or takes more than 65,536 bytes.
    """
    try:
        text = _to_json(value)
    except RecursionError:
        raise _deep(field) from None
    except UnicodeEncodeError:
        raise ValidationFailed.of(field, "bad-text", "holds a lone surrogate, which is no text") from None
    except (TypeError, ValueError, OverflowError) as fault:
        raise ValidationFailed.of(field, "not-json", f"cannot be written as JSON: {fault}") from None
    if len(text) > MAX_PAYLOAD_BYTES:
        message = f"takes {len(text):,} bytes as JSON; at most {MAX_PAYLOAD_BYTES:,} are allowed"
        raise ValidationFailed.of(field, "too-large", message)
    # msgspec writes NaN and Infinity as null: only a text with a null can hide one.
    if b"null" in text and not _finite(value):
        raise ValidationFailed.of(field, "not-finite", "holds NaN or Infinity, which JSON cannot write")
    if b"\\u0000" in text and _NUL.search(text):
        raise ValidationFailed.of(field, "bad-text", "holds the character U+0000")
    if text.count(b"[") + text.count(b"{") > MAX_NESTING and _depth(text) > MAX_NESTING:
        raise _deep(field)
    return text


def plain(text: str) -> str:
    """Text for an error, log or progress message: lone surrogates are written as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _deep(field: str) -> ValidationFailed:
    return ValidationFailed.of(field, "too-deep", f"nests deeper than {MAX_NESTING} levels")


def _finite(value: Any) -> bool:
    waiting = [msgspec.to_builtins(value)]
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


def _depth(text: bytes) -> int:
    depth = deepest = 0
    for byte in _STRING.sub(b"", text):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest
