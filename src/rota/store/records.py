"""What a store keeps or answers beside jobs, types and tokens: queues, counts, steps of a walk."""

from __future__ import annotations

from typing import Literal

import msgspec

Action = Literal["replay", "cancel", "delete"]
"""What may be done to many jobs at once."""
Kept = Literal["completed", "failed", "cancelled"]
"""Jobs that are kept equally long; skipped ones go with completed ones."""


class Candidates(msgspec.Struct, frozen=True):
    """One step of a walk over the jobs that match the filter of a bulk action."""

    ids: list[int]
    """Those that the action can do something to, newest first."""
    matched: int
    next_before: int | None
    """Ask again with ``before`` set to this id; None at the end."""
    looked_at: int


class Expired(msgspec.Struct, frozen=True):
    """One step of a walk over old jobs."""

    ids: list[int]
    place: int
    """Ask again with ``after`` set to this id."""
    over: bool
    """Whether everything behind it is too young."""


class QueueRecord(msgspec.Struct, frozen=True):
    """A queue that was made, or paused."""

    name: str
    paused: bool
    created_at: int
    updated_at: int


class LaneCount(msgspec.Struct, frozen=True):
    """The jobs of one type in one queue that have not ended; each number may be capped."""

    queue: str
    type: str
    ready: int
    ready_since: int | None
    """When the job that has been at its head for longest became ready."""
    delayed: int
    running: int


class Handler(msgspec.Struct, frozen=True):
    """A type of jobs that a worker runs, as it describes it itself."""

    name: str
    description: str
    schema: str | None
    """JSON Schema of the arguments."""


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process says about itself."""

    instance: str
    owner: str
    """The id of its token."""
    worker_id: str
    host: str
    pid: int
    version: str
    concurrency: int
    run: str
    """What tells this process from the next one under the same name."""
    handlers: tuple[Handler, ...]
    digest: bytes
    """Of the handlers: they are written only when it has changed."""


class WorkerRecord(msgspec.Struct, frozen=True):
    """A worker process that has announced itself; ``handlers`` are the names of its types."""

    id: int
    instance: str
    owner: str
    worker_id: str
    host: str
    pid: int
    version: str
    concurrency: int
    drain_requested: bool
    first_seen_at: int
    last_seen_at: int
    handlers: tuple[str, ...] = ()


class CataloguedHandler(msgspec.Struct, frozen=True):
    """A handler as it was described last, and who runs it."""

    name: str
    description: str
    schema: str | None
    last_seen_at: int
    workers: int
    announced_by: tuple[str, ...]
    """Names of tokens."""
