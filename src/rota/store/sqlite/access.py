"""Types, tokens and the secret key's fingerprint on SQLite.

The writing functions run inside a write transaction that the caller has opened and will commit;
``now`` was read after its lock was held. A refusal is raised and must undo what the call changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, Final

from msgspec import json

from rota.domain.access import RANGES, UNKNOWN_KEY_ID, Grant, Range, Scope
from rota.domain.job import MAX_TYPES
from rota.domain.retry import Backoff
from rota.errors import Conflict, NameTaken, NotFound, StartError
from rota.store.base import JobType, TokenJudge, TokenRecord, TypeJudge
from rota.store.sqlite.transaction import QUERIES

UNKNOWN_TYPE: Final = "there is no type of this name; GET /types lists those that you may see"

# --- types ----------------------------------------------------------------------------------------


def read_types(connection: sqlite3.Connection, *, deleted: bool = False) -> list[JobType]:
    """Every type by name; ``deleted`` includes the deleted ones."""
    return [_type(row) for row in connection.execute(QUERIES["read_types"], (int(deleted),))]


def put_type(
    connection: sqlite3.Connection, now: int, wanted: JobType, judge: TypeJudge, *, keep_pause: bool
) -> tuple[JobType, bool]:
    """Create or replace a type; the flag tells whether it is new.

    ``judge`` sees what it replaces and may raise. Raises Conflict beyond the number of types.
    """
    existing = _stored_type(connection, wanted.name)
    if existing is not None:
        judge(existing)
    (others,) = connection.execute(QUERIES["count_other_types"], (wanted.name,)).fetchone()
    if others >= MAX_TYPES:
        raise Conflict(f"there are {MAX_TYPES:,} types already: delete those that are no longer used")
    paused = existing.paused if keep_pause and existing is not None else wanted.paused
    row = (
        *(wanted.name, wanted.description, wanted.queue, wanted.default_priority, wanted.max_retries),
        *(json.encode(wanted.backoff).decode(), wanted.lease_seconds, wanted.timeout_seconds),
        *(wanted.max_payload_bytes, paused, now, now),
        *(None if wanted.payload_schema is None else wanted.payload_schema.decode(), wanted.idempotent),
    )
    connection.execute(QUERIES["put_type"], row)
    stored = _stored_type(connection, wanted.name)
    assert stored is not None
    return stored, existing is None


def delete_type(connection: sqlite3.Connection, now: int, name: str, judge: TypeJudge) -> None:
    """Mark a type deleted. Raises NotFound, and what ``judge`` raises."""
    _judged_type(connection, name, judge)
    connection.execute(QUERIES["delete_type"], (now, name))


def pause_type(
    connection: sqlite3.Connection, now: int, name: str, paused: bool, judge: TypeJudge
) -> JobType:
    """Pause or resume a type. Raises NotFound, and what ``judge`` raises."""
    existing = _judged_type(connection, name, judge)
    if existing.paused == paused:
        return existing
    connection.execute(QUERIES["pause_type"], (paused, now, name))
    return _judged_type(connection, name, judge)


def _judged_type(connection: sqlite3.Connection, name: str, judge: TypeJudge) -> JobType:
    existing = _stored_type(connection, name)
    if existing is None:
        raise NotFound(UNKNOWN_TYPE)
    judge(existing)
    return existing


def _stored_type(connection: sqlite3.Connection, name: str) -> JobType | None:
    row = connection.execute(QUERIES["read_type"], (name,)).fetchone()
    return None if row is None else _type(row)


def _type(row: tuple[Any, ...]) -> JobType:
    return JobType(
        name=row[0],
        description=row[1],
        queue=row[2],
        default_priority=row[3],
        max_retries=row[4],
        backoff=json.decode(row[5], type=Backoff),
        lease_seconds=row[6],
        timeout_seconds=row[7],
        max_payload_bytes=row[8],
        paused=bool(row[9]),
        deleted=bool(row[10]),
        created_at=row[11],
        updated_at=row[12],
        payload_schema=None if row[13] is None else row[13].encode(),
        idempotent=bool(row[14]),
    )


# --- tokens ---------------------------------------------------------------------------------------


def read_tokens(connection: sqlite3.Connection) -> list[TokenRecord]:
    """Every token, newest first, revoked and expired ones included."""
    return [_token(row) for row in connection.execute(QUERIES["read_tokens"])]


def read_token(connection: sqlite3.Connection, key_id: str) -> TokenRecord | None:
    row = connection.execute(QUERIES["read_token"], (key_id,)).fetchone()
    return None if row is None else _token(row)


def add_token(connection: sqlite3.Connection, now: int, record: TokenRecord) -> TokenRecord:
    """Store a new token. Raises NameTaken, also for the name of a revoked one."""
    grant = record.grant
    row = (
        *(record.id, record.key_id, record.name, record.hash, record.pepper_key_id),
        *(json.encode(sorted(grant.scopes)).decode(), grant.max_priority),
        *(_names(getattr(grant, name)) for name in RANGES),
        *(grant.open_api_only, record.rate_limit_per_minute, record.expires_at, now, record.created_by),
    )
    if connection.execute(QUERIES["add_token"], row).fetchall() == []:
        raise NameTaken("another token has or had this name; names are never used again: choose a new one")
    return _stored_token(connection, record.key_id)


def rotate_token(
    connection: sqlite3.Connection,
    now: int,
    key_id: str,
    secret_hash: bytes,
    pepper_key_id: str,
    grace_seconds: float,
    judge: TokenJudge,
) -> TokenRecord:
    """Give a token a new secret; the one before works for ``grace_seconds`` more, older ones no longer.

    Raises NotFound, Conflict for a revoked token, and what ``judge`` raises.
    """
    stored = _stored_token(connection, key_id)
    judge(stored)
    if stored.revoked_at is not None:
        raise Conflict("the token is revoked for good: create another one")
    until = now + round(grace_seconds * 1000)
    connection.execute(QUERIES["rotate_token"], (until, now, secret_hash, pepper_key_id, key_id))
    return _stored_token(connection, key_id)


def revoke_token(connection: sqlite3.Connection, now: int, key_id: str, judge: TokenJudge) -> TokenRecord:
    """Revoke a token; repeating it changes nothing. Raises NotFound, and what ``judge`` raises.

    The caller takes the token's leases back in the same transaction.
    """
    judge(_stored_token(connection, key_id))
    connection.execute(QUERIES["revoke_token"], (now, key_id))
    return _stored_token(connection, key_id)


def resume_token(connection: sqlite3.Connection, key_id: str, judge: TokenJudge) -> TokenRecord:
    """Let a suspended token be used again. Raises NotFound, Conflict, what ``judge`` raises."""
    stored = _stored_token(connection, key_id)
    judge(stored)
    if stored.revoked_at is not None:
        raise Conflict("the token is revoked for good: create another one")
    connection.execute(QUERIES["resume_token"], (key_id,))
    return _stored_token(connection, key_id)


def reset_token(connection: sqlite3.Connection, now: int, record: TokenRecord) -> TokenRecord:
    """Give the token of this name another key id, secret and grant, without ranges; or add it."""
    row = (
        *(record.key_id, record.hash, record.pepper_key_id),
        *(json.encode(sorted(record.grant.scopes)).decode(), record.grant.max_priority, record.name),
    )
    if connection.execute(QUERIES["reset_token"], row).fetchall() == []:
        return add_token(connection, now, record)
    return _stored_token(connection, record.key_id)


def touch_tokens(connection: sqlite3.Connection, used: Mapping[str, int]) -> None:
    """Record last uses, token id to instant; an earlier one than the stored changes nothing."""
    connection.executemany(QUERIES["touch_token"], [(at, id) for id, at in sorted(used.items())])


def reserve_calls(connection: sqlite3.Connection, token_id: str, minute: int, units: int, limit: int) -> int:
    """Take up to ``units`` calls out of the token's budget of ``limit`` for that minute; returns how many."""
    row = connection.execute(QUERIES["reserve_calls"], (token_id, minute, units)).fetchone()
    if row is None:
        return 0
    used: int = row[0]
    return max(0, min(units, limit - (used - units)))


def _stored_token(connection: sqlite3.Connection, key_id: str) -> TokenRecord:
    stored = read_token(connection, key_id)
    if stored is None:
        raise NotFound(UNKNOWN_KEY_ID)
    return stored


def _names(limited_to: Range) -> str | None:
    return None if limited_to is None else json.encode(sorted(limited_to)).decode()


def _range(text: str | None) -> Range:
    return None if text is None else json.decode(text, type=frozenset[str])


def _token(row: tuple[Any, ...]) -> TokenRecord:
    return TokenRecord(
        id=row[0],
        key_id=row[1],
        name=row[2],
        hash=row[3],
        pepper_key_id=row[4],
        previous_hash=row[5],
        previous_pepper_key_id=row[6],
        previous_until=row[7],
        grant=Grant(
            scopes=json.decode(row[8], type=frozenset[Scope]),
            max_priority=row[9],
            types=_range(row[10]),
            queues=_range(row[11]),
            schedules=_range(row[12]),
            groups=_range(row[13]),
            services=_range(row[14]),
            flows=_range(row[15]),
            open_api_only=bool(row[16]),
        ),
        rate_limit_per_minute=row[17],
        expires_at=row[18],
        revoked_at=row[19],
        last_used_at=row[20],
        created_at=row[21],
        created_by=row[22],
        suspended_at=row[23],
    )


# --- the secret key -------------------------------------------------------------------------------


def keep_fingerprint(connection: sqlite3.Connection, fingerprint: str, previous: str | None) -> None:
    """Store the secret key's fingerprint at first start, or in place of ``previous``, the key's before it.

    Raises StartError when the database belongs to another key.
    """
    if connection.execute(QUERIES["keep_fingerprint"], (fingerprint, previous)).fetchall() == []:
        raise StartError(
            "The database was written under another secret key. Start with that key, or give it as "
            "ROTA_SECRET_KEY_PREVIOUS to change to this one."
        )
