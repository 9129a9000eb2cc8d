"""The calls that change or delete jobs and queues: each the request and how its answer is read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypedDict
from urllib.parse import quote

import msgspec

from rota.client import calls
from rota.client.answers import Page, reader
from rota.client.jobs import JobInfo
from rota.client.protocol import Call
from rota.errors import ValidationFailed
from rota.wire_admin import ActionFilter, ActionRequest, ChangeRequest, QueueRequest

LONGEST_WAIT_SECONDS: Final = 60.0
"""What one request may wait; longer waits take several."""

Action = Literal["replay", "cancel", "delete"]

_encode = msgspec.json.Encoder().encode


class ChangeOptions(TypedDict, total=False):
    """What to change of a pending job; ``run_at`` None is as soon as possible."""

    priority: str
    run_at: datetime | None


class ActionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an action on all jobs that match."""

    matched: int
    done: int
    remaining: int
    """Matching jobs that the action could still be done to."""
    next_cursor: str | None = None

    def and_then(self, later: ActionInfo, *, dry_run: bool) -> ActionInfo:
        """Both together, where ``later`` went on where this one ended."""
        # A call counts what it leaves to the next one; a dry run leaves nothing that it has counted.
        left = 0 if dry_run else self.remaining
        return ActionInfo(
            matched=self.matched - left + later.matched,
            done=self.done + later.done,
            remaining=self.remaining - left + later.remaining,
            next_cursor=later.next_cursor,
        )


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that was made or changed."""

    name: str
    paused: bool
    created_at: datetime
    updated_at: datetime


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with the jobs in it that have not ended; each number stops at 10,000."""

    name: str
    paused: bool
    ready: int
    delayed: int
    running: int
    oldest_ready_seconds: float | None = None


_read_job = reader(JobInfo)
_read_action = reader(ActionInfo)
_read_queue = reader(QueueInfo)
_read_queues = reader(Page[QueueCounts])


def ended(id: int, wait_seconds: float) -> Call[JobInfo]:
    """The job when it has ended, or as it is after ``wait_seconds`` (0 to 60)."""
    path = calls.listing(f"/jobs/{id}", {"wait_seconds": f"{wait_seconds:.3f}"}, None)
    return Call("GET", path, _read_job, wait_seconds=wait_seconds)


def change(id: int, options: ChangeOptions) -> Call[JobInfo]:
    asked: dict[str, Any] = dict(options)
    if (run_at := options.get("run_at")) is not None:
        asked["run_at"] = _instant("run_at", run_at)
    return Call("PATCH", f"/jobs/{id}", _read_job, _encode(ChangeRequest(**asked)))


def act(
    action: Action,
    filters: Mapping[str, object],
    *,
    dry_run: bool,
    everything: bool,
    cursor: str | None = None,
) -> Call[ActionInfo]:
    narrowed: dict[str, Any] = {
        name: _instant(name, value) if isinstance(value, datetime) else value
        for name, value in filters.items()
        if value is not None
    }
    asked = ActionRequest(
        action=action, dry_run=dry_run, filter=ActionFilter(**narrowed), all=everything, cursor=cursor
    )
    return Call("POST", "/jobs/actions", _read_action, _encode(asked), repeatable=dry_run)


def queues(cursor: str | None) -> Call[Page[QueueCounts]]:
    return Call("GET", calls.listing("/queues", {}, cursor), _read_queues)


def put_queue(name: str, paused: bool | None) -> Call[QueueInfo]:
    body = QueueRequest() if paused is None else QueueRequest(paused=paused)
    return Call("PUT", f"/queues/{quote(name, safe='')}", _read_queue, _encode(body))


def pause_queue(name: str, paused: bool) -> Call[QueueInfo]:
    verb = "pause" if paused else "resume"
    return Call("POST", f"/queues/{quote(name, safe='')}/{verb}", _read_queue)


def _instant(name: str, at: datetime) -> str:
    if at.tzinfo is None:
        raise ValidationFailed.of(name, "no-zone", "needs a time zone, for example datetime.UTC")
    return at.isoformat()
