-- Deleting, bulk actions and changes of one job.

-- What a transition looks at, without the payload: it may be large and is not written back.
-- name: job_states_by_ids
SELECT
    id, queue, type, status, priority, key, producer, retry_count, max_retries, idempotency_key,
    unique_key, request_uid, run_at, due_at, expires_at, timeout_seconds, cancel_requested, claimed_at,
    started_at, worker_id, owner, lease_token, lease_seconds, lease_expires_at, claim_id, last_outcome,
    releases, failures, progress_current, progress_total, progress_message, error, log_bytes,
    log_bytes_attempt, schedule_id, "trigger", scheduled_fire_time, traceparent, created_at, updated_at,
    finished_at, payload_key_id, result, NULL, error IS NOT NULL
FROM rota_jobs WHERE id IN (SELECT value FROM json_each(?));

-- The one guarded delete: only what has ended, and no key that may still be repeated (?2: keys of jobs
-- created up to then have expired). ?3 spares what finished later.
-- name: delete_jobs
DELETE FROM rota_jobs
WHERE id IN (SELECT value FROM json_each(?1))
    AND status IN ('completed', 'failed', 'cancelled', 'skipped')
    AND (idempotency_key IS NULL OR created_at <= ?2)
    AND finished_at <= ?3
RETURNING id;

-- name: change_pending
UPDATE rota_jobs SET priority = ?, run_at = ?, due_at = ?, updated_at = ?
WHERE id = ? AND status = 'pending';

-- A bulk action reads candidate ids in windows from the smallest source that holds them all, and narrows each
-- down with this query. The second column tells whether the action can do something to the job: a key that has
-- not expired holds it back from deletion, a job that was asked to stop cannot be asked again.
-- name: narrow_candidates
SELECT
    id,
    CASE :action
        WHEN 'delete' THEN idempotency_key IS NULL OR created_at <= :keys_before
        WHEN 'cancel' THEN status <> 'running' OR NOT cancel_requested
        ELSE 1
    END
FROM rota_jobs
WHERE id IN (SELECT value FROM json_each(:ids))
    AND status IN (SELECT value FROM json_each(:statuses))
    AND (:type IS NULL OR type = :type)
    AND (:queue IS NULL OR queue = :queue)
    AND (:schedule_id IS NULL OR schedule_id = :schedule_id)
    AND (:text IS NULL OR instr(CAST(payload AS TEXT), :text) > 0)
    AND (:created_after IS NULL OR created_at > :created_after)
    AND (:created_before IS NULL OR created_at < :created_before)
    AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
    AND (:reads_all OR producer = :producer OR (owner = :holder AND status = 'running'))
    AND (:scheduled OR schedule_id IS NULL)
ORDER BY id DESC;

-- name: ids_to_replay
SELECT id FROM (
    SELECT id FROM (SELECT id FROM rota_jobs WHERE status = 'failed' AND id < ?1 ORDER BY id DESC LIMIT ?2)
    UNION ALL
    SELECT id FROM (SELECT id FROM rota_jobs WHERE status = 'cancelled' AND id < ?1 ORDER BY id DESC LIMIT ?2)
)
ORDER BY id DESC LIMIT ?2;
