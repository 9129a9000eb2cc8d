"""The calls that a worker makes: claim, heartbeat, finish."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypedDict, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rota.client import documents
from rota.client.answers import item_error, items_reader, reader
from rota.client.calls import MOST_BATCH_BYTES
from rota.client.jobs import ClaimedJob, HeartbeatInfo, JobInfo
from rota.client.protocol import Answer, Call
from rota.errors import RotaError
from rota.wire import (
    BeatRequest,
    ClaimBatchRequest,
    ClaimRequest,
    CompleteRequest,
    FailRequest,
    FinishBatchRequest,
    HeartbeatBatchRequest,
    HeartbeatRequest,
    OutcomeRequest,
    ProgressReport,
    ReleaseRequest,
)

T = TypeVar("T")

MOST_CLAIMS: Final = 1_000
MOST_OUTCOMES_PER_BATCH: Final = 1_000

_encode = msgspec.json.Encoder().encode


class _FinishedItem(msgspec.Struct):
    status: int
    problem: Raw = Raw(b"")


class BeatVerdict(msgspec.Struct):
    """What became of one heartbeat: 200, or 409 when the job is lost."""

    status: int
    cancel_requested: bool | None = None


_read_job = reader(JobInfo)
_read_claimed = reader(ClaimedJob)
_read_claimed_many = items_reader(ClaimedJob)
_read_heartbeat = reader(HeartbeatInfo)
_read_beats = items_reader(BeatVerdict)
_read_finished = items_reader(_FinishedItem)


class ClaimOptions(TypedDict, total=False):
    """What a claim asks for: names it may serve (None: all), a wait of up to 60 s, a lease of its own."""

    types: list[str] | None
    queues: list[str] | None
    wait_seconds: float
    lease_seconds: float | None
    instance: str | None


def claim(options: ClaimOptions) -> Call[ClaimedJob | None]:
    request = ClaimRequest(**options, claim_id=uuid.uuid4())
    return Call(
        "POST",
        "/jobs/claim",
        lambda answer: None if answer.status == 204 else _read_claimed(answer),
        _encode(request),
        again=_encode(msgspec.structs.replace(request, repeat=True)),
        wait_seconds=request.wait_seconds,
    )


def claim_many(limit: int, options: ClaimOptions) -> Call[list[ClaimedJob]]:
    return claim_batch(ClaimBatchRequest(**options, limit=limit, claim_id=uuid.uuid4()), _read_claimed_many)


def claim_batch(request: ClaimBatchRequest, read: Callable[[Answer], list[T]]) -> Call[list[T]]:
    """A batch claim whose jobs are read as the caller needs them; ``limit`` is 1 to 1,000."""
    return Call(
        "POST",
        "/jobs/batch/claim",
        read,
        _encode(request),
        again=_encode(msgspec.structs.replace(request, repeat=True)),
        wait_seconds=request.wait_seconds,
    )


class Holds(Protocol):
    """What names a held job; a :class:`ClaimedJob` does."""

    @property
    def id(self) -> int: ...

    @property
    def lease_token(self) -> str: ...


def complete(held: Holds, result: Any = None) -> Call[JobInfo]:
    request = CompleteRequest(lease_token=held.lease_token, result=Raw(documents.encode(result, "result")))
    return Call("POST", f"/jobs/{held.id}/complete", _read_job, _encode(request))


def fail(held: Holds, error: str, retryable: bool, retry_in_seconds: float | None) -> Call[JobInfo]:
    request = FailRequest(
        lease_token=held.lease_token,
        error=documents.plain(error),
        retryable=retryable,
        retry_in_seconds=retry_in_seconds,
    )
    return Call("POST", f"/jobs/{held.id}/fail", _read_job, _encode(request))


def release(held: Holds, snooze_seconds: float | None, started: bool) -> Call[JobInfo]:
    request = ReleaseRequest(lease_token=held.lease_token, snooze_seconds=snooze_seconds, started=started)
    return Call("POST", f"/jobs/{held.id}/release", _read_job, _encode(request))


def heartbeat(
    held: Holds,
    *,
    lease_seconds: float | None = None,
    started: bool = False,
    progress: ProgressReport | None = None,
    log: str | None = None,
) -> Call[HeartbeatInfo]:
    """A beat with a log line is not repeatable: the line would be kept twice."""
    request = HeartbeatRequest(
        lease_token=held.lease_token,
        lease_seconds=lease_seconds,
        started=started,
        progress=_plain(progress),
        log=None if log is None else documents.plain(log),
    )
    path = f"/jobs/{held.id}/heartbeat"
    return Call("POST", path, _read_heartbeat, _encode(request), repeatable=log is None)


def beat(
    held: Holds,
    lease_seconds: float | None,
    started: bool,
    progress: ProgressReport | None,
    log: str | None,
) -> BeatRequest:
    """One entry of a batch of heartbeats; the texts may hold anything."""
    return BeatRequest(
        id=held.id,
        lease_token=held.lease_token,
        lease_seconds=lease_seconds,
        started=started,
        progress=_plain(progress),
        log=None if log is None else documents.plain(log),
    )


def _plain(progress: ProgressReport | None) -> ProgressReport | None:
    if progress is None or progress.message is None:
        return progress
    return msgspec.structs.replace(progress, message=documents.plain(progress.message))


def heartbeat_batch(beats: Sequence[BeatRequest]) -> Call[list[BeatVerdict]]:
    """One call for up to 5,000 heartbeats; one verdict each, in order."""
    body = _encode(HeartbeatBatchRequest(list(beats)))
    quiet = all(one.log is None for one in beats)
    return Call("POST", "/jobs/batch/heartbeat", _read_beats, body, repeatable=quiet)


def outcome(
    held: Holds,
    *,
    result: Any = None,
    error: str | None = None,
    retryable: bool = True,
    retry_in_seconds: float | None = None,
) -> OutcomeRequest:
    """The end of an attempt for ``finish_many``: failed when there is an ``error``, else completed."""
    if error is None:
        return OutcomeRequest(
            held.id, held.lease_token, "complete", result=Raw(documents.encode(result, "result"))
        )
    return OutcomeRequest(
        held.id,
        held.lease_token,
        "fail",
        error=documents.plain(error),
        retryable=retryable,
        retry_in_seconds=retry_in_seconds,
    )


def finish_batch(outcomes: Sequence[OutcomeRequest]) -> Call[list[RotaError | None]]:
    """One call; per outcome None when it was accepted, else why not."""
    body = _encode(FinishBatchRequest(list(outcomes)))
    return Call("POST", "/jobs/batch/finish", _finish_answer, body)


def finish_batches(outcomes: Iterable[OutcomeRequest]) -> Iterator[Call[list[RotaError | None]]]:
    """As many calls as the outcomes need: at most 1,000 outcomes and 32 MiB each."""
    batch: list[OutcomeRequest] = []
    size = 0
    for one in outcomes:
        weight = outcome_bytes(one)
        if batch and (len(batch) == MOST_OUTCOMES_PER_BATCH or size + weight > MOST_BATCH_BYTES):
            yield finish_batch(batch)
            batch, size = [], 0
        batch.append(one)
        size += weight
    if batch:
        yield finish_batch(batch)


def outcome_bytes(one: OutcomeRequest) -> int:
    """At most how many bytes an outcome takes on the wire; a character takes up to six when escaped."""
    return 256 + _length(one.result) + 6 * _length(one.error)


def _length(text: Raw | str | UnsetType) -> int:
    return 0 if text is UNSET else len(text)


def _finish_answer(answer: Answer) -> list[RotaError | None]:
    return [
        None if item.status < 300 else item_error(item.status, item.problem)
        for item in _read_finished(answer)
    ]
