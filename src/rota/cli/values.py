"""Values as people write them on a command line: durations and instants."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from cyclopts import Parameter, Token

from rota.cli.failures import Misuse
from rota.wire import parse_instant

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """Seconds from ``90``, ``90s``, ``1.5m``, ``2h`` or ``1d``. Raises Misuse for anything else."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found.group(1)) * _SECONDS[found.group(2) or "s"] if found else math.inf
    if not math.isfinite(seconds):
        raise Misuse(
            f"{text!r} is not a duration. Write seconds, or a number with ms, s, m, h or d: 90, 5m, 2h."
        )
    return seconds


def spoken(seconds: float) -> str:
    """A duration as one says it: ``90 s``, ``5 min``, ``1 h``."""
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def instant(text: str) -> datetime:
    """An RFC 3339 instant with its zone. Raises Misuse for anything else."""
    try:
        return datetime.fromtimestamp(parse_instant(text.strip()) / 1000, UTC)
    except (ValueError, OverflowError):
        raise Misuse(
            f"{text!r} is not an instant. Write date, time and zone, such as 2026-12-01T08:30:00Z."
        ) from None


def _duration_of(_: type, tokens: Sequence[Token]) -> float:
    return duration(tokens[0].value)


def _instant_of(_: type, tokens: Sequence[Token]) -> datetime:
    return instant(tokens[0].value)


DURATION: Final = Parameter(converter=_duration_of, metavar="TIME", show_default=False)
INSTANT: Final = Parameter(converter=_instant_of, metavar="INSTANT")
FLAG: Final = Parameter(negative="", show_default=False)
"""A switch that is off unless it is given."""
NAMES: Final = Parameter(negative="", metavar="NAME")
"""A flag that may be repeated."""
JSON: Final = Parameter(
    name="--json", negative="", show_default=False, help="Print one JSON document and nothing else."
)
