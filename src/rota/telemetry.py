"""Every metric, event and span by name and meaning, and the one place that counts.

What is counted lies in plain numbers, each written by one thread only: those of the store by the writer,
once a transaction; those of requests by the event loop. ``services/measures.py`` makes a page of them when it
is asked for, so counting costs a few additions and no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Job = tuple[str, str, str]
"""(event, queue, type): what happened to a job of which lane."""


class Metric(NamedTuple):
    """A metric as Prometheus gets it; the name of a counter ends in ``_total`` on the page."""

    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


METRICS: Final[Mapping[str, Metric]] = {
    "rota_jobs_total": Metric(
        "counter",
        "Jobs by what happened to them, counted when it was committed by this process. `event` is `enqueued` "
        "(a new job; a known key counts nothing), `claimed`, `completed`, `failed` (a dead letter), "
        "`retried` (failed with retries left), `released` (given back uncounted), `cancelled` or `replayed`.",
        ("event", "queue", "type"),
    ),
    "rota_leases_lost_total": Metric(
        "counter",
        "Leases that ran out, so that the attempt was counted as failed with “worker lost”.",
        ("queue", "type"),
    ),
    "rota_reports_refused_total": Metric(
        "counter", "Ends and heartbeats of attempts that no longer held their job: answered with 409."
    ),
    "rota_commits_total": Metric("counter", "Write transactions committed by this process."),
    "rota_commit_seconds": Metric(
        "histogram", "A write transaction from asking for the write lock until it is on the disk."
    ),
    "rota_commit_rows": Metric(
        "histogram", "Items that callers asked for in one write transaction: group commit at work."
    ),
    "rota_store_seconds": Metric(
        "histogram",
        "From the call of a verb of the store to its verdict, waiting for the transaction before included. "
        "Claims that had to wait for work are left out. `verb` is `enqueue`, `finish`, `beat`, `claim`, "
        "`admin`, `sweep` or `bulk`.",
        ("verb",),
    ),
    "rota_requests_total": Metric(
        "counter",
        "Requests answered, by the route as it stands in the list of calls (`GET /jobs/{id}`); `none` is no "
        "route at all.",
        ("route", "status"),
    ),
    "rota_request_seconds": Metric(
        "histogram",
        "From a request's header to its answer; for claims and `?wait_seconds=` the wait is included.",
        ("route",),
    ),
    "rota_authentication_failures_total": Metric(
        "counter", "Requests answered with 401: token missing, wrong, revoked, suspended or expired."
    ),
    "rota_rate_limited_total": Metric("counter", "Requests answered with 429."),
    "rota_ready_jobs": Metric(
        "gauge", "Jobs that a worker could take now; counted up to 10,000 a lane.", ("queue", "type")
    ),
    "rota_delayed_jobs": Metric(
        "gauge", "Jobs that wait for their time or their next try; capped as running ones.", ("queue", "type")
    ),
    "rota_running_jobs": Metric(
        "gauge", "Jobs that a worker holds; looked at up to 100,000 in all.", ("queue", "type")
    ),
    "rota_oldest_ready_seconds": Metric(
        "gauge", "How long the job at the head of the lane has been ready.", ("queue", "type")
    ),
    "rota_waiting_claims": Metric("gauge", "Claims and waits for a job's end that are open over HTTP."),
    "rota_wal_bytes": Metric("gauge", "Size of SQLite's write-ahead log."),
    "rota_check_ok": Metric("gauge", "1 where `/health/ready` finds the part well, else 0.", ("check",)),
}

EVENTS: Final[Mapping[str, str]] = {
    "admin_token_written": "the first start has made the admin token; `file` says where it is",
    "audit_sealed": "audit rows up to `last_id` were sealed; keep `seal` where the server cannot write",
    "call_failed": "a call in-process failed by a fault of Rota; `error` is its class",
    "claim_not_given_back": "jobs claimed for a client that left were not released: their leases will end",
    "job_not_changed": "a row that a bulk action could not write was left as it is; `job` is its id",
    "job_not_deleted": "a row that could not be deleted was left; `job` is its id",
    "job_not_recovered": "a job whose lease ran out could not be written and was left; `job` is its id",
    "payload_schema_disabled": "a check took over 10 ms, so payloads of `type` are taken unchecked",
    "makes_new_data_folder": "there was no data folder: a new one, with a new database, is made",
    "request": "a request was answered (level debug; info when it took over 1 s or the status is 5xx)",
    "request_failed": "a request failed by a fault of Rota and was answered with 500; `error` is its class",
    "runs_as_root": "the server runs as root; give it a user of its own",
    "statement_failed": "the database refused a statement; the caller was told to try again",
    "stopped": "the server has ended in order; what was answered is on the disk",
    "task_failed": "a periodic task failed and is tried again; said once until it works again",
    "token_not_read": "a token's record could not be read: its requests get 503",
    "tokens_not_read": "the tokens could not be read: requests with unknown ones get 503",
    "writer_failed": "a whole batch failed; its callers were told, the writer goes on",
}
"""What the server logs; the worker and the clients log sentences through the standard library."""

RUN_SPAN: Final = "rota.run"
SPANS: Final[Mapping[str, str]] = {
    RUN_SPAN: (
        "one attempt at a job, around its handler in the worker, linked to the span that was current when "
        "the job was enqueued; attributes `rota.job.id`, `rota.job.type`, `rota.job.queue` and "
        "`rota.job.retry_count`; an error is noted by its class alone"
    ),
}

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ROWS: Final = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 5_000.0)


class Spread:
    """How values spread over buckets; written by one thread."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        """The highest value of each bucket; a last one takes what is beyond."""
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Telemetry:
    """What this process has counted since its start."""

    def __init__(self) -> None:
        self.jobs: Counter[Job] = Counter()
        self.leases_lost: Counter[tuple[str, str]] = Counter()
        self.reports_refused = 0
        self.commits = 0
        self.commit_seconds = Spread()
        self.commit_rows = Spread(ROWS)
        self.verbs: dict[str, Spread] = {}
        self.requests: Counter[tuple[str, int]] = Counter()
        self.request_seconds: dict[str, Spread] = {}
        self.authentication_failures = 0
        self.rate_limited = 0

    def committed(self, rows: int, seconds: float) -> None:
        """A transaction with so many items is on the disk."""
        self.commits += 1
        self.commit_rows.add(rows)
        self.commit_seconds.add(seconds)

    def served(self, verb: str, seconds: float) -> None:
        """A verb of the store has got its verdict."""
        spread = self.verbs.get(verb)
        if spread is None:
            spread = self.verbs[verb] = Spread()
        spread.add(seconds)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request was answered; ``route`` stands in the route table, it is never what was asked for."""
        self.requests[route, status] += 1
        spread = self.request_seconds.get(route)
        if spread is None:
            spread = self.request_seconds[route] = Spread()
        spread.add(seconds)
        if status == 401:
            self.authentication_failures += 1
        elif status == 429:
            self.rate_limited += 1
