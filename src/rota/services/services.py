"""Everything that the API can ask, built once by ``compose``."""

from __future__ import annotations

from dataclasses import dataclass

from rota.auth.authenticate import Authenticator
from rota.clock import Clock
from rota.domain.access import Principal
from rota.services.audit import Audit
from rota.services.bulk import Bulk
from rota.services.health import Health
from rota.services.limits import Limits
from rota.services.measures import Measures
from rota.services.queue import Queue
from rota.services.queues import Queues
from rota.services.runner import Runner
from rota.services.tokens import Tokens
from rota.services.types import Types
from rota.services.waiting import Waiting
from rota.services.workers import Workers
from rota.store.base import Judge, Store


@dataclass(frozen=True, slots=True)
class Services:
    """The verbs, and the loops that run beside them."""

    clock: Clock
    store: Store
    authenticator: Authenticator
    limits: Limits
    queue: Queue
    bulk: Bulk
    queues: Queues
    types: Types
    tokens: Tokens
    health: Health
    waiting: Waiting
    measures: Measures
    runner: Runner
    workers: Workers
    audit: Audit

    def judge(self, principal: Principal) -> Judge | None:
        """Tells, as often as it is asked, whether the principal's token is still good; None without a token.

        Access to the file is nothing that could be revoked while a process has it open.
        """
        return self.authenticator.judge(principal) if principal.kind == "token" else None

    async def start(self) -> None:
        """Read what must be known before the first request, and start the loops."""
        await self.types.refresh()
        await self.store.sweep()
        self.runner.start()

    async def close(self) -> None:
        """Stop the loops, then the store: what it has taken is still committed, whatever fails before."""
        self.waiting.end()
        try:
            await self.runner.stop()
            await self.authenticator.record_uses()
            await self.audit.close()
        finally:
            await self.store.close()
