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

    A wall clock that is set back never makes Rota's time go back: it stands still until the wall
    clock has caught up.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._latest = 0
        self._anchor()

    def _anchor(self) -> None:
        self._wall = time.time()
        self._monotonic = time.monotonic()

    def now(self) -> int:
        with self._lock:
            elapsed = time.monotonic() - self._monotonic
            if elapsed > REANCHOR_AFTER_SECONDS:
                self._anchor()
                elapsed = 0.0
            self._latest = max(self._latest, int((self._wall + elapsed) * 1000))
            return self._latest


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
