"""Judges JSON that is stored as it came: payloads and results.

The request's decoder has already checked the syntax while it skipped over the text. What is judged
here is whether every reader will be able to read it again: size, nesting, UTF-8, numbers that fit a
double, and no U+0000, which databases and many languages cannot hold.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rota.domain.job import MAX_NESTING
from rota.domain.json_text import holds_nul, nests_too_deep
from rota.errors import ValidationFailed

_EMPTY: Final = b"{}"
_decode = msgspec.json.Decoder().decode


def check_json(text: bytes, limit: int, field: str) -> None:
    """Raise ValidationFailed about ``field`` when the JSON text cannot be stored; ``limit`` in bytes."""
    if text == _EMPTY:
        return
    if len(text) > limit:
        raise ValidationFailed.of(
            field, "too-long", f"holds {len(text)} bytes of JSON, at most {limit} are allowed"
        )
    if nests_too_deep(text):
        raise too_deep(field)
    if holds_nul(text):
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
