"""Spans of OpenTelemetry around what producers and workers do, where the application uses it.

Nothing is imported here: an application that has not imported OpenTelemetry has no span that could be
current and no tracer that would record one. The names of spans are those of :mod:`rota.telemetry`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from rota.client.current import HeldJob
from rota.domain.traces import SpanPlace, parse_traceparent
from rota.telemetry import RUN_SPAN

_NO_SPAN: Final = nullcontext()


def current_traceparent() -> str | None:
    """The span that is current now, for the job that is about to be enqueued; None without one."""
    trace = _trace()
    if trace is None:
        return None
    at = trace.get_current_span().get_span_context()
    return str(SpanPlace(at.trace_id, at.span_id, at.trace_flags)) if at.is_valid else None


def attempt(job: HeldJob) -> AbstractContextManager[None]:
    """A span around one attempt, linked to the one in which the job was enqueued."""
    trace = _trace()
    return _NO_SPAN if trace is None else _attempt(trace, job)


@contextmanager
def _attempt(trace: Any, job: HeldJob) -> Iterator[None]:
    attributes = {
        "rota.job.id": job.id,
        "rota.job.type": job.type,
        "rota.job.queue": job.queue,
        "rota.job.retry_count": job.retry_count,
    }
    tracer = trace.get_tracer("rota")
    span = tracer.start_span(
        RUN_SPAN, kind=trace.SpanKind.CONSUMER, links=_links(trace, job), attributes=attributes
    )
    # What an error says may hold anything, so only its class is noted.
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except BaseException as error:
            span.set_status(trace.StatusCode.ERROR, type(error).__name__)
            raise


def _links(trace: Any, job: HeldJob) -> list[Any]:
    place = None if job.traceparent is None else parse_traceparent(job.traceparent)
    if place is None:
        return []
    flags = trace.TraceFlags(place.flags)
    return [trace.Link(trace.SpanContext(place.trace_id, place.span_id, is_remote=True, trace_flags=flags))]


def _trace() -> Any:
    """The module ``opentelemetry.trace`` if the application has imported it."""
    return sys.modules.get("opentelemetry.trace")
