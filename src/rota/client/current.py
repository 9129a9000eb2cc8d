"""What a handler may say while it runs: progress, log lines, and how its attempt shall end."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from threading import Lock
from typing import Any, Final, Literal, NoReturn

import msgspec
from msgspec import Raw

from rota.domain.job import MAX_DELAY_SECONDS, MAX_LOG_BYTES, MAX_LOG_BYTES_PER_ATTEMPT
from rota.wire import ProgressReport

Stop = Literal["lost", "cancelled", "timeout", "stopped"]
"""Why a handler shall stop before its end."""


class Retry(Exception):  # raised by handlers: it says what shall happen
    """Ends the attempt as failed (counted) and asks for the next one, after ``after`` seconds if given."""

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = None if after is None else _delay(after)


class Fail(Exception):
    """Ends the job as failed: no further attempt is made."""


class Snooze(Exception):
    """Gives the job back without counting the attempt; it is due again after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"snoozed for {seconds} s")
        self.seconds = _delay(seconds)


class JobCancelled(Exception):
    """Raised by ``current_job().raise_if_cancelled()``."""


def _delay(seconds: float) -> float:
    if not (math.isfinite(seconds) and 0 <= seconds <= MAX_DELAY_SECONDS):
        raise ValueError(f"a delay is 0 to {MAX_DELAY_SECONDS} seconds, not {seconds}")
    return seconds


class Report:
    """What a handler has said and no heartbeat has carried yet. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._progress: ProgressReport | None = None
        self._lines: list[str] = []
        self._room = MAX_LOG_BYTES_PER_ATTEMPT

    def progress(self, report: ProgressReport) -> None:
        with self._lock:
            self._progress = report

    def log(self, text: str) -> None:
        """Keep a line; what goes beyond the server's limit for an attempt is dropped here."""
        with self._lock:
            if self._room > 0:
                self._lines.append(text[: self._room])
                self._room -= len(text) + 1

    def __bool__(self) -> bool:
        return self._progress is not None or bool(self._lines)

    def take(self) -> tuple[ProgressReport | None, str | None]:
        """Progress and as many log lines as one heartbeat carries."""
        with self._lock:
            progress, self._progress = self._progress, None
            size = number = 0
            for line in self._lines:
                size += len(line.encode("utf-8", "backslashreplace")) + 1
                if number and size > MAX_LOG_BYTES:
                    break
                number += 1
            text = "\n".join(self._lines[:number]) if number else None
            del self._lines[:number]
            return progress, text

    def put_back(self, progress: ProgressReport | None, text: str | None) -> None:
        """Keep what could not be sent, unless the handler has said something newer."""
        with self._lock:
            if self._progress is None:
                self._progress = progress
            if text is not None:
                self._lines.insert(0, text)


class HeldJob:
    """A job that this worker holds. ``stop`` is set by any thread, the rest by the worker's loop."""

    __slots__ = (
        "beat_due",
        "beaten",
        "claimed_at",
        "heartbeat_seconds",
        "id",
        "lease_seconds",
        "lease_token",
        "max_retries",
        "payload",
        "queue",
        "report",
        "retry_count",
        "said",
        "settled",
        "started",
        "stop",
        "timeout_seconds",
        "traceparent",
        "type",
    )

    def __init__(
        self,
        id: int,
        type: str,
        payload: Raw,
        lease_token: str,
        lease_seconds: float,
        heartbeat_seconds: float,
        timeout_seconds: float | None,
        retry_count: int,
        claimed_at: float,
        said: Callable[[HeldJob], None],
        queue: str = "default",
        max_retries: int = 0,
        traceparent: str | None = None,
    ) -> None:
        self.id = id
        self.type = type
        self.payload = payload
        self.lease_token = lease_token
        self.lease_seconds = lease_seconds
        self.heartbeat_seconds = heartbeat_seconds
        self.timeout_seconds = timeout_seconds
        self.retry_count = retry_count
        self.queue = queue
        self.max_retries = max_retries
        self.traceparent = traceparent
        self.claimed_at = claimed_at
        self.beat_due = claimed_at + heartbeat_seconds
        self.beaten = False  # a heartbeat has said that the handler has started
        self.started = False
        self.settled = False  # its end is decided, nothing may change it any more
        self.stop: Stop | None = None
        self.report: Report | None = None
        self.said = said  # called when the report has something new


_current: Final[ContextVar[HeldJob]] = ContextVar("rota_current_job")
enter: Final = _current.set
"""Makes a job the current one of the context it is called in."""


class CurrentJob:
    """The job whose handler is running. Its methods may be called from any thread.

    ``current_job()`` finds it in the handler, in the coroutines that it starts and in
    ``asyncio.to_thread``; hand the object itself to threads that you start.
    """

    def __init__(self, held: HeldJob) -> None:
        self._held = held

    @property
    def id(self) -> int:
        return self._held.id

    @property
    def type(self) -> str:
        return self._held.type

    @property
    def queue(self) -> str:
        return self._held.queue

    @property
    def payload(self) -> Any:
        """The payload as JSON has it, before the annotations; decoded at each access."""
        return msgspec.json.decode(self._held.payload)

    @property
    def max_retries(self) -> int:
        """How many further attempts follow the first when it fails."""
        return self._held.max_retries

    @property
    def retry_count(self) -> int:
        """Counted attempts that failed before this one."""
        return self._held.retry_count

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._held.retry_count + 1

    @property
    def cancelled(self) -> bool:
        """Whether the handler shall stop: cancelled, timed out, lost to another worker, or shutting down."""
        return self._held.stop is not None

    def raise_if_cancelled(self) -> None:
        """Raise JobCancelled when the handler shall stop. Sync handlers call it between steps."""
        if self._held.stop is not None:
            raise JobCancelled(self._held.stop)

    def snooze(self, seconds: float) -> NoReturn:
        """End this attempt uncounted, due again after so many seconds. Raises Snooze: let it pass."""
        raise Snooze(seconds)

    def progress(self, current: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the job is. Sent soon; of several in a short time only the last is."""
        self._report().progress(ProgressReport(current=current, total=total, message=message))
        self._held.said(self._held)

    def log(self, text: str) -> None:
        """Keep a line with the job, at most 256 KiB an attempt."""
        self._report().log(text)
        self._held.said(self._held)

    def _report(self) -> Report:
        if self._held.report is None:
            self._held.report = Report()
        return self._held.report


def current_job() -> CurrentJob:
    """The job that the calling handler works on. Raises LookupError outside of a handler."""
    held = _current.get(None)
    if held is None:
        raise LookupError("current_job() is known only inside a handler that a worker runs")
    return CurrentJob(held)
