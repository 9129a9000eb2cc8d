"""What operators send and get: changes of a pending job, actions on many jobs, queues, workers."""

from __future__ import annotations

import uuid
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from rota.wire import Request

Text = Annotated[str, Meta(min_length=1, max_length=200)]
MAX_ID: Final = 2**63 - 1


class ChangeRequest(Request):
    """What to change of a pending job; what is left out stays."""

    priority: str | UnsetType = UNSET
    run_at: str | UnsetType | None = UNSET
    """null: as soon as possible."""


class ActionFilter(Request):
    """Which jobs an action is about: the parameters of ``GET /jobs``."""

    status: str | None = None
    type: str | None = None
    queue: str | None = None
    key: str | None = None
    schedule_id: Annotated[int, Meta(ge=0, le=MAX_ID)] | None = None
    tag: str | None = None
    q: Text | None = None
    created_after: str | None = None
    created_before: str | None = None


class ActionRequest(Request):
    """An action on all jobs that match. An empty filter needs ``all``."""

    action: Literal["replay", "cancel", "delete"]
    dry_run: bool
    filter: ActionFilter = msgspec.field(default_factory=ActionFilter)
    all: bool = False
    cursor: str | None = None


class ActionAnswer(msgspec.Struct, gc=False):
    matched: int
    """Jobs that match and whose state the action is for."""
    done: int
    remaining: int
    """Matching jobs that the action could still be done to, counted among the next 100,000."""
    next_cursor: str | None
    """Where to go on; null when all that matches has been looked at."""


class QueueRequest(Request):
    paused: bool | UnsetType = UNSET
    """Left out, a queue stays as paused as it is; a new one is not paused."""


class QueueAnswer(msgspec.Struct, gc=False):
    name: str
    paused: bool
    created_at: str
    updated_at: str


class QueueState(msgspec.Struct, gc=False):
    """A queue with the jobs in it that have not ended; each number stops at 10,000."""

    name: str
    paused: bool
    ready: int
    delayed: int
    running: int
    oldest_ready_seconds: float | None
    """For how long the job that waits longest at the head of a priority has been ready."""


class AnnouncedHandler(Request):
    """A type of jobs that a worker runs."""

    name: str
    description: str = ""
    schema: Raw | UnsetType = UNSET
    """JSON Schema of the arguments."""


class AnnounceRequest(Request):
    """What a worker says about itself."""

    host: str = ""
    pid: int = 0
    version: str = ""
    concurrency: int = 1
    handlers: list[AnnouncedHandler] = msgspec.field(default_factory=list)
    run: uuid.UUID | None = None
    """Drawn by the worker at its start; a new one under the same name is not asked to drain any more."""


class AnnouncedAnswer(msgspec.Struct, gc=False):
    drain_requested: bool
    """The worker should finish what it holds, take nothing more and end."""


class WorkerAnswer(msgspec.Struct, kw_only=True):
    id: int
    instance: str
    worker_id: str
    announced_by: str
    """The name of its token."""
    host: str
    pid: int
    version: str
    concurrency: int
    handlers: list[str]
    held: int
    """Jobs that it holds now, of those that the reader may see."""
    drain_requested: bool
    first_seen_at: str
    last_seen_at: str


class HandlerAnswer(msgspec.Struct, kw_only=True):
    name: str
    description: str
    schema: Raw | None
    """JSON Schema of the arguments."""
    announced_by: list[str]
    """The names of the tokens whose workers run it."""
    workers: int
    last_seen_at: str
