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
        self._store = store
        self._disk = disk
        self._look_at = 0.0
        self._checks: dict[str, str] = {}

    async def checks(self) -> dict[str, str]:
        """Each part with ``ok`` or what is wrong with it."""
        moment = time.monotonic()
        if moment >= self._look_at:
            self._look_at = moment + FRESH_SECONDS
            self._checks = {
                "database": "ok" if await self._store.reader.healthy() else "unavailable",
                "writer": "ok" if self._store.writes() else "stopped",
                "disk": "low" if self._disk.low() else "ok",
            }
        return self._checks


def is_ready(checks: dict[str, str]) -> bool:
    """Whether all is well: the database is written to, by this process too, and the disk has room."""
    return all(found == "ok" for found in checks.values())
