"""How the server is: asked by anybody, so answered from a copy that is at most a second old."""

from __future__ import annotations

import time
from typing import Final

from rota.services.disk import Disk
from rota.store.base import Store

FRESH_SECONDS: Final = 1.0


class Health:
    """Looks at the database and the disk."""

    def __init__(self, store: Store, disk: Disk) -> None:
        self._reader = store.reader
        self._disk = disk
        self._look_at = 0.0
        self._checks: dict[str, str] = {}

    async def checks(self) -> dict[str, str]:
        """Each part with ``ok`` or what is wrong with it."""
        moment = time.monotonic()
        if moment >= self._look_at:
            self._look_at = moment + FRESH_SECONDS
            self._checks = {
                "database": "ok" if await self._reader.healthy() else "unavailable",
                "disk": "low" if self._disk.low() else "ok",
            }
        return self._checks


def is_ready(checks: dict[str, str]) -> bool:
    """Whether requests make sense: a full disk still lets running jobs be finished."""
    return checks.get("database") == "ok"
