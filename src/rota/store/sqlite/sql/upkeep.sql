-- Backups, restores and what the doctor looks at.

-- name: schema_version
PRAGMA schema_version;

-- name: applied_migrations
SELECT number, name, checksum FROM rota_migrations ORDER BY number;

-- name: count_jobs
SELECT count(*) FROM rota_jobs;

-- name: newest_instants
SELECT
    (SELECT at FROM rota_pulse WHERE id = 1),
    (SELECT updated_at FROM rota_jobs ORDER BY id DESC LIMIT 1),
    (SELECT max(created_at) FROM rota_tokens),
    (SELECT at FROM rota_audit ORDER BY id DESC LIMIT 1);

-- name: admin_token
SELECT revoked_at IS NOT NULL, suspended_at IS NOT NULL, coalesce(expires_at <= ?1, 0)
FROM rota_tokens WHERE name = ?2;
