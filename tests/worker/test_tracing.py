"""OpenTelemetry, where the application uses it: the job carries the span, each attempt is linked to it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rota import Task, task
from rota.domain.traces import SpanPlace
from rota.telemetry import RUN_SPAN
from rota.testing import Queue
from tests.worker.conftest import Place

provider = TracerProvider()
exporter = InMemorySpanExporter()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("application")


@pytest.fixture(autouse=True)
def spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider that an application would set up for its whole process."""
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    exporter.clear()


@pytest.fixture
def rota_tasks() -> list[Task[..., Any]]:
    return [works, breaks]


def named(name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def place_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


@task
async def waits() -> None:
    with tracer.start_as_current_span("inside"):
        pass


@task
def works() -> None:
    with tracer.start_as_current_span("inside"):
        pass


@task
def breaks() -> None:
    raise ValueError("m4rk3r")


@pytest.mark.parametrize("handler", [waits, works])
async def test_each_attempt_has_a_span_linked_to_that_of_the_enqueue(place: Place, handler: Any) -> None:
    await place.client.types.put(handler.name)
    async with place.working(handler):
        with tracer.start_as_current_span("outside"):
            job = await handler.enqueue(place.client)
            (other,) = await place.client.enqueue_many([handler.job()])
        assert not isinstance(other, Exception)
        await place.until(job.id, "completed")
        await place.until(other.id, "completed")
    runs, inside, (outside,) = named(RUN_SPAN), named("inside"), named("outside")
    assert [linked(run) for run in runs] == [[place_of(outside)]] * 2
    assert {run.attributes["rota.job.id"] for run in runs if run.attributes} == {job.id, other.id}
    parents = {(span.parent.trace_id, span.parent.span_id) for span in inside if span.parent is not None}
    assert parents == {place_of(run) for run in runs}
    assert len(parents) == 2  # a span of its own for each, whatever was current when the worker began


def test_the_trace_is_carried_without_a_server_too(rota_queue: Queue) -> None:
    with tracer.start_as_current_span("outside"):
        works.enqueue(rota_queue.client)
    rota_queue.drain(works)
    (outside,), (run,) = named("outside"), named(RUN_SPAN)
    assert linked(run) == [place_of(outside)]


def test_a_job_without_a_trace_has_a_span_without_a_link(rota_queue: Queue) -> None:
    works.enqueue(rota_queue.client)
    rota_queue.drain(works)
    assert [linked(run) for run in named(RUN_SPAN)] == [[]]


def test_an_attempt_that_failed_shows_its_errors_class_and_nothing_else(rota_queue: Queue) -> None:
    breaks.enqueue(rota_queue.client)
    rota_queue.run_pending(breaks)
    (run,) = named(RUN_SPAN)
    assert (run.status.status_code, run.status.description) == (trace.StatusCode.ERROR, "ValueError")
    assert "m4rk3r" not in run.to_json()


def test_a_span_is_written_as_the_standard_has_it() -> None:
    assert str(SpanPlace(0x4BF92F, 0xF067, 1)) == f"00-{'4bf92f':0>32}-{'f067':0>16}-01"


def test_without_opentelemetry_nothing_of_it_is_imported() -> None:
    code = """
import sys, tempfile, rota
from rota.testing import queue
from pathlib import Path
@rota.task
def works(): pass
with tempfile.TemporaryDirectory() as folder, queue(Path(folder, "data"), [works]) as opened:
    works.enqueue(opened.client)
    assert [job.status for job in opened.drain()] == ["completed"]
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)
