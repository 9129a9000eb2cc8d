"""The audit: what was changed and refused, by whom; read by few, deleted by nobody.

Changes are noted by the store's verbs in their own transactions. This service counts refusals, so that a
flood of them cannot fill the disk, seals the rows every minute, and reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog
from msgspec.structs import replace

from rota.auth.seals import AuditSealer
from rota.clock import Clock
from rota.domain.access import RANGES, Principal
from rota.domain.audit import AuditFilter, AuditPage, Refusal
from rota.errors import Forbidden
from rota.store.base import Store

MINUTE_MS: Final = 60_000
MAX_KNOWN: Final = 200
"""Pairs of principal and route that a node tells apart within a minute; the others are counted together."""
OTHERS: Final = ("*", "*")

log = structlog.get_logger("rota.audit")


@dataclass(slots=True)
class _Count:
    refusal: Refusal
    times: int = 0
    """Since the last row that was written about it."""
    told: bool = False
    """Whether this minute's first row about it has been written."""


class Audit:
    """Belongs to one event loop."""

    def __init__(self, store: Store, sealer: AuditSealer, clock: Clock) -> None:
        self._store = store
        self._sealer = sealer
        self._clock = clock
        self._minute = clock.now() // MINUTE_MS
        self._counts: dict[tuple[str, str], _Count] = {}

    def refuse(self, principal: Principal, route: str, address: str, request_id: str) -> None:
        """Count a request that was answered with 403; :meth:`run_once` writes it down.

        ``route`` is its method and template. A principal gets two rows for a route and minute at most: the
        first refusal, and when the minute is over how many more there were.
        """
        key = (principal.id, route)
        if key not in self._counts and len(self._counts) >= MAX_KNOWN:
            key = OTHERS
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = _Count(
                Refusal(
                    actor_id=key[0],
                    actor_name=None if key == OTHERS else principal.name,
                    address=None if key == OTHERS else address,
                    request_id=request_id,
                    route=key[1],
                    times=0,
                )
            )
        count.times += 1

    async def run_once(self) -> None:
        """Write down new refusals; when a minute is over also the repeated ones, and seal. Once a second."""
        minute = self._clock.now() // MINUTE_MS
        over = minute != self._minute
        await self._write(everything=over)
        if over:
            self._minute = minute
            await self._seal()

    async def close(self) -> None:
        """Write down and seal what is left."""
        await self._write(everything=True)
        await self._seal()

    async def page(
        self, principal: Principal, wanted: AuditFilter, *, limit: int, before: int | None = None
    ) -> AuditPage:
        """Newest first, ids below ``before``. Raises Forbidden for a token that is limited to a range."""
        if any(getattr(principal.grant, name) is not None for name in RANGES):
            raise Forbidden("the audit tells of everything: reading it takes a token without a range")
        return await self._store.reader.audit(wanted, limit=limit, before=before)

    async def _write(self, *, everything: bool) -> None:
        due = [
            (key, count, count.times)
            for key, count in self._counts.items()
            if count.times and (everything or not count.told)
        ]
        if due:
            await self._store.record_refusals([replace(each.refusal, times=n) for _, each, n in due])
        for _, count, written in due:
            count.times -= written
            count.told = True
        if everything:
            self._counts = {key: count for key, count in self._counts.items() if count.times}
            for count in self._counts.values():
                count.told = False

    async def _seal(self) -> None:
        while (made := await self._store.seal_audit(self._sealer)) is not None:
            log.info("audit_sealed", last_id=made.last_id, seal=made.seal.hex())
