"""Drives every periodic task of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog

log = structlog.get_logger("rota.runner")


class Task(NamedTuple):
    """Work to repeat: ``run_once`` is called again ``interval_seconds`` after its last end."""

    name: str
    interval_seconds: float
    run_once: Callable[[], Awaitable[object]]


class Runner:
    """Runs tasks side by side until it is stopped. A task that fails is logged and goes on."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start every task now, in the running loop."""
        self._running = [
            asyncio.create_task(self._repeat(task), name=f"rota-{task.name}") for task in self._tasks
        ]

    async def stop(self) -> None:
        """Cancel the tasks and wait for their end."""
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running = []

    async def _repeat(self, task: Task) -> None:
        failing = False
        while True:
            try:
                await task.run_once()
                failing = False
            except Exception as error:
                if not failing:
                    # The class alone: a database error's text may hold values.
                    log.warning("task_failed", task=task.name, error=type(error).__name__)
                failing = True
            await asyncio.sleep(task.interval_seconds)
