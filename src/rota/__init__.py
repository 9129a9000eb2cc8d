"""Durable background jobs and schedules behind one guarded HTTP API.

Names are loaded when they are first used, so that ``import rota`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota.client.aio import AsyncClient
    from rota.client.client import Client
    from rota.client.current import CurrentJob, Fail, JobCancelled, Retry, Snooze, current_job
    from rota.client.jobs import ClaimedJob, JobInfo, JobSpec
    from rota.client.tasks import Task, Tasks, task
    from rota.client.worker import Worker
    from rota.errors import RotaError
    from rota.local import Local

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "ClaimedJob",
    "Client",
    "CurrentJob",
    "Fail",
    "JobCancelled",
    "JobInfo",
    "JobSpec",
    "Local",
    "Retry",
    "RotaError",
    "Snooze",
    "Task",
    "Tasks",
    "Worker",
    "current_job",
    "task",
]

_PLACES = {
    "AsyncClient": "rota.client.aio",
    "ClaimedJob": "rota.client.jobs",
    "Client": "rota.client.client",
    "CurrentJob": "rota.client.current",
    "Fail": "rota.client.current",
    "JobCancelled": "rota.client.current",
    "JobInfo": "rota.client.jobs",
    "JobSpec": "rota.client.jobs",
    "Local": "rota.local",
    "Retry": "rota.client.current",
    "RotaError": "rota.errors",
    "Snooze": "rota.client.current",
    "Task": "rota.client.tasks",
    "Tasks": "rota.client.tasks",
    "Worker": "rota.client.worker",
    "current_job": "rota.client.current",
    "task": "rota.client.tasks",
}


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'rota' has no attribute {name!r}")
    return getattr(import_module(place), name)
