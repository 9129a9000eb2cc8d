"""Waiting for the end of a job: told by this process at once, found by a look every half second otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rota.store.base import Judge, Reader


class Watch(NamedTuple):
    """Somebody who waits, and what is asked about them meanwhile."""

    ending: asyncio.Future[None]
    judge: Judge | None


class Endings:
    """Who waits for which job. Costs nothing while nobody waits."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._watched: dict[int, list[Watch]] = {}

    @contextmanager
    def watch(self, id: int, judge: Judge | None) -> Iterator[asyncio.Future[None]]:
        """A future that is done when the job may have ended: read it again then.

        It raises what ``judge`` returns once the caller's token is no longer good.
        """
        watch = Watch(asyncio.get_running_loop().create_future(), judge)
        self._watched.setdefault(id, []).append(watch)
        try:
            yield watch.ending
        finally:
            if not watch.ending.cancel() and not watch.ending.cancelled():
                watch.ending.exception()  # read, so that nobody is told that it never was
            left = [each for each in self._watched[id] if each is not watch]
            if left:
                self._watched[id] = left
            else:
                del self._watched[id]

    def announce(self, ids: Iterable[int]) -> None:
        """These jobs may have ended, or are gone."""
        if not self._watched:
            return
        for id in ids:
            for watch in self._watched.get(id, ()):
                if not watch.ending.done():
                    watch.ending.set_result(None)

    async def run_once(self) -> None:
        """Look for ends that other processes and sweeps brought about; send away whose token ended."""
        for watch in [each for watches in self._watched.values() for each in watches]:
            refused = None if watch.judge is None else watch.judge()
            if refused is not None and not watch.ending.done():
                watch.ending.set_exception(refused)
        if self._watched:
            self.announce(await self._reader.ended_of(list(self._watched)))
