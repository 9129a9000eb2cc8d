-- Which finished jobs have been kept long enough, oldest ids first. No index by time is needed: failed and
-- cancelled jobs have one by id, and the others are met by walking the oldest ids, where little is left. The
-- third column tells where to stop: behind a job that is younger, all are.

-- name: oldest_jobs
SELECT id, status IN ('completed', 'skipped') AND finished_at <= ?2, created_at > ?2
FROM rota_jobs WHERE id > ?1 ORDER BY id LIMIT ?3;

-- name: oldest_failed
SELECT id, finished_at <= ?2, created_at > ?2
FROM rota_jobs WHERE status = 'failed' AND id > ?1 ORDER BY id LIMIT ?3;

-- name: oldest_cancelled
SELECT id, finished_at <= ?2, created_at > ?2
FROM rota_jobs WHERE status = 'cancelled' AND id > ?1 ORDER BY id LIMIT ?3;
