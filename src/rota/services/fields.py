"""Reads single fields of requests; what is wrong with one is raised as a ValidationFailed that names it."""

from __future__ import annotations

import re
from typing import Final

from rota.domain.job import MAX_DELAY_SECONDS, PRIORITIES
from rota.errors import ValidationFailed
from rota.wire import parse_instant

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
"""What types and queues are called."""
RESERVED_PREFIX: Final = "rota."
MAX_TIMEOUT_SECONDS: Final = MAX_DELAY_SECONDS
LATEST_INSTANT: Final = 253_370_764_800_000
"""The start of the year 9999; beyond, calendars end."""


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


def within(value: float, low: float, high: float, field: str) -> float:
    """``value`` if it lies between the bounds, both included."""
    if not low <= value <= high:
        raise ValidationFailed.of(field, "out-of-range", f"must lie between {low:,} and {high:,}")
    return value
