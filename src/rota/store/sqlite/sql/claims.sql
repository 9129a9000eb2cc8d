-- The claim: lanes with ready work, their heads, and the jobs that are handed out.

-- Skips through the ready index from lane to lane; each step lands on the head of the next lane: the next
-- type of the same queue, else the first type of the next queue. (A comparison of row values would seek by
-- the queue alone and walk from there.)
-- name: lane_heads
WITH RECURSIVE head (id) AS (
    SELECT (
        SELECT id FROM rota_jobs
        WHERE status = 'pending' AND due_at IS NULL
        ORDER BY queue, type, priority DESC, id LIMIT 1
    )
    UNION ALL
    SELECT coalesce(
        (
            SELECT next.id FROM rota_jobs AS next
            WHERE next.status = 'pending' AND next.due_at IS NULL
                AND next.queue = lane.queue AND next.type > lane.type
            ORDER BY next.type, next.priority DESC, next.id LIMIT 1
        ),
        (
            SELECT next.id FROM rota_jobs AS next
            WHERE next.status = 'pending' AND next.due_at IS NULL AND next.queue > lane.queue
            ORDER BY next.queue, next.type, next.priority DESC, next.id LIMIT 1
        )
    )
    FROM head JOIN rota_jobs AS lane ON lane.id = head.id
)
SELECT rota_jobs.queue, rota_jobs.type, rota_jobs.priority, rota_jobs.id
FROM head JOIN rota_jobs ON rota_jobs.id = head.id;

-- name: lane_top
SELECT priority, id FROM rota_jobs
WHERE queue = ? AND type = ? AND status = 'pending' AND due_at IS NULL
ORDER BY priority DESC, id LIMIT ?;

-- name: lane_tops
SELECT lane.key, rota_jobs.priority, rota_jobs.id
FROM json_each(?1) AS lane JOIN rota_jobs ON rota_jobs.id IN (
    SELECT ready.id FROM rota_jobs AS ready
    WHERE ready.queue = json_extract(lane.value, '$[0]') AND ready.type = json_extract(lane.value, '$[1]')
        AND ready.status = 'pending' AND ready.due_at IS NULL
    ORDER BY ready.priority DESC, ready.id LIMIT ?2
);

-- name: payload_sizes
SELECT id, length(payload) FROM rota_jobs WHERE id IN (SELECT value FROM json_each(?));

-- What a token holds, and whether it was revoked: its waiting claims must not take back at once what the
-- revocation has just released.
-- name: count_held
SELECT count(*), EXISTS (SELECT 1 FROM rota_tokens WHERE id = ?1 AND revoked_at IS NOT NULL)
FROM rota_jobs WHERE status = 'running' AND owner = ?1;

-- name: held_under_claim
SELECT id FROM rota_jobs WHERE status = 'running' AND owner = ? AND claim_id = ?;

-- name: claim_jobs
UPDATE rota_jobs SET
    status = 'running',
    claimed_at = pick.column2,
    updated_at = pick.column2,
    started_at = NULL,
    owner = pick.column3,
    worker_id = pick.column4,
    lease_token = pick.column5,
    lease_seconds = pick.column6,
    lease_expires_at = pick.column7,
    claim_id = pick.column8,
    last_outcome = NULL,
    progress_current = NULL,
    progress_total = NULL,
    progress_message = NULL,
    log_bytes_attempt = 0
FROM (VALUES /*rows*/ (?, ?, ?, ?, ?, ?, ?, ?) /*end*/) AS pick
WHERE rota_jobs.id = pick.column1 AND rota_jobs.status = 'pending' AND rota_jobs.due_at IS NULL
RETURNING
    id, queue, type, status, priority, key, producer, retry_count, max_retries, idempotency_key,
    unique_key, request_uid, run_at, due_at, expires_at, timeout_seconds, cancel_requested, claimed_at,
    started_at, worker_id, owner, lease_token, lease_seconds, lease_expires_at, claim_id, last_outcome,
    releases, failures, progress_current, progress_total, progress_message, error, log_bytes,
    log_bytes_attempt, schedule_id, "trigger", scheduled_fire_time, traceparent, created_at, updated_at,
    finished_at, payload_key_id, result, payload, error IS NOT NULL;
