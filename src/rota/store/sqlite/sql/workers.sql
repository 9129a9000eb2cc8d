-- Workers that have announced themselves, and their handlers.

-- name: worker_by_instance
SELECT id, owner, run, announced, drain_requested FROM rota_workers WHERE instance = ?;

-- name: worker_by_id
SELECT
    id, instance, owner, worker_id, host, pid, version, concurrency, drain_requested, first_seen_at,
    last_seen_at
FROM rota_workers WHERE id = ?;

-- name: count_workers
SELECT count(*) FROM rota_workers;

-- name: add_worker
INSERT INTO rota_workers (
    instance, owner, worker_id, host, pid, version, concurrency, run, announced, first_seen_at, last_seen_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)
RETURNING id;

-- A new process under the name is not what somebody asked to drain.
-- name: update_worker
UPDATE rota_workers SET
    drain_requested = drain_requested AND run = ?8,
    first_seen_at = CASE WHEN run = ?8 THEN first_seen_at ELSE ?10 END,
    worker_id = ?3, host = ?4, pid = ?5, version = ?6, concurrency = ?7, run = ?8, announced = ?9,
    last_seen_at = max(last_seen_at, ?10)
WHERE instance = ?1 AND owner = ?2
RETURNING drain_requested;

-- name: drop_handlers
DELETE FROM rota_handlers WHERE worker = ?;

-- name: add_handler
INSERT INTO rota_handlers (name, worker, description, schema) VALUES (?, ?, ?, ?);

-- name: drain_worker
UPDATE rota_workers SET drain_requested = 1 WHERE id = ?;

-- name: forget_workers
DELETE FROM rota_workers WHERE last_seen_at < ?;

-- name: workers_page
SELECT
    id, instance, owner, worker_id, host, pid, version, concurrency, drain_requested, first_seen_at,
    last_seen_at
FROM rota_workers
WHERE id < :before
    AND (
        :names IS NULL
        OR EXISTS (
            SELECT 1 FROM rota_handlers
            WHERE worker = rota_workers.id AND name IN (SELECT value FROM json_each(:names))
        )
    )
ORDER BY id DESC LIMIT :limit;

-- name: handlers_of
SELECT worker, name FROM rota_handlers
WHERE worker IN (SELECT value FROM json_each(?)) ORDER BY worker, name;

-- One row a name: with max(), the other columns are those of the worker seen last.
-- name: handlers_page
SELECT
    handlers.name, description, schema, max(last_seen_at), count(*),
    json_group_array(DISTINCT substr(worker_id, 1, instr(worker_id, '/') - 1))
FROM rota_handlers AS handlers JOIN rota_workers AS workers ON workers.id = handlers.worker
WHERE :names IS NULL OR handlers.name IN (SELECT value FROM json_each(:names))
GROUP BY handlers.name ORDER BY handlers.name LIMIT :limit OFFSET :skipped;

-- name: count_held_by_worker
SELECT worker_id, queue, type, count(*) FROM (
    SELECT worker_id, queue, type FROM rota_jobs INDEXED BY rota_jobs_held WHERE status = 'running' LIMIT ?
) GROUP BY worker_id, queue, type;
