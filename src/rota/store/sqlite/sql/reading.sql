-- Reads outside write transactions.

-- A list reads candidate ids in windows, newest first, from the smallest source that holds them all,
-- and narrows each window down with this query.
-- name: narrow_jobs
SELECT
    id, queue, type, status, priority, key, producer, retry_count, max_retries, idempotency_key,
    unique_key, request_uid, run_at, due_at, expires_at, timeout_seconds, cancel_requested, claimed_at,
    started_at, worker_id, owner, lease_token, lease_seconds, lease_expires_at, claim_id, last_outcome,
    releases, failures, progress_current, progress_total, progress_message, error, log_bytes,
    log_bytes_attempt, schedule_id, "trigger", scheduled_fire_time, traceparent, created_at, updated_at,
    finished_at, payload_key_id, result, payload, error IS NOT NULL
FROM rota_jobs
WHERE id IN (SELECT value FROM json_each(:ids))
    AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
    AND (:type IS NULL OR type = :type)
    AND (:queue IS NULL OR queue = :queue)
    AND (:schedule_id IS NULL OR schedule_id = :schedule_id)
    AND (:text IS NULL OR instr(CAST(payload AS TEXT), :text) > 0)
    AND (:created_after IS NULL OR created_at > :created_after)
    AND (:created_before IS NULL OR created_at < :created_before)
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
    AND (:reads_all OR producer = :producer OR (owner = :holder AND status = 'running'))
ORDER BY id DESC LIMIT :limit;

-- name: ids_of_all
SELECT id FROM rota_jobs WHERE id < ? ORDER BY id DESC LIMIT ?;

-- name: ids_of_failed
SELECT id FROM rota_jobs WHERE status = 'failed' AND id < ? ORDER BY id DESC LIMIT ?;

-- name: ids_of_cancelled
SELECT id FROM rota_jobs WHERE status = 'cancelled' AND id < ? ORDER BY id DESC LIMIT ?;

-- name: ids_of_running
SELECT id FROM rota_jobs INDEXED BY rota_jobs_held WHERE status = 'running' AND id < ? ORDER BY id DESC LIMIT ?;

-- name: job_attempts
SELECT attempt, worker_id, claimed_at, started_at, finished_at, error
FROM rota_attempts WHERE job_id = ? ORDER BY attempt;

-- name: job_logs
SELECT id, attempt, at, text FROM rota_job_logs WHERE job_id = ? AND id > ? ORDER BY id LIMIT ?;

-- name: pulse_at
SELECT at FROM rota_pulse WHERE id = 1;

-- Which of the leases, a JSON array of [id, owner, lease token in hex], are held, by their places.
-- CROSS JOIN: the asked ones first, then each job by its id.
-- name: held_leases
SELECT asked.key
FROM json_each(?) AS asked CROSS JOIN rota_jobs AS job ON job.id = json_extract(asked.value, '$[0]')
WHERE job.status = 'running'
    AND job.owner = json_extract(asked.value, '$[1]')
    AND lower(hex(job.lease_token)) = json_extract(asked.value, '$[2]');
