"""How many pending jobs each producer has, so that one token cannot fill the queue for all others."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

from rota.errors import RateLimited
from rota.store.base import Reader

EXACT_BELOW: Final = 100_000
"""Up to this limit producers are always counted one by one."""
RECOUNT_SECONDS: Final = 1.0


class Backlog:
    """Counts pending jobs by sweep, and adds what this process has taken since.

    While all producers together have fewer than half the limit, none of them can be near it, and nobody
    is counted alone. What other servers on the same database take is seen by the next count.
    """

    def __init__(self, reader: Reader, most: int) -> None:
        self._reader = reader
        self._most = most
        self._at_least = 1 if most < EXACT_BELOW else most // 2
        self._counted: dict[str, int] = {}
        self._unknown = 0
        """What a producer that was not counted alone may have at most."""
        self._added: Counter[str] = Counter()
        self._recounted = 0.0

    async def require_room(self, producer: str, jobs: int) -> None:
        """Count ``jobs`` as taken. Raises RateLimited when the producer would have more than it may."""
        if self._expected(producer) + jobs > self._most:
            moment = time.monotonic()
            if moment - self._recounted >= RECOUNT_SECONDS:
                self._recounted = moment
                await self.run_once()
            if self._expected(producer) + jobs > self._most:
                raise RateLimited(
                    f"this token may have {self._most:,} pending jobs (max_pending): wait until workers have "
                    "taken some",
                    retry_after=5,
                )
        self._added[producer] += jobs

    async def run_once(self) -> None:
        """Count again."""
        added, self._added = self._added, Counter()
        try:
            counted = await self._reader.pending_by_producer(self._at_least)
        except BaseException:
            self._added += added
            raise
        self._counted = counted
        self._unknown = 0 if counted else self._at_least - 1

    def _expected(self, producer: str) -> int:
        return self._counted.get(producer, self._unknown) + self._added[producer]
