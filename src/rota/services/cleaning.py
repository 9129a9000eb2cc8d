"""Cleans what workers report, in turn with everything else that the server does.

Cleaning costs about a thousand times what receiving the same text costs. So beyond a few KiB nobody's text
is cleaned before its lease is known to be held, no step holds the event loop for more than a few
milliseconds, requests take turns text by text, and what one request may have cleaned has a limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from rota.domain.job import MAX_ERROR_BYTES, MAX_LOG_BYTES, Beat, Finish
from rota.domain.redaction import CUT, clean, cleaning, cut, window
from rota.store.base import Reader

MAX_PROGRESS_BYTES: Final = 1_024
NO_REASON: Final = "the worker gave no reason"

SMALL: Final = 4_096
"""Characters of a request that are cleaned on the spot."""
MAX_CLEANED: Final = 262_144
"""Characters of a request that are looked at; of each text beyond, only the first ``SHORT``."""
SHORT: Final = 256
BREATH: Final = 1_024
"""Characters that are cleaned before everything else that waits gets its turn."""


class Report(NamedTuple):
    """A text as a worker sent it, and the outcome or heartbeat that it belongs to."""

    of: Finish | Beat
    field: str
    text: str
    limit: int
    """The most bytes of it that are stored."""

    @property
    def size(self) -> int:
        """How many characters of it would be looked at."""
        return min(len(self.text), window(self.limit))

    def keep(self, cleaned: str) -> None:
        """Put the cleaned text where this one stands."""
        of = self.of
        if isinstance(of, Finish):
            of.error = cleaned or NO_REASON
        elif self.field == "log":
            of.log = cleaned
        elif of.progress is not None:
            of.progress = replace(of.progress, message=cleaned)


class Cleaner:
    """Cleans the texts of outcomes and heartbeats; belongs to one event loop."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._turn = asyncio.Lock()

    async def clean(self, asked: Iterable[Finish | Beat]) -> None:
        """Replace every text of one request by what may be stored of it.

        Texts of jobs that are not held, which the store will refuse, become a mark. Raises Unavailable.
        """
        reports = [report for each in asked for report in _reports(each)]
        if sum(report.size for report in reports) <= SMALL:
            for report in reports:
                report.keep(clean(report.text, report.limit))
            return
        held = await self._reader.held([(each.of.id, each.of.owner, each.of.lease_token) for each in reports])
        left, breath = MAX_CLEANED, 0
        for report, is_held in zip(reports, held, strict=True):
            text = report.text if is_held else CUT
            if report.size > left:
                text = cut(text, SHORT)
            else:
                left -= report.size
            breath += len(text)
            if breath <= BREATH:
                report.keep(clean(text, report.limit))
                continue
            breath = 0
            async with self._turn:
                report.keep(await _cleaned(text, report.limit))


def _reports(asked: Finish | Beat) -> Iterator[Report]:
    if isinstance(asked, Finish):
        if asked.error is not None:
            yield Report(asked, "error", asked.error, MAX_ERROR_BYTES)
        return
    if asked.progress is not None and asked.progress.message is not None:
        yield Report(asked, "message", asked.progress.message, MAX_PROGRESS_BYTES)
    if asked.log is not None:
        yield Report(asked, "log", asked.log, MAX_LOG_BYTES)


async def _cleaned(text: str, limit: int) -> str:
    """``clean``, with everything else that waits between its steps."""
    steps = cleaning(text, limit)
    while True:
        await asyncio.sleep(0)
        try:
            next(steps)
        except StopIteration as end:
            cleaned: str = end.value
            return cleaned
