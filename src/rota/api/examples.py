"""Examples of whole bodies, and what holds of all their fields together, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rota.api.vocabulary import Words

STRUCTS: Final[Mapping[str, Words]] = {
    "EnqueueRequest": {
        "examples": [
            {
                "type": "mail.send",
                "payload": {"to": "ann@example.org"},
                "priority": "medium",
                "delay_seconds": 60,
            }
        ]
    },
    "EnqueueBatchRequest": {
        "examples": [{"jobs": [{"type": "mail.send", "payload": 1}, {"type": "mail.send", "payload": 2}]}]
    },
    "ClaimRequest": {"examples": [{"types": ["mail.send"], "wait_seconds": 20, "instance": "host-1.4711"}]},
    "ClaimBatchRequest": {"examples": [{"types": ["mail.send"], "limit": 50}]},
    "CompleteRequest": {"examples": [{"lease_token": "0" * 32, "result": {"sent": True}}]},
    "FailRequest": {"examples": [{"lease_token": "0" * 32, "error": "SMTP 421", "retry_in_seconds": 30}]},
    "HeartbeatRequest": {
        "examples": [{"lease_token": "0" * 32, "started": True, "progress": {"current": 3, "total": 10}}]
    },
    "ReleaseRequest": {"examples": [{"lease_token": "0" * 32, "snooze_seconds": 60}]},
    "FinishBatchRequest": {
        "examples": [{"outcomes": [{"id": 17, "lease_token": "0" * 32, "outcome": "complete", "result": 1}]}]
    },
    "HeartbeatBatchRequest": {"examples": [{"beats": [{"id": 17, "lease_token": "0" * 32}]}]},
    "ChangeRequest": {"minProperties": 1, "examples": [{"priority": "high"}]},
    "ActionRequest": {
        "examples": [
            {"action": "replay", "dry_run": True, "filter": {"status": "failed", "type": "mail.send"}}
        ]
    },
    "TypeRequest": {
        "examples": [{"description": "Sends a mail", "max_retries": 5, "backoff": {"base_seconds": 10}}]
    },
    "TokenRequest": {"examples": [{"name": "mailer", "preset": "worker", "types": ["mail.send"]}]},
    "RotateRequest": {"examples": [{"grace_seconds": 3600}]},
    "Problem": {"required": ["type", "title", "status", "detail", "request_id"]},
}
"""Of whole structs: examples, and what holds of all fields together."""
