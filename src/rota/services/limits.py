"""Rate limits of tokens: so many calls a minute over all nodes.

A node reserves blocks of a sixtieth of the limit from the store and decides in memory. What it has
reserved and not used lapses with the minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from rota.clock import Clock
from rota.domain.access import Principal
from rota.errors import RateLimited
from rota.store.base import Store

MINUTE_MS: Final = 60_000
BLOCKS: Final = 60
"""How many blocks a minute's budget is cut into."""


class _Budget:
    """What this node may still spend for one token in one minute."""

    def __init__(self) -> None:
        self.minute = 0
        self.left = 0
        self.exhausted = False
        self.reserving = asyncio.Lock()

    def enter(self, minute: int) -> None:
        if minute > self.minute:
            self.minute, self.left, self.exhausted = minute, 0, False


class Limits:
    """Charges calls to the budgets of tokens that have a rate limit; others cost nothing."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._budgets: dict[str, _Budget] = {}

    def charge(self, principal: Principal, units: int = 1) -> Awaitable[None] | None:
        """Take ``units`` ≥ 1 calls, all or none; None when they were taken at once, else await the answer.

        Raises RateLimited, with the time until the next minute, at once or when awaited, and
        Unavailable when the store cannot decide.
        """
        limit = principal.rate_limit_per_minute
        if limit is None:
            return None
        budget = self._budgets.get(principal.id)
        if budget is None:
            budget = self._budgets[principal.id] = _Budget()
        if self._spend(budget, units, limit):
            return None
        return self._reserve(principal.id, budget, units, limit)

    def _spend(self, budget: _Budget, units: int, limit: int) -> bool:
        """Whether the units could be taken from what is reserved. Raises RateLimited when no more can be."""
        now = self._clock.now()
        budget.enter(now // MINUTE_MS)
        if budget.left >= units:
            budget.left -= units
            return True
        if budget.exhausted or units > limit:
            raise RateLimited(
                f"the token may make {limit:,} calls a minute, each item of a batch counts: slow down",
                retry_after=(MINUTE_MS - now % MINUTE_MS) / 1000,
            )
        return False

    async def _reserve(self, token_id: str, budget: _Budget, units: int, limit: int) -> None:
        async with budget.reserving:
            while not self._spend(budget, units, limit):
                minute = budget.minute
                asked = max(-(-limit // BLOCKS), units - budget.left)
                got = await self._store.reserve_calls(token_id, minute, asked, limit)
                if budget.minute == minute:
                    budget.left += got
                    budget.exhausted = got < asked
