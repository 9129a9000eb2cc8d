"""The page of metrics for Prometheus: what this process has counted, and how the queue is at this moment."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from rota.clock import Clock
from rota.domain.access import EVERYTHING
from rota.errors import Unavailable
from rota.services.health import Health
from rota.services.types import Types
from rota.services.waiting import Waiting
from rota.store.base import Reader
from rota.store.records import LaneCount
from rota.telemetry import METRICS, Spread, Telemetry

COUNT_SECONDS: Final = 5.0
"""For so long the lanes of the queue are not counted again."""
MAX_LANES: Final = 1_000
"""Lanes that get labels of their own."""
OTHER: Final = "other"

Lane = tuple[str, str]
Row = tuple[Sequence[str], float | Spread]
"""The labels' values, in the order of METRICS, and what was counted."""


class Measures:
    """Makes the page of metrics; one at a time."""

    def __init__(
        self,
        telemetry: Telemetry,
        reader: Reader,
        types: Types,
        health: Health,
        waiting: Waiting,
        clock: Clock,
        wal: Path,
    ) -> None:
        self._telemetry = telemetry
        self._reader = reader
        self._types = types
        self._health = health
        self._waiting = waiting
        self._clock = clock
        self._wal = wal
        self._lanes: list[LaneCount] = []
        self._count_at = 0.0
        self._named: set[Lane] = set()
        self._busy = asyncio.Lock()

    async def page(self) -> bytes:
        """The metrics in Prometheus' text format. The lanes are left out when counting takes too long."""
        async with self._busy:
            await self._count()
            checks = await self._health.checks()
            return await asyncio.to_thread(self._page, checks)

    async def _count(self) -> None:
        moment = time.monotonic()
        if moment < self._count_at:
            return
        try:
            self._lanes = await self._reader.count_lanes(EVERYTHING)
        except Unavailable:
            self._lanes = []
        self._count_at = time.monotonic() + COUNT_SECONDS

    def _page(self, checks: Mapping[str, str]) -> bytes:
        registry = CollectorRegistry()
        registry.register(_Rows({**self._counted(), **self._found(checks)}))
        return generate_latest(registry)

    def _counted(self) -> dict[str, list[Row]]:
        counted = self._telemetry
        jobs: Counter[Sequence[str]] = Counter()
        for (event, queue, type), number in list(counted.jobs.items()):
            jobs[event, *self._labels((queue, type))] += number
        lost: Counter[Sequence[str]] = Counter()
        for lane, number in list(counted.leases_lost.items()):
            lost[self._labels(lane)] += number
        return {
            "rota_jobs_total": [*jobs.items()],
            "rota_leases_lost_total": [*lost.items()],
            "rota_reports_refused_total": [((), counted.reports_refused)],
            "rota_commits_total": [((), counted.commits)],
            "rota_commit_seconds": [((), counted.commit_seconds)],
            "rota_commit_rows": [((), counted.commit_rows)],
            "rota_store_seconds": [((verb,), spread) for verb, spread in list(counted.verbs.items())],
            "rota_requests_total": [
                ((route, str(status)), number) for (route, status), number in list(counted.requests.items())
            ],
            "rota_request_seconds": [
                ((route,), spread) for route, spread in list(counted.request_seconds.items())
            ],
            "rota_authentication_failures_total": [((), counted.authentication_failures)],
            "rota_rate_limited_total": [((), counted.rate_limited)],
        }

    def _found(self, checks: Mapping[str, str]) -> dict[str, list[Row]]:
        now = self._clock.now()
        ready: Counter[Sequence[str]] = Counter()
        delayed: Counter[Sequence[str]] = Counter()
        running: Counter[Sequence[str]] = Counter()
        oldest: dict[Sequence[str], float] = {}
        for one in self._lanes:
            labels = self._labels((one.queue, one.type))
            ready[labels] += one.ready
            delayed[labels] += one.delayed
            running[labels] += one.running
            if one.ready_since is not None:
                oldest[labels] = max(oldest.get(labels, 0.0), (now - one.ready_since) / 1000)
        return {
            "rota_ready_jobs": [*ready.items()],
            "rota_delayed_jobs": [*delayed.items()],
            "rota_running_jobs": [*running.items()],
            "rota_oldest_ready_seconds": [*oldest.items()],
            "rota_waiting_claims": [((), self._waiting.number)],
            "rota_wal_bytes": [((), self._wal.stat().st_size)] if self._wal.exists() else [],
            "rota_check_ok": [((part,), float(found == "ok")) for part, found in checks.items()],
        }

    def _labels(self, lane: Lane) -> Lane:
        """The lane itself once its queue and its type were seen declared, else ``other``."""
        if lane not in self._named:
            queue, type = lane
            declared = queue in self._types.queues() and self._types.get(type) is not None
            if not declared or len(self._named) >= MAX_LANES:
                return OTHER, OTHER
            self._named.add(lane)
        return lane


class _Rows(Collector):
    """Gives each metric of METRICS its rows."""

    def __init__(self, rows: Mapping[str, Iterable[Row]]) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Family]:
        for name, metric in METRICS.items():
            family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
            if metric.kind == "histogram":
                family = HistogramMetricFamily(name, metric.meaning, labels=metric.labels)
            elif metric.kind == "counter":
                family = CounterMetricFamily(name, metric.meaning, labels=metric.labels)
            else:
                family = GaugeMetricFamily(name, metric.meaning, labels=metric.labels)
            for labels, value in self._rows[name]:
                if isinstance(value, Spread):
                    assert isinstance(family, HistogramMetricFamily)
                    family.add_metric(labels, _buckets(value), value.total)
                else:
                    assert not isinstance(family, HistogramMetricFamily)
                    family.add_metric(labels, value)
            yield family


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    """The bounds as text with how many values lie up to each."""
    below = 0
    buckets: list[tuple[str, float]] = []
    for bound, number in zip([*map(str, spread.bounds), "+Inf"], list(spread.counts), strict=True):
        below += number
        buckets.append((bound, below))
    return buckets
