"""How long a job waits before its next attempt."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from rota.errors import ValidationFailed

MAX_CAP_SECONDS = 30 * 24 * 3600.0
MAX_FACTOR = 100.0


class Backoff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The retry delay of a type: ``none``, ``fixed`` (base) or ``exponential`` (base · factor^n)."""

    strategy: Literal["none", "fixed", "exponential"] = "exponential"
    base_seconds: float = 2.0
    factor: float = 2.0
    cap_seconds: float = 3600.0
    jitter: float = 0.1


def validate(backoff: Backoff, where: str = "backoff") -> None:
    """Raise ``ValidationFailed`` that names the first field out of its range, as ``<where>.<field>``.

    Ranges: cap 0 to 30 days, base 0 to cap, factor 1 to 100, jitter 0 to 1; all finite.
    """
    ranges = (
        ("cap_seconds", backoff.cap_seconds, 0.0, MAX_CAP_SECONDS),
        ("base_seconds", backoff.base_seconds, 0.0, backoff.cap_seconds),
        ("factor", backoff.factor, 1.0, MAX_FACTOR),
        ("jitter", backoff.jitter, 0.0, 1.0),
    )
    for name, value, low, high in ranges:
        if not (math.isfinite(value) and low <= value <= high):
            limit = f"{high:g} (cap_seconds)" if name == "base_seconds" else f"{high:g}"
            message = f"must be a number from {low:g} to {limit}"
            raise ValidationFailed.of(f"{where}.{name}", "out-of-range", message)


def delay_ms(backoff: Backoff, n: int, random: float) -> int:
    """The delay in milliseconds after the (n+1)-th counted failure.

    ``n`` counts from 0; ``random`` is in [0, 1) and spreads the delay upwards by at most
    ``jitter``. The answer lies between 0 and cap · (1 + jitter) for every ``n`` ≥ 0.
    """
    if backoff.strategy == "none":
        return 0
    seconds = min(backoff.base_seconds, backoff.cap_seconds)
    if backoff.strategy == "exponential" and seconds > 0:
        try:
            seconds = min(seconds * backoff.factor**n, backoff.cap_seconds)
        except OverflowError:
            seconds = backoff.cap_seconds
    return int(seconds * 1000 * (1 + backoff.jitter * random))
