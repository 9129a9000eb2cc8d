"""Watches the free space of the disk that holds the database."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from rota.errors import Unavailable

LOOK_EVERY_SECONDS: Final = 1.0


class Disk:
    """Refuses new jobs while less than ``min_free_mb`` MiB are free; looks once a second."""

    def __init__(self, folder: Path, min_free_mb: int) -> None:
        self._folder = folder
        self._min_free = min_free_mb * 1_048_576
        self._look_at = 0.0
        self._low = False

    def require_space(self) -> None:
        """Raise Unavailable when the disk is nearly full."""
        if self.low():
            raise Unavailable(
                "the server's disk is nearly full: nothing is lost and running jobs can be finished, "
                "but new ones are taken only when there is space again",
                retry_after=30,
            )

    def low(self) -> bool:
        """Whether the disk is nearly full, by an answer at most one second old."""
        moment = time.monotonic()
        if moment >= self._look_at:
            self._look_at = moment + LOOK_EVERY_SECONDS
            found = os.statvfs(self._folder)
            self._low = found.f_bavail * found.f_frsize < self._min_free
        return self._low
