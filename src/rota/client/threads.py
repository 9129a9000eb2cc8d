"""Threads for sync handlers: one per running handler, kept for the next one.

They are daemons: a handler that never returns cannot hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Work = tuple[Callable[[], Any], asyncio.Future[Any]]


class HandlerThreads:
    """Runs callables in threads of their own; grows with what runs at once, never shrinks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._threads = 0
        self._busy = 0

    def run(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """A future of the callable's answer, or of what it raises."""
        future = self._loop.create_future()
        self._busy += 1
        future.add_done_callback(self._returned)
        if self._busy > self._threads:
            self._threads += 1
            threading.Thread(target=self._serve, name=f"rota-handler-{self._threads}", daemon=True).start()
        self._work.put((work, future))
        return future

    def close(self) -> None:
        """Let idle threads end."""
        for _ in range(self._threads):
            self._work.put(None)

    def _returned(self, _: asyncio.Future[Any]) -> None:
        self._busy -= 1

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            work, future = item
            answer: Any = None
            raised: BaseException | None = None
            try:
                answer = work()
            except BaseException as error:  # whatever a handler raises is its outcome
                raised = error
            try:
                self._loop.call_soon_threadsafe(_settle, future, answer, raised)
            except RuntimeError:  # the loop has ended: nobody waits any more
                return
            del item, work, future, answer, raised


def _settle(future: asyncio.Future[Any], answer: Any, raised: BaseException | None) -> None:
    if future.done():
        return
    if raised is None:
        future.set_result(answer)
    elif isinstance(raised, StopIteration):  # a future refuses to hold one
        future.set_exception(RuntimeError("the handler raised StopIteration"))
    else:
        future.set_exception(raised)
