"""What each field and parameter means and may hold, in words and in the keywords of JSON Schema.

The OpenAPI document is made with it; nothing is judged by it. What a request may hold is judged where a field
is read, in `services`, which says more precisely what is wrong than a schema could.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rota.domain.access import PRESETS, Scope
from rota.domain.job import (
    DEFAULT_QUEUE,
    MAX_DELAY_SECONDS,
    MAX_LEASE_SECONDS,
    MAX_PAYLOAD_BYTES,
    MAX_RETRIES,
    MIN_LEASE_SECONDS,
    PRIORITIES,
    STATUSES,
)
from rota.domain.names import LABEL, NAME
from rota.domain.retry import MAX_CAP_SECONDS, MAX_FACTOR
from rota.errors import BY_CODE, StartError
from rota.services.fields import MAX_TIMEOUT_SECONDS
from rota.services.intake import MAX_AHEAD_SECONDS
from rota.services.leases import MAX_CLAIM, MAX_NAMES, MAX_WAIT_SECONDS
from rota.services.tokens import MAX_GRACE_SECONDS, MAX_RANGE, MAX_RATE
from rota.services.types import MAX_DESCRIPTION
from rota.services.workers import MAX_CONCURRENCY, MAX_HANDLERS, MAX_HOST, MAX_PID
from rota.services.workers import MAX_DESCRIPTION as WORKER_DESCRIPTION

Words = Mapping[str, Any]
"""Keywords of JSON Schema: ``description`` and the constraints."""

MAX_ID: Final = 2**63 - 1
MAX_PATH_ID: Final = 10**18 - 1
BATCH_ITEMS: Final = 5_000


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


_NAME: Final = {"pattern": f"^{NAME.pattern}$"}
_LABEL: Final = {"pattern": f"^{LABEL.pattern}$"}
_INSTANT: Final = {"format": "date-time"}
_COUNT: Final = {"minimum": 0}
_ID: Final = {"minimum": 0, "maximum": MAX_ID}
_LEASE: Final = {"minimum": MIN_LEASE_SECONDS, "maximum": MAX_LEASE_SECONDS}
_TIMEOUT: Final = {"exclusiveMinimum": 0, "maximum": MAX_TIMEOUT_SECONDS}
_DELAY: Final = {"minimum": 0, "maximum": MAX_DELAY_SECONDS}
_STATES: Final = "|".join(STATUSES)
_FILTER_STATES: Final = {
    "description": "One or more states, separated by commas.",
    "pattern": f"^({_STATES})(,({_STATES}))*$",
    "examples": ["pending,running"],
}


def _when(words: str) -> Words:
    return {"description": words, **_INSTANT}


def _claimable(words: str) -> Words:
    return {"description": words, "minItems": 1, "maxItems": MAX_NAMES, "items": _NAME}


def _range(kind: str, **of: Any) -> Words:
    return {"description": f"The {kind} it may touch; null: all.", "minItems": 1, "maxItems": MAX_RANGE, **of}


def _shown_range(kind: str) -> Words:
    return {"description": f"The {kind} it may touch; null: all."}


SHARED: Final[Mapping[str, Words]] = {
    "Priority": {
        "type": "string",
        "enum": list(PRIORITIES),
        "description": "Higher ones are always claimed first. Requests may write it in any case.",
    },
    "Status": {"type": "string", "enum": list(STATUSES), "description": "Where a job stands."},
    "Scope": {"type": "string", "enum": sorted(Scope), "description": "One thing that a token may do."},
    "FieldFault": {
        "type": "object",
        "description": "One fault in the input.",
        "properties": {
            "field": {"type": "string", "description": "Where it is, such as jobs[3].type."},
            "code": {"type": "string", "description": "A short code that does not change."},
            "message": {"type": "string", "description": "What is wrong, in words."},
        },
        "required": ["field", "code", "message"],
    },
}
"""Schemas that several fields share."""

PATH: Final[Mapping[str, Words]] = {
    "id": {"type": "integer", "minimum": 0, "maximum": MAX_PATH_ID, "description": "Its id."},
    "name": {"type": "string", **_NAME, "description": "Its name."},
    "instance": {"type": "string", **_LABEL, "description": "What the process is called."},
    "key_id": {"type": "string", "pattern": "^[a-z0-9]+$", "description": "The key id of the token."},
    "code": {
        "type": "string",
        "enum": sorted(code for code, kind in BY_CODE.items() if kind is not StartError),
        "description": "The last part of a problem's type.",
    },
}
"""The variable segments of paths."""

FIELDS: Final[Mapping[str, Words]] = {
    # jobs
    "id": {"description": "The id of the job; ids grow, with gaps.", **_ID},
    "type": {"description": "The name of the job's type.", **_NAME, "examples": ["mail.send"]},
    "queue": {"description": "The queue it waits in.", **_NAME, "examples": [DEFAULT_QUEUE]},
    "payload": {
        "description": f"Any JSON value, of at most {MAX_PAYLOAD_BYTES:,} bytes; its numbers stay as written."
    },
    "priority": ref("Priority"),
    "status": ref("Status"),
    "retry_count": {"description": "Counted attempts that have failed.", **_COUNT},
    "max_retries": {
        "description": "Attempts after the first; left out, the type's.",
        "minimum": 0,
        "maximum": MAX_RETRIES,
    },
    "run_at": _when("Not before this instant, at most ten years ahead; not together with delay_seconds."),
    "delay_seconds": {
        "description": "Not before so many seconds have passed; not together with run_at.",
        "minimum": 0,
        "maximum": MAX_AHEAD_SECONDS,
    },
    "idempotency_key": {
        "description": "Names the job; the same key of the same producer never makes a second one.",
        "minLength": 1,
        "maxLength": 255,
        "pattern": "^[ -~]+$",
        "examples": ["invoice-17"],
    },
    "request_uid": {"description": "Names this request; repeated with the same one, it makes no second job."},
    "timeout_seconds": {"description": "How long one attempt may take; left out, the type's.", **_TIMEOUT},
    "unique_key": {"description": "Not in use yet."},
    "key": {"description": "Not in use yet."},
    "tags": {"description": "Not in use yet."},
    "tag": {"description": "Not in use yet."},
    "depends_on": {"description": "Not in use yet."},
    "schedule_id": {"description": "The schedule that made it.", **_ID},
    "trigger": {"description": "Not in use yet."},
    "scheduled_fire_time": _when("Not in use yet."),
    "process_instance_id": {"description": "Not in use yet."},
    "expires_at": _when("From then on it is of no use."),
    "claimed_at": _when("When the present or last attempt was handed out."),
    "started_at": _when("When its handler began."),
    "finished_at": _when("When it ended."),
    "created_at": _when("When it was made."),
    "updated_at": _when("When it last changed."),
    "worker_id": {"description": "The token's name, or <token name>/<instance>."},
    "lease_expires_at": _when("The holder loses the job then, unless it sends a heartbeat before."),
    "cancel_requested": {"description": "The handler shall stop and report fail."},
    "progress": {"description": "The latest report of the handler."},
    "result": {"description": "Any JSON value, of at most 65,536 bytes; shown to holders of detail:read."},
    "error": {"description": "Why the attempt failed, cleaned of secrets; shown to holders of detail:read."},
    "has_error": {"description": "There is an error, whether it is shown or not."},
    # work
    "types": _claimable("The types to serve; left out, all that the token may."),
    "queues": _claimable("The queues to serve; left out, all that the token may."),
    "wait_seconds": {
        "description": "How long to wait for a job when there is none.",
        "minimum": 0,
        "maximum": MAX_WAIT_SECONDS,
    },
    "lease_seconds": {"description": "For how long the job is held without a heartbeat.", **_LEASE},
    "traceparent": {"description": "The trace that the job belongs to, as in the W3C's header."},
    "heartbeat_seconds": {"description": "Send a heartbeat this often.", "exclusiveMinimum": 0},
    "instance": {
        "description": "Tells the processes of one token apart.",
        **_LABEL,
        "examples": ["host-1.4711"],
    },
    "claim_id": {"description": "Names this claim, so that it can be repeated after a lost answer."},
    "repeat": {"description": "Answer with the jobs still held under claim_id, if there are any."},
    "ClaimBatchRequest.limit": {"description": "How many jobs at most.", "minimum": 1, "maximum": MAX_CLAIM},
    "lease_token": {
        "description": "The proof of holding the job, from the answer to the claim.",
        "pattern": "^[0-9a-fA-F]{32}$",
    },
    "retryable": {"description": "false: do not try again."},
    "retry_in_seconds": {"description": "Try again after so long, instead of the type's back-off.", **_DELAY},
    "snooze_seconds": {"description": "Hand the job out again only after so long.", **_DELAY},
    "started": {"description": "The handler has begun."},
    "log": {"description": "A text to append to the job's log; at most 16 KiB are kept."},
    "current": {"description": "How far it is."},
    "total": {"description": "Where it ends."},
    "message": {"description": "What it is doing."},
    "attempt": {"description": "Attempts are counted from 1.", "minimum": 1},
    "at": _when("When it was said."),
    "text": {"description": "What was logged; null for what may not be shown."},
    # batches
    "jobs": {
        "description": "Each is judged by itself.",
        "maxItems": BATCH_ITEMS,
        "items": ref("EnqueueRequest"),
    },
    "beats": {"description": "At most 5,000.", "maxItems": BATCH_ITEMS},
    "outcomes": {"description": "At most 5,000.", "maxItems": BATCH_ITEMS},
    "outcome": {"description": "Which of the three calls the other fields are those of."},
    "job": {"description": "The job, where it was stored."},
    "problem": ref("Problem"),
    "idempotency_replayed": {"description": "The job was there already."},
    "idempotency_mismatch": {"description": "The job that was there has another type or payload."},
    "BatchItem.status": {"description": "What a call for this entry alone would answer."},
    "BeatItem.status": {"description": "What a call for this entry alone would answer."},
    # lists and actions
    "items": {"description": "In order."},
    "next_cursor": {"description": "The parameter cursor of the next page; null on the last one."},
    "cursor": {"description": "The next_cursor of the answer before."},
    "q": {"description": "Text in payload or error; needs detail:read."},
    "created_after": _when("Made after this instant."),
    "created_before": _when("Made before this instant."),
    "JobsQuery.type": {"description": "Jobs of this type."},
    "JobsQuery.queue": {"description": "Jobs in this queue."},
    "ActionFilter.type": {"description": "Jobs of this type."},
    "ActionFilter.queue": {"description": "Jobs in this queue."},
    "JobsQuery.status": _FILTER_STATES,
    "ActionFilter.status": _FILTER_STATES,
    "action": {"description": "What to do with all that match."},
    "dry_run": {"description": "Only count."},
    "filter": {"description": "The parameters of GET /jobs."},
    "all": {"description": "Must be true when the filter is empty."},
    "matched": {"description": "Jobs that match and whose state the action is for.", **_COUNT},
    "done": {"description": "Jobs that it was done to.", **_COUNT},
    "remaining": {"description": "Matching jobs that it could still be done to.", **_COUNT},
    # types and queues
    "name": {"description": "Its name."},
    "description": {"description": "What it is, for people.", "maxLength": MAX_DESCRIPTION},
    "default_priority": ref("Priority"),
    "backoff": {"description": "How long to wait before the next attempt."},
    "strategy": {"description": "none: at once; fixed: base_seconds; exponential: base_seconds · factor^n."},
    "base_seconds": {"description": "At most cap_seconds.", "minimum": 0, "maximum": MAX_CAP_SECONDS},
    "factor": {
        "description": "Each wait is so many times the one before.",
        "minimum": 1,
        "maximum": MAX_FACTOR,
    },
    "cap_seconds": {
        "description": "No wait is longer, jitter aside.",
        "minimum": 0,
        "maximum": MAX_CAP_SECONDS,
    },
    "jitter": {"description": "Each wait is longer by up to this part of it.", "minimum": 0, "maximum": 1},
    "max_payload_bytes": {
        "description": "The largest payload of this type.",
        "minimum": 1,
        "maximum": MAX_PAYLOAD_BYTES,
    },
    "payload_schema": {"description": "The JSON Schema that payloads must fit; null: any."},
    "concurrency_limit": {"description": "Not in use yet."},
    "rate_limit": {"description": "Not in use yet."},
    "idempotent": {"description": "Running a job twice is the same as running it once."},
    "payload_schema_disabled": {
        "description": "A check took over 10 ms: payloads are taken unchecked until the type is changed."
    },
    "paused": {"description": "Jobs are not handed out. In requests, left out: stays as it is."},
    "ready": {"description": "Jobs that could be claimed now, counted up to 10,000.", **_COUNT},
    "delayed": {"description": "Jobs whose time has not come, counted up to 10,000.", **_COUNT},
    "running": {"description": "Jobs that are held, counted up to 10,000.", **_COUNT},
    "oldest_ready_seconds": {"description": "For how long the longest waiting has been ready.", **_COUNT},
    # tokens
    "TokenRequest.name": {"description": "Never used again, even after its end.", **_LABEL},
    "TokenRequest.expires_at": _when("Its end; left out, that of one's own token."),
    "TokenAnswer.expires_at": _when("Its end."),
    "NewTokenAnswer.expires_at": _when("Its end."),
    "key_id": {"description": "The public part of the token, by which it is named."},
    "preset": {"description": "A ready-made set of scopes; this or scopes.", "enum": list(PRESETS)},
    "scopes": {
        "description": "What it may do; in requests, this or preset.",
        "minItems": 1,
        "items": ref("Scope"),
    },
    "max_priority": ref("Priority"),
    "TokenRequest.types": _range("types", items=_NAME),
    "TokenRequest.queues": _range("queues", items=_NAME),
    "TokenRequest.schedules": _range("schedules"),
    "TokenRequest.groups": _range("groups"),
    "TokenRequest.services": _range("services"),
    "TokenRequest.flows": _range("flows"),
    "TokenAnswer.types": _shown_range("types"),
    "TokenAnswer.queues": _shown_range("queues"),
    "NewTokenAnswer.types": _shown_range("types"),
    "NewTokenAnswer.queues": _shown_range("queues"),
    "schedules": _shown_range("schedules"),
    "groups": _shown_range("groups"),
    "services": _shown_range("services"),
    "flows": _shown_range("flows"),
    "open_api_only": {"description": "It opens /openapi/v1 and nothing else."},
    "rate_limit_per_minute": {
        "description": "Calls a minute; null: no limit.",
        "minimum": 1,
        "maximum": MAX_RATE,
    },
    "revoked_at": _when("When it was revoked."),
    "suspended_at": _when("When a restore suspended it; until it is resumed it opens nothing."),
    "last_used_at": _when("When it was last used, to the minute or so."),
    "created_by": {"description": "The id of the token that made it."},
    "token": {"description": "The token itself, shown this once."},
    "grace_seconds": {
        "description": "For how long the old secret still works.",
        "minimum": 0,
        "maximum": MAX_GRACE_SECONDS,
    },
    # workers
    "WorkerAnswer.id": {"description": "The id of the worker, for draining it.", **_ID},
    "host": {"description": "The machine it runs on.", "maxLength": MAX_HOST},
    "pid": {"description": "Its process id there.", "minimum": 0, "maximum": MAX_PID},
    "version": {"description": "The version of the worker's library.", "maxLength": 64},
    "concurrency": {
        "description": "How many handlers may run at once.",
        "minimum": 1,
        "maximum": MAX_CONCURRENCY,
    },
    "handlers": {"description": "The types that it runs."},
    "AnnounceRequest.handlers": {"description": "The types that it runs.", "maxItems": MAX_HANDLERS},
    "AnnouncedHandler.name": {"description": "The type that it runs.", **_NAME},
    "AnnouncedHandler.description": {
        "description": "What it does, in one line.",
        "maxLength": WORKER_DESCRIPTION,
    },
    "schema": {"description": "The JSON Schema of the arguments."},
    "run": {"description": "A UUID drawn at the start of the process; a new one is not asked to drain."},
    "drain_requested": {"description": "It shall end its jobs, take no more and stop."},
    "announced_by": {"description": "The name of the token, or the names."},
    "held": {"description": "Jobs that it holds now, of those that one may see.", **_COUNT},
    "workers": {"description": "How many run it.", **_COUNT},
    "first_seen_at": _when("When this process announced itself first."),
    "last_seen_at": _when("When it last announced itself."),
    # the server
    "HealthAnswer.status": {"description": "ok or unavailable.", "enum": ["ok", "unavailable"]},
    "checks": {"description": "Each part with ok or what is wrong with it; for holders of metrics:read."},
    "Problem.type": {
        "description": "The page that explains it: /problems/<code>.",
        "pattern": "^/problems/[a-z-]+$",
    },
    "Problem.status": {"description": "The HTTP status."},
    "title": {"description": "What the code means."},
    "detail": {"description": "What is wrong here, and what to do next."},
    "request_id": {"description": "The same as the header X-Request-Id."},
    "errors": {"description": "Each fault of a field.", "items": ref("FieldFault")},
    # the audit
    "AuditAnswer.id": {"description": "Ids grow with time.", **_ID},
    "AuditQuery.actor": {"description": "The name or id of who acted."},
    "AuditQuery.action": {"description": "Such as job.cancel."},
    "AuditQuery.object": {"description": "A kind, such as token, or kind:id."},
    "from": _when("Entries of then or later."),
    "to": _when("Entries before it."),
    "kind": {"description": "What sort of thing it is."},
    "AuditActor.id": {"description": "The id of who acted."},
    "AuditObject.id": {"description": "What it was done to; null where it was many."},
    "actor": {"description": "Who acted."},
    "address": {"description": "The network address it came from."},
    "object": {"description": "What it was done to."},
    "fields": {"description": "The fields that changed."},
    "values": {"description": "Their new values, without contents and secrets."},
    "AuditAnswer.action": {"description": "What was done."},
    "AuditAnswer.outcome": {"description": "How it ended."},
    "times": {"description": "Above 1 for refusals that were counted together.", "minimum": 1},
}
"""By ``Struct.field`` where the struct gives the word a meaning of its own, else by the name of the field."""
