"""The part of the route table about workers: announcing, listing, draining, and what they run."""

from __future__ import annotations

from typing import Final

from rota.api import workers
from rota.api.queries import PageQuery
from rota.api.route import Route, one_of
from rota.domain.access import Scope
from rota.wire import NoFields, Page
from rota.wire_admin import AnnouncedAnswer, AnnounceRequest, HandlerAnswer, WorkerAnswer

WORKERS: Final = (
    Route(
        method="PUT",
        path="/workers/{instance}",
        handler=workers.announce,
        summary="Announce a worker and its handlers, every 30 s or so; learn whether to drain",
        tag="workers",
        needs=one_of(Scope.JOBS_WORK),
        body=AnnounceRequest,
        answers={200: AnnouncedAnswer},
    ),
    Route(
        method="GET",
        path="/workers",
        handler=workers.list_workers,
        summary="List the workers of the last day that run a type within the token's range, newest first",
        tag="workers",
        needs=one_of(Scope.JOBS_READ),
        query=PageQuery,
        answers={200: Page[WorkerAnswer]},
    ),
    Route(
        method="POST",
        path="/workers/{id}/drain",
        handler=workers.drain,
        summary="Ask a worker to end its jobs, take no more and stop",
        tag="workers",
        needs=one_of(Scope.JOBS_MANAGE),
        body=NoFields,
        answers={200: WorkerAnswer},
    ),
    Route(
        method="GET",
        path="/handlers",
        handler=workers.list_handlers,
        summary="List what workers run, with descriptions and the schemas of arguments, by name",
        tag="workers",
        needs=one_of(Scope.JOBS_READ),
        query=PageQuery,
        answers={200: Page[HandlerAnswer]},
    ),
)
