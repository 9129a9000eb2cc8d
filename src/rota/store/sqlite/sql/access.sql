-- Types, tokens and the fingerprint of the secret key.

-- name: read_types
SELECT
    name, description, queue, default_priority, max_retries, backoff, lease_seconds, timeout_seconds,
    max_payload_bytes, paused, deleted, created_at, updated_at, payload_schema, idempotent
FROM rota_types WHERE deleted <= ? ORDER BY name;

-- name: read_type
SELECT
    name, description, queue, default_priority, max_retries, backoff, lease_seconds, timeout_seconds,
    max_payload_bytes, paused, deleted, created_at, updated_at, payload_schema, idempotent
FROM rota_types WHERE name = ? AND NOT deleted;

-- name: count_other_types
SELECT count(*) FROM rota_types WHERE name <> ? AND NOT deleted;

-- A deleted type that is put again begins anew.
-- name: put_type
INSERT INTO rota_types (
    name, description, queue, default_priority, max_retries, backoff, lease_seconds, timeout_seconds,
    max_payload_bytes, paused, deleted, created_at, updated_at, payload_schema, idempotent
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
    description = excluded.description, queue = excluded.queue,
    default_priority = excluded.default_priority, max_retries = excluded.max_retries,
    backoff = excluded.backoff, lease_seconds = excluded.lease_seconds,
    timeout_seconds = excluded.timeout_seconds, max_payload_bytes = excluded.max_payload_bytes,
    paused = excluded.paused, deleted = 0, updated_at = excluded.updated_at,
    payload_schema = excluded.payload_schema, idempotent = excluded.idempotent,
    created_at = CASE WHEN deleted THEN excluded.created_at ELSE created_at END;

-- name: delete_type
UPDATE rota_types SET deleted = 1, updated_at = ? WHERE name = ? AND NOT deleted;

-- name: pause_type
UPDATE rota_types SET paused = ?, updated_at = ? WHERE name = ? AND NOT deleted;

-- name: read_tokens
SELECT
    id, key_id, name, hash, pepper_key_id, previous_hash, previous_pepper_key_id, previous_until, scopes,
    max_priority, types, queues, schedules, "groups", services, flows, open_api_only,
    rate_limit_per_minute, expires_at, revoked_at, last_used_at, created_at, created_by, suspended_at
FROM rota_tokens ORDER BY created_at DESC, rowid DESC;

-- name: read_token
SELECT
    id, key_id, name, hash, pepper_key_id, previous_hash, previous_pepper_key_id, previous_until, scopes,
    max_priority, types, queues, schedules, "groups", services, flows, open_api_only,
    rate_limit_per_minute, expires_at, revoked_at, last_used_at, created_at, created_by, suspended_at
FROM rota_tokens WHERE key_id = ?;

-- The name is the deciding index; ids and key ids are random.
-- name: add_token
INSERT INTO rota_tokens (
    id, key_id, name, hash, pepper_key_id, scopes, max_priority, types, queues, schedules, "groups",
    services, flows, open_api_only, rate_limit_per_minute, expires_at, created_at, created_by
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO NOTHING
RETURNING key_id;

-- name: rotate_token
UPDATE rota_tokens SET
    previous_hash = CASE WHEN ?1 > ?2 THEN hash END,
    previous_pepper_key_id = CASE WHEN ?1 > ?2 THEN pepper_key_id END,
    previous_until = CASE WHEN ?1 > ?2 THEN ?1 END,
    hash = ?3, pepper_key_id = ?4
WHERE key_id = ?5;

-- name: revoke_token
UPDATE rota_tokens SET revoked_at = coalesce(revoked_at, ?) WHERE key_id = ?;

-- name: resume_token
UPDATE rota_tokens SET suspended_at = NULL WHERE key_id = ?;

-- name: suspend_tokens
UPDATE rota_tokens SET suspended_at = ? WHERE revoked_at IS NULL AND suspended_at IS NULL RETURNING id;

-- name: revoke_tokens
UPDATE rota_tokens SET revoked_at = ? WHERE revoked_at IS NULL RETURNING id;

-- Whatever became of the token of this name; its id stays, and so do the jobs that it owns.
-- name: reset_token
UPDATE rota_tokens SET
    key_id = ?, hash = ?, pepper_key_id = ?, scopes = ?, max_priority = ?,
    previous_hash = NULL, previous_pepper_key_id = NULL, previous_until = NULL, types = NULL, queues = NULL,
    schedules = NULL, "groups" = NULL, services = NULL, flows = NULL, open_api_only = 0,
    rate_limit_per_minute = NULL, expires_at = NULL, revoked_at = NULL, suspended_at = NULL
WHERE name = ?
RETURNING key_id;

-- name: touch_token
UPDATE rota_tokens SET last_used_at = ?1 WHERE id = ?2 AND coalesce(last_used_at, 0) < ?1;

-- Counts what was asked for, beyond the limit too, so that the answer tells how much of it was left.
-- A node whose clock is a minute behind takes from the present minute.
-- name: reserve_calls
UPDATE rota_tokens SET
    rate_used = CASE WHEN rate_minute < ?2 THEN 0 ELSE rate_used END + ?3,
    rate_minute = max(rate_minute, ?2)
WHERE id = ?1
RETURNING rate_used;

-- Kept, or replaced where the stored key is the one that may still verify; no row: another key's.
-- name: keep_fingerprint
INSERT INTO rota_facts (name, value) VALUES ('secret_key_fingerprint', ?1)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value IN (?1, ?2)
RETURNING value;

-- name: replace_fingerprint
INSERT INTO rota_facts (name, value) VALUES ('secret_key_fingerprint', ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: read_fingerprint
SELECT value FROM rota_facts WHERE name = 'secret_key_fingerprint';
