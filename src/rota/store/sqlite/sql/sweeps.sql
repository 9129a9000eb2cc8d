-- Promotion of delayed jobs and recovery of lapsed leases.

-- A pause of more than 2 s between two sweeps of any node means that nobody could write meanwhile.
-- name: pulse
UPDATE rota_pulse SET
    writable_since = CASE WHEN ?1 - at > 2000 THEN ?1 ELSE writable_since END,
    at = max(at, ?1)
WHERE id = 1
RETURNING writable_since;

-- name: promote
UPDATE rota_jobs SET due_at = NULL, updated_at = ?1
WHERE id IN (
    SELECT id FROM rota_jobs
    WHERE status = 'pending' AND due_at IS NOT NULL AND due_at <= ?1
    ORDER BY due_at LIMIT ?2
)
RETURNING queue, type;

-- Steps from owner to owner through the index of held jobs and reads only leases that have run out. The last
-- condition is that of transitions.lapsed, so that jobs still spared after an outage (?2) take nobody's place.
-- name: lapsed_jobs
WITH RECURSIVE holder (owner) AS (
    SELECT (SELECT min(owner) FROM rota_jobs WHERE status = 'running')
    UNION ALL
    SELECT (SELECT min(owner) FROM rota_jobs WHERE status = 'running' AND owner > holder.owner)
    FROM holder WHERE holder.owner IS NOT NULL
)
SELECT rota_jobs.id
FROM holder JOIN rota_jobs INDEXED BY rota_jobs_held
    ON rota_jobs.status = 'running' AND rota_jobs.owner = holder.owner
    AND rota_jobs.lease_expires_at < ?1
    AND ?2 + CAST(rota_jobs.lease_seconds * 1000 / 3 AS INTEGER) + 2000 < ?1
LIMIT ?3;
