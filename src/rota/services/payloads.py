"""Judges JSON that is stored as it came: payloads and results.

The request's decoder has already checked the syntax while it skipped over the text. What is judged
here is whether every reader will be able to read it again: size, nesting, UTF-8, numbers that fit a
double, and no U+0000, which databases and many languages cannot hold.
"""

from __future__ import annotations

import re
from array import array
from itertools import accumulate
from typing import Final

import msgspec

from rota.domain.job import MAX_NESTING
from rota.errors import ValidationFailed

_EMPTY: Final = b"{}"
_decode = msgspec.json.Decoder().decode
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS = bytes.maketrans(b"{[]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(code for code in range(256) if code not in b"{}[]")


def check_json(text: bytes, limit: int, field: str) -> None:
    """Raise ValidationFailed about ``field`` when the JSON text cannot be stored; ``limit`` in bytes."""
    if text == _EMPTY:
        return
    if len(text) > limit:
        raise ValidationFailed.of(
            field, "too-long", f"holds {len(text)} bytes of JSON, at most {limit} are allowed"
        )
    if text.count(b"[") + text.count(b"{") > MAX_NESTING and _too_deep(text):
        raise too_deep(field)
    if b"\\u0000" in text and _NUL.search(text):
        raise ValidationFailed.of(field, "nul-character", "holds U+0000, which cannot be stored; remove it")
    try:
        _decode(text)
    except msgspec.ValidationError:
        raise ValidationFailed.of(
            field, "number-too-large", "holds a number beyond the range of a double; send it as a string"
        ) from None
    except msgspec.DecodeError:
        raise ValidationFailed.of(
            field, "not-text", "holds bytes that are not UTF-8 or half of a surrogate pair; remove them"
        ) from None
    except RecursionError:
        raise too_deep(field) from None


def too_deep(field: str) -> ValidationFailed:
    """What nesting beyond the limit is answered with."""
    return ValidationFailed.of(
        field, "too-deep", f"is nested deeper than {MAX_NESTING} levels; flatten it or send it as a string"
    )


def _too_deep(text: bytes) -> bool:
    """Whether more than ``MAX_NESTING`` brackets outside strings are open at once."""
    steps = array("b", _STRING.sub(b"", text).translate(_STEPS, _NO_BRACKETS))
    return max(accumulate(steps), default=0) > MAX_NESTING
