"""Actions on many jobs at once: replay, cancel or delete all that match a filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from msgspec.structs import asdict, replace

from rota.domain.access import Actor, Principal, Scope
from rota.domain.job import TERMINAL
from rota.errors import RateLimited, ValidationFailed
from rota.services.endings import Endings
from rota.services.queue import managed_by
from rota.store.base import JobFilter, Judge, Store
from rota.store.records import Action

MAX_DONE: Final = 10_000
"""Jobs that one call acts on."""
CHUNK: Final = 500
"""Jobs of one transaction."""
MAX_LOOKED_AT: Final = 1_000_000
"""Rows that one call looks at."""
MAX_LOOKED_AHEAD: Final = 100_000
"""Rows that a call looks at beyond the jobs it acted on, to count what remains."""

STATUSES: Final[dict[Action, frozenset[str]]] = {
    "replay": frozenset({"failed", "cancelled"}),
    "cancel": frozenset({"pending", "blocked", "running"}),
    "delete": frozenset(TERMINAL),
}
SCHEDULED: Final[dict[Action, Scope | None]] = {
    "replay": Scope.SCHEDULES_TRIGGER,
    "cancel": None,
    "delete": Scope.EXECUTIONS_PURGE,
}
"""What an action on jobs of schedules needs beside jobs:manage; without it they do not match."""


class Outcome:
    """What one call has done so far."""

    def __init__(self) -> None:
        self.matched = 0
        self.able = 0
        """Of those, the jobs that the action can do something to."""
        self.tried = 0
        self.done = 0
        self.next_before: int | None = None
        """The walk goes on below this id; None at its end."""

    @property
    def remaining(self) -> int:
        return self.able - self.tried


class Bulk:
    """Walks over the matching jobs in bounded steps; one call a token at a time."""

    def __init__(self, store: Store, endings: Endings) -> None:
        self._store = store
        self._reader = store.reader
        self._endings = endings
        self._busy: set[str] = set()

    async def act(
        self,
        principal: Principal,
        action: Action,
        wanted: JobFilter,
        actor: Actor,
        judge: Judge | None,
        *,
        dry_run: bool,
        before: int | None = None,
    ) -> Outcome:
        """Act on up to 10,000 matching jobs below ``before``, newest first, and count what remains.

        The walk ends after 1,000,000 rows, or 100,000 after the last job that it may act on; the counts are
        of what it has seen. Each chunk of 500 is a
        transaction of its own, before which ``judge`` is asked. Raises ValidationFailed when the filter
        names no status that the action is for, RateLimited while another action of the token goes on.
        """
        statuses = STATUSES[action] if wanted.statuses is None else wanted.statuses & STATUSES[action]
        if not statuses:
            allowed = ", ".join(sorted(STATUSES[action]))
            raise ValidationFailed.of(
                "filter.status", "not-for-action", f"{action} is for jobs that are {allowed}"
            )
        needed = SCHEDULED[action]
        scheduled = needed is None or principal.may(needed)
        told = {name: value for name, value in asdict(wanted).items() if value is not None}
        outcome = Outcome()
        looked_at, most = 0, MAX_LOOKED_AT
        cut: int | None = None
        with self._alone(principal.id):
            while True:
                step = await self._reader.candidates(
                    action,
                    replace(wanted, statuses=statuses),
                    managed_by(principal),
                    scheduled=scheduled,
                    before=before,
                )
                outcome.matched += step.matched
                outcome.able += len(step.ids)
                looked_at += step.looked_at
                room = 0 if dry_run else MAX_DONE - outcome.tried
                if mine := step.ids[:room]:
                    await self._do(principal, action, mine, statuses, actor, judge, outcome, told)
                    if outcome.tried == MAX_DONE:
                        cut = mine[-1]
                        most = min(most, looked_at + MAX_LOOKED_AHEAD)
                before = step.next_before
                if before is None or looked_at >= most:
                    break
        outcome.next_before = before if cut is None or (before is None and not outcome.remaining) else cut
        return outcome

    async def _do(
        self,
        principal: Principal,
        action: Action,
        ids: list[int],
        statuses: frozenset[str],
        actor: Actor,
        judge: Judge | None,
        outcome: Outcome,
        told: Mapping[str, object],
    ) -> None:
        for at in range(0, len(ids), CHUNK):
            refused = None if judge is None else judge()
            if refused is not None:
                raise refused
            chunk = ids[at : at + CHUNK]
            done = await self._store.act(action, chunk, statuses, managed_by(principal), actor, told)
            self._endings.announce(done)
            outcome.tried += len(chunk)
            outcome.done += len(done)

    @contextmanager
    def _alone(self, token_id: str) -> Iterator[None]:
        if token_id in self._busy:
            raise RateLimited("another action of this token is going on: wait for its answer", retry_after=1)
        self._busy.add(token_id)
        try:
            yield
        finally:
            self._busy.discard(token_id)
