-- Enqueue, finish, heartbeat and what reads a job inside a write transaction.

-- name: last_job_id
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'rota_jobs'), 0);

-- Ids are given out by the caller, which holds the write lock, so that a known key only leaves a gap.
-- name: insert_jobs
INSERT INTO rota_jobs (
    id, queue, type, priority, producer, payload, max_retries, idempotency_key, request_uid,
    run_at, due_at, timeout_seconds, traceparent, created_at, updated_at
) VALUES /*rows*/ (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) /*end*/
ON CONFLICT DO NOTHING;

-- name: job_ids_between
SELECT id FROM rota_jobs WHERE id BETWEEN ? AND ?;

-- name: job_by_id
SELECT
    id, queue, type, status, priority, key, producer, retry_count, max_retries, idempotency_key,
    unique_key, request_uid, run_at, due_at, expires_at, timeout_seconds, cancel_requested, claimed_at,
    started_at, worker_id, owner, lease_token, lease_seconds, lease_expires_at, claim_id, last_outcome,
    releases, failures, progress_current, progress_total, progress_message, error, log_bytes,
    log_bytes_attempt, schedule_id, "trigger", scheduled_fire_time, traceparent, created_at, updated_at,
    finished_at, payload_key_id, result, payload, error IS NOT NULL
FROM rota_jobs WHERE id = ?;

-- name: jobs_by_ids
SELECT
    id, queue, type, status, priority, key, producer, retry_count, max_retries, idempotency_key,
    unique_key, request_uid, run_at, due_at, expires_at, timeout_seconds, cancel_requested, claimed_at,
    started_at, worker_id, owner, lease_token, lease_seconds, lease_expires_at, claim_id, last_outcome,
    releases, failures, progress_current, progress_total, progress_message, error, log_bytes,
    log_bytes_attempt, schedule_id, "trigger", scheduled_fire_time, traceparent, created_at, updated_at,
    finished_at, payload_key_id, result, payload, error IS NOT NULL
FROM rota_jobs WHERE id IN (SELECT value FROM json_each(?));

-- name: job_by_request
SELECT id FROM rota_jobs WHERE producer = ? AND request_uid = ?;

-- name: job_by_key
SELECT id FROM rota_jobs
WHERE producer = ? AND coalesce(schedule_id, 0) = 0 AND idempotency_key = ?;

-- Only what runs under exactly this owner and lease token is completed; a row that does not match is
-- looked at one by one afterwards.
-- name: complete_jobs
UPDATE rota_jobs SET
    status = 'completed',
    result = ending.column4,
    error = NULL,
    due_at = NULL,
    started_at = coalesce(started_at, claimed_at),
    lease_expires_at = NULL,
    claim_id = NULL,
    cancel_requested = 0,
    last_outcome = 'complete',
    releases = 0,
    updated_at = ending.column5,
    finished_at = ending.column5
FROM (VALUES /*rows*/ (?, ?, ?, ?, ?) /*end*/) AS ending
WHERE rota_jobs.id = ending.column1 AND rota_jobs.status = 'running'
    AND +rota_jobs.owner = ending.column2 AND rota_jobs.lease_token = ending.column3
RETURNING queue, type;

-- Everything that a transition may change.
-- name: save_job
UPDATE rota_jobs SET
    status = ?, priority = ?, result = ?, retry_count = ?, due_at = ?, cancel_requested = ?,
    claimed_at = ?, started_at = ?, worker_id = ?, owner = ?, lease_token = ?, lease_seconds = ?,
    lease_expires_at = ?, claim_id = ?, last_outcome = ?, releases = ?, failures = ?,
    progress_current = ?, progress_total = ?, progress_message = ?, error = ?, log_bytes = ?,
    log_bytes_attempt = ?, updated_at = ?, finished_at = ?
WHERE id = ?;

-- name: insert_attempt
INSERT INTO rota_attempts (job_id, attempt, worker_id, claimed_at, started_at, finished_at, error)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: insert_log
INSERT INTO rota_job_logs (job_id, attempt, at, text) VALUES (?, ?, ?, ?);

-- name: held_by_owner
SELECT id FROM rota_jobs WHERE status = 'running' AND owner = ?;
