"""Who may do what, and who sees what.

A :class:`Grant` is what a token is allowed: scopes, resource ranges and a priority ceiling. It answers
every question about rights; a :class:`Visibility` answers every question about what a reader sees.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from rota.domain.job import PRIORITIES, PRIORITY_LABELS, Job
from rota.errors import FieldError, Forbidden


class Scope(StrEnum):
    JOBS_ENQUEUE = "jobs:enqueue"
    JOBS_WORK = "jobs:work"
    JOBS_READ = "jobs:read"
    JOBS_MANAGE = "jobs:manage"
    TYPES_READ = "types:read"
    TYPES_WRITE = "types:write"
    SCHEDULES_READ = "schedules:read"
    SCHEDULES_WRITE = "schedules:write"
    SCHEDULES_TRIGGER = "schedules:trigger"
    EXECUTIONS_READ = "executions:read"
    EXECUTIONS_PURGE = "executions:purge"
    DETAIL_READ = "detail:read"
    TOKENS_MANAGE = "tokens:manage"
    OUTBOUND_MANAGE = "outbound:manage"
    FLOWS_READ = "flows:read"
    FLOWS_START = "flows:start"
    NOTIFICATIONS_SEND = "notifications:send"
    USERS_MANAGE = "users:manage"
    AUDIT_READ = "audit:read"
    METRICS_READ = "metrics:read"


ALL_SCOPES: Final = frozenset(Scope)
_OBSERVER: Final = frozenset(
    {
        Scope.JOBS_READ,
        Scope.TYPES_READ,
        Scope.SCHEDULES_READ,
        Scope.EXECUTIONS_READ,
        Scope.FLOWS_READ,
        Scope.METRICS_READ,
    }
)


class Preset(msgspec.Struct, frozen=True):
    """A ready-made set of scopes with its default priority ceiling."""

    scopes: frozenset[Scope]
    max_priority: int = PRIORITIES["medium"]
    open_api_only: bool = False


PRESETS: Final[dict[str, Preset]] = {
    "producer": Preset(frozenset({Scope.JOBS_ENQUEUE})),
    "worker": Preset(frozenset({Scope.JOBS_WORK})),
    "observer": Preset(_OBSERVER),
    "operator": Preset(
        _OBSERVER | {Scope.JOBS_MANAGE, Scope.SCHEDULES_WRITE, Scope.SCHEDULES_TRIGGER, Scope.DETAIL_READ},
        PRIORITIES["high"],
    ),
    "integrator": Preset(
        frozenset({Scope.SCHEDULES_READ, Scope.SCHEDULES_TRIGGER, Scope.EXECUTIONS_READ}),
        open_api_only=True,
    ),
    "admin": Preset(ALL_SCOPES, PRIORITIES["critical"]),
}

Range = frozenset[str] | None
"""The names that something is limited to; None means all."""

RANGES: Final = ("types", "queues", "schedules", "groups", "services", "flows")

UNKNOWN_KEY_ID: Final = "there is no token with this key id; GET /tokens lists those that you may manage"


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a token is allowed to do."""

    scopes: frozenset[Scope]
    max_priority: int = PRIORITIES["medium"]
    types: Range = None
    queues: Range = None
    schedules: Range = None
    groups: Range = None
    services: Range = None
    flows: Range = None
    open_api_only: bool = False

    def admits(self, queue: str, type: str) -> bool:
        """Whether a job of this queue and type lies within the range."""
        return (self.types is None or type in self.types) and (self.queues is None or queue in self.queues)

    def missing_for(self, other: Grant) -> list[FieldError]:
        """What ``other`` has and this grant lacks, one entry a field. Who lacks nothing may hand it out."""
        missing = []
        if scopes := other.scopes - self.scopes:
            missing.append(
                FieldError("scopes", "beyond-own", f"you do not hold {', '.join(sorted(scopes))} yourself")
            )
        if other.max_priority > self.max_priority:
            own = PRIORITY_LABELS[self.max_priority]
            missing.append(FieldError("max_priority", "beyond-own", f"your own ceiling is {own}"))
        for name in self.narrower_than(other):
            own_range = _listed(getattr(self, name))
            missing.append(FieldError(name, "beyond-own", f"your own token is limited to {own_range}"))
        if self.open_api_only and not other.open_api_only:
            missing.append(
                FieldError("open_api_only", "beyond-own", "your own token is limited to the Open API")
            )
        return missing

    def narrower_than(self, other: Grant) -> list[str]:
        """The ranges of ``other`` that go beyond this grant's."""
        names = []
        for name in RANGES:
            own: Range = getattr(self, name)
            asked: Range = getattr(other, name)
            if own is not None and (asked is None or not asked <= own):
                names.append(name)
        return names


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:5]) + (" …" if len(ordered) > 5 else "") if ordered else "nothing"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: a token's immutable id and name, with what it is allowed."""

    id: str
    name: str
    grant: Grant
    key_id: str = ""
    rate_limit_per_minute: int | None = None
    credential: bytes = b""
    """The stored hash of the secret that was shown, so that a rotation ends what that secret began."""
    kind: str = "token"
    """What the id names: a token, or ``local`` for in-process mode, which needs none."""
    expires_at: int | None = None
    """Until when what was shown is good: the token, or its previous secret."""

    def missing_for(
        self, grant: Grant, rate_limit_per_minute: int | None, expires_at: int | None
    ) -> list[FieldError]:
        """What a token would have beyond the principal's own rights, calls a minute and lifetime."""
        missing = self.grant.missing_for(grant)
        own_rate, own_end = self.rate_limit_per_minute, self.expires_at
        if own_rate is not None and (rate_limit_per_minute is None or rate_limit_per_minute > own_rate):
            message = f"your own token may make {own_rate:,} calls a minute"
            missing.append(FieldError("rate_limit_per_minute", "beyond-own", message))
        if own_end is not None and (expires_at is None or expires_at > own_end):
            missing.append(FieldError("expires_at", "beyond-own", "your own token ends before"))
        return missing

    def may(self, scope: Scope) -> bool:
        return scope in self.grant.scopes

    def require_in_range(self, queue: str, type: str) -> None:
        """Raise Forbidden unless jobs of this queue and type lie within the token's range."""
        if not self.grant.admits(queue, type):
            raise Forbidden("the token's range does not hold this type and queue")

    def require_priority(self, priority: int) -> None:
        """Raise Forbidden when an explicit priority lies above the ceiling."""
        if priority > self.grant.max_priority:
            ceiling = PRIORITY_LABELS[self.grant.max_priority]
            raise Forbidden(f"the token's highest priority is {ceiling}; ask for a token that allows more")


class Actor(msgspec.Struct, frozen=True):
    """Who changes something, for the record that administrative verbs leave."""

    kind: str
    id: str
    address: str | None = None
    request_id: str | None = None
    name: str | None = None


class Visibility(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a reader sees and which of their fields; the one place for both.

    A job is visible when it lies within the range and the reader may read all jobs, is its producer
    or holds it. Everything else does not exist for this reader.
    """

    reads_all: bool = False
    producer: str | None = None
    """Sees the jobs that this producer enqueued."""
    holder: str | None = None
    """Sees the jobs that this token holds."""
    types: Range = None
    queues: Range = None
    detail: bool = False
    keys_of: str | None = None
    """Sees the idempotency keys of this producer."""
    all_keys: bool = False

    @classmethod
    def of(cls, principal: Principal) -> Visibility:
        grant = principal.grant
        return cls(
            reads_all=principal.may(Scope.JOBS_READ),
            producer=principal.id if principal.may(Scope.JOBS_ENQUEUE) else None,
            holder=principal.id if principal.may(Scope.JOBS_WORK) else None,
            types=grant.types,
            queues=grant.queues,
            detail=principal.may(Scope.DETAIL_READ),
            keys_of=principal.id,
            all_keys=principal.may(Scope.TOKENS_MANAGE),
        )

    def sees(self, job: Job) -> bool:
        if (self.types is not None and job.type not in self.types) or (
            self.queues is not None and job.queue not in self.queues
        ):
            return False
        return self.reads_all or self._produced(job) or self._holds(job)

    def _produced(self, job: Job) -> bool:
        return self.producer is not None and job.producer == self.producer

    def _holds(self, job: Job) -> bool:
        return self.holder is not None and job.owner == self.holder and job.status == "running"

    def mask(self, job: Job, *, just_held: bool = False) -> Job:
        """The job with everything taken out that this reader may not see; ``has_error`` stays.

        ``just_held`` says that the reader held the job until this very request.
        """
        key = job.idempotency_key if self.all_keys or job.producer == self.keys_of else None
        if self.detail:
            return job if key == job.idempotency_key else replace(job, idempotency_key=key)
        if just_held or self._produced(job) or self._holds(job):
            return replace(job, idempotency_key=key, error=None)
        return replace(job, idempotency_key=key, error=None, payload=None, result=None, progress_message=None)


EVERYTHING: Final = Visibility(reads_all=True, detail=True, all_keys=True)
"""What the server itself sees."""
