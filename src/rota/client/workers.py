"""The calls about workers: announcing one, listing them, draining one, and what they run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from rota.client import calls
from rota.client.answers import Page, reader
from rota.client.protocol import Call
from rota.wire_admin import AnnounceRequest

MOST_LISTED: Final = 200
"""Items of a page."""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process that has announced itself within the last day."""

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
    """Jobs that it holds now, of those that the token may see."""
    drain_requested: bool
    first_seen_at: datetime
    last_seen_at: datetime


class HandlerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A type of jobs that some worker runs."""

    name: str
    description: str
    schema: dict[str, Any] | None = None
    """JSON Schema of the arguments."""
    announced_by: Sequence[str] = ()
    workers: int = 0
    last_seen_at: datetime


class Announced(msgspec.Struct, frozen=True):
    """The answer to an announcement."""

    drain_requested: bool = False


_encode = msgspec.json.Encoder().encode
_read_announced = reader(Announced)
_read_worker = reader(WorkerInfo)
_read_workers = reader(Page[WorkerInfo])
_read_handlers = reader(Page[HandlerInfo])


def announce(instance: str, request: AnnounceRequest) -> Call[Announced]:
    return Call("PUT", f"/workers/{quote(instance, safe='')}", _read_announced, _encode(request))


def workers(cursor: str | None) -> Call[Page[WorkerInfo]]:
    return Call("GET", calls.listing("/workers", {"limit": MOST_LISTED}, cursor), _read_workers)


def drain(id: int) -> Call[WorkerInfo]:
    return Call("POST", f"/workers/{id}/drain", _read_worker)


def handlers(cursor: str | None) -> Call[Page[HandlerInfo]]:
    return Call("GET", calls.listing("/handlers", {"limit": MOST_LISTED}, cursor), _read_handlers)
