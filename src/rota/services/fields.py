"""Reads single fields of requests; what is wrong with one is raised as a ValidationFailed that names it."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from rota.domain.job import MAX_DELAY_SECONDS, PRIORITIES
from rota.domain.names import LABEL, NAME, RESERVED_PREFIX
from rota.errors import FieldError, Forbidden, ValidationFailed
from rota.wire import parse_instant

MAX_TIMEOUT_SECONDS: Final = MAX_DELAY_SECONDS
LATEST_INSTANT: Final = 253_370_764_800_000
"""The start of the year 9999; beyond, calendars end."""

SHOWN_NAMES: Final = 10
"""Of a token's range in a refusal."""


def require_name(text: str, field: str) -> None:
    """Refuse what no type and no queue may be called."""
    if not NAME.fullmatch(text):
        raise ValidationFailed.of(
            field,
            "not-a-name",
            "must be 1 to 64 of a-z, 0-9, dot, dash and underscore, the first a letter or digit",
        )
    if text.startswith(RESERVED_PREFIX):
        raise ValidationFailed.of(field, "reserved", "must not begin with rota., which belongs to the server")


def require_label(text: str, field: str) -> None:
    """Refuse what no token and no worker process may be called."""
    if not LABEL.fullmatch(text):
        raise ValidationFailed.of(
            field, "not-a-name", "must be 1 to 64 letters, digits, dots, dashes and underscores"
        )


def parse_priority(label: str, field: str) -> int:
    """The number of a priority label in any case."""
    priority = PRIORITIES.get(label.lower())
    if priority is None:
        raise ValidationFailed.of(field, "unknown-priority", f"must be one of {', '.join(PRIORITIES)}")
    return priority


def parse_timeout(seconds: float, field: str = "timeout_seconds") -> float:
    """A handler's time limit: above 0, at most 30 days."""
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        raise ValidationFailed.of(field, "out-of-range", f"must be above 0 and at most {MAX_TIMEOUT_SECONDS}")
    return seconds


def instant_of(text: str, field: str) -> int:
    """An RFC 3339 instant of the years 1970 to 9998, in milliseconds."""
    try:
        at = parse_instant(text)
    except (ValueError, OverflowError):
        at = -1
    if not 0 <= at < LATEST_INSTANT:
        raise ValidationFailed.of(
            field, "not-an-instant", "must be an RFC 3339 instant such as 2026-12-01T08:30:00.000Z"
        )
    return at


def out_of_range(asked: Iterable[str], own: AbstractSet[str], field: str) -> Forbidden:
    """The refusal of names beyond a token's range: it tells the caller's own input and range, no more."""
    beyond = [name for name in sorted(set(asked) - own) if NAME.fullmatch(name)]
    names = sorted(own)
    held = ", ".join(names[:SHOWN_NAMES]) + (" and others" if len(names) > SHOWN_NAMES else "")
    refused = f", not {', '.join(beyond[:SHOWN_NAMES])}" if beyond else ""
    message = f"the token may use the {field.rstrip('s')}s {held} only{refused}"
    return Forbidden(message, errors=[FieldError(field, "out-of-range", message)])


def within(value: float, low: float, high: float, field: str) -> float:
    """``value`` if it lies between the bounds, both included."""
    if not low <= value <= high:
        raise ValidationFailed.of(field, "out-of-range", f"must lie between {low:,} and {high:,}")
    return value
