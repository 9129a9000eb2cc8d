"""Retention: jobs that ended long ago are deleted, little by little."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from rota.clock import Clock
from rota.store.base import Store
from rota.store.records import Kept

CHUNK: Final = 1_000
"""Jobs of one transaction."""
PAUSE_SECONDS: Final = 0.1
"""Between two transactions, so that deleting a million never takes more than a part of the disk's time."""
FULL_PASS_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000


class Retention:
    """Sweeps the store; safe to run on every node at once.

    Ids and ends grow together, so each round goes on where the one before met jobs that were too young.
    Once an hour it begins at the oldest job again, for those that took long to end.
    """

    def __init__(
        self, store: Store, clock: Clock, days: Mapping[Kept, int], *, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        """``days`` after its end a job may be deleted; 0 keeps such jobs for ever."""
        self._store = store
        self._reader = store.reader
        self._clock = clock
        self._days = days
        self._pause = pause_seconds
        self._places: dict[Kept, int] = {}
        self._begun: dict[Kept, int] = {}

    async def run_once(self) -> int:
        """Delete what may go by now; returns how many jobs went."""
        now = self._clock.now()
        return sum([await self._sweep(kept, now, days) for kept, days in self._days.items() if days])

    async def _sweep(self, kept: Kept, now: int, days: int) -> int:
        if now - self._begun.get(kept, now - FULL_PASS_MS) >= FULL_PASS_MS:
            self._begun[kept], self._places[kept] = now, 0
        finished_before = now - days * DAY_MS
        gone = 0
        while True:
            step = await self._reader.expired(kept, finished_before, after=self._places[kept], limit=CHUNK)
            if step.ids:
                gone += await self._store.purge(step.ids, finished_before)
                await asyncio.sleep(self._pause)
            if step.over:
                return gone
            self._places[kept] = step.place
