"""The only source of time: milliseconds since 1970-01-01 UTC, as integers.

Nothing else in Rota calls ``time.time`` or ``datetime.now``, and SQL never asks the database for
the time of a decision, so that tests can drive everything with :class:`FakeClock`.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import Protocol

REANCHOR_AFTER_SECONDS = 10.0


class Clock(Protocol):
    """Anything that tells the time."""

    def now(self) -> int:
        """The present instant in milliseconds since the epoch; never earlier than the last answer."""
        ...


class SystemClock:
    """Runs on the monotonic clock and is anchored to the wall clock again every 10 s.

    A wall clock that is set forward is followed at the next anchor. One that is set back never makes
    Rota's time go back or stand still: it runs at half speed until the wall clock has caught up, so that
    leases and back-offs last at most twice as long meanwhile.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._monotonic = time.monotonic()
        self._start = time.time()
        self._speed = 1.0

    def now(self) -> int:
        with self._lock:
            monotonic = time.monotonic()
            present = self._start + (monotonic - self._monotonic) * self._speed
            if self._speed < 1 or monotonic - self._monotonic > REANCHOR_AFTER_SECONDS:
                wall = time.time()
                self._speed = 1.0 if wall >= present else 0.5
                present = max(present, wall)
                self._start, self._monotonic = present, monotonic
            return int(present * 1000)


class Drift:
    """Watches the wall clock beside the steady one, from the moment it is made."""

    def __init__(self) -> None:
        self._monotonic = time.monotonic()
        self._wall = time.time()

    @property
    def seconds(self) -> float:
        """How long it has watched, by the steady clock."""
        return time.monotonic() - self._monotonic

    @property
    def ms(self) -> int:
        """How far the wall clock went ahead of the steady one meanwhile, or behind it (negative)."""
        return round((time.time() - self._wall - self.seconds) * 1000)


class FakeClock:
    """Time that stands still until a test moves it."""

    def __init__(self, now: int = 1_780_000_000_000) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> int:
        """Move the time forward by ``seconds`` and return the new instant."""
        self._now += round(seconds * 1000)
        return self._now
