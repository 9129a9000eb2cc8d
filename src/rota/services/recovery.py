"""Recovery: what nobody else does in time. Delayed jobs become ready, lapsed leases are counted."""

from __future__ import annotations

from rota.store.base import Store


class Recovery:
    """Sweeps the store; safe to run on every node at once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run_once(self) -> None:
        """Sweep until nothing is left that is due; each sweep is a bounded transaction of its own."""
        while (await self._store.sweep()).more:
            pass
