-- Queues: the rows of those that were made or paused, and counts of the jobs in them.

-- name: read_queues
SELECT name, paused, created_at, updated_at FROM rota_queues ORDER BY name;

-- name: read_queue
SELECT name, paused, created_at, updated_at FROM rota_queues WHERE name = ?;

-- name: count_queues
SELECT count(*) FROM rota_queues;

-- name: paused_queues
SELECT name FROM rota_queues WHERE paused;

-- name: queue_is_named
SELECT EXISTS (SELECT 1 FROM rota_types WHERE queue = ? AND NOT deleted);

-- name: put_queue
INSERT INTO rota_queues (name, paused, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, updated_at = excluded.updated_at
WHERE paused <> excluded.paused;

-- name: count_ready
SELECT count(*) FROM (
    SELECT 1 FROM rota_jobs WHERE queue = ? AND type = ? AND status = 'pending' AND due_at IS NULL LIMIT ?
);

-- Since when the job at the head of each priority has been ready: nothing else writes a ready job.
-- name: ready_since
SELECT min(
    (
        SELECT updated_at FROM rota_jobs
        WHERE queue = ?1 AND type = ?2 AND priority = level.value AND status = 'pending' AND due_at IS NULL
        ORDER BY id LIMIT 1
    )
)
FROM json_each(?3) AS level;

-- name: count_delayed
SELECT queue, type, count(*) FROM (
    SELECT queue, type FROM rota_jobs WHERE status = 'pending' AND due_at IS NOT NULL ORDER BY due_at LIMIT ?
) GROUP BY queue, type;

-- name: count_running
SELECT queue, type, count(*) FROM (
    SELECT queue, type FROM rota_jobs INDEXED BY rota_jobs_held WHERE status = 'running' LIMIT ?
) GROUP BY queue, type;

-- Pending jobs of everybody, counted up to a number that matters.
-- name: count_pending
SELECT
    (SELECT count(*) FROM (
        SELECT 1 FROM rota_jobs INDEXED BY rota_jobs_ready
        WHERE status = 'pending' AND due_at IS NULL LIMIT ?1
    ))
    + (SELECT count(*) FROM (
        SELECT 1 FROM rota_jobs INDEXED BY rota_jobs_delayed
        WHERE status = 'pending' AND due_at IS NOT NULL LIMIT ?1
    ));

-- name: pending_by_producer
SELECT producer, count(*) FROM (
    SELECT producer FROM rota_jobs INDEXED BY rota_jobs_ready WHERE status = 'pending' AND due_at IS NULL
    UNION ALL
    SELECT producer FROM rota_jobs INDEXED BY rota_jobs_delayed WHERE status = 'pending' AND due_at IS NOT NULL
) GROUP BY producer;

-- Of jobs that somebody waits for: those that still go on.
-- name: unfinished_of
SELECT id FROM rota_jobs
WHERE id IN (SELECT value FROM json_each(?)) AND status IN ('pending', 'blocked', 'running');
