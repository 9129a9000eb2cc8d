-- Which finished jobs have been kept long enough, oldest ids first. No index by time is needed: failed and
-- cancelled jobs have one by id, and the others are met by walking the oldest ids, where little is left.

-- A window ends with the first job that was created after ?2: whatever follows is younger still. ?1 is where
-- the walk before ended.
-- name: oldest_jobs
SELECT id, status IN ('completed', 'skipped') AND finished_at <= ?2
FROM rota_jobs WHERE id > ?1 AND created_at <= ?2 ORDER BY id LIMIT ?3;

-- name: oldest_failed
SELECT id, finished_at <= ?2
FROM rota_jobs WHERE status = 'failed' AND id > ?1 AND created_at <= ?2 ORDER BY id LIMIT ?3;

-- name: oldest_cancelled
SELECT id, finished_at <= ?2
FROM rota_jobs WHERE status = 'cancelled' AND id > ?1 AND created_at <= ?2 ORDER BY id LIMIT ?3;
