-- The audit and its seals.

-- name: add_audit
INSERT INTO rota_audit (
    at, actor_kind, actor_id, actor_name, address, request_id, action, object_kind, object_id, fields,
    "values", outcome, times
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- A window of ids, so that a filter which finds little still looks at few rows.
-- name: audit_page
SELECT
    id, at, actor_kind, actor_id, actor_name, address, request_id, action, object_kind, object_id, fields,
    "values", outcome, times
FROM rota_audit
WHERE id BETWEEN :lowest AND :highest
    AND (:actor IS NULL OR actor_id = :actor OR actor_name = :actor)
    AND (:action IS NULL OR action = :action)
    AND (:object_kind IS NULL OR object_kind = :object_kind)
    AND (:object_id IS NULL OR object_id = :object_id)
    AND (:since IS NULL OR at >= :since)
    AND (:until IS NULL OR at < :until)
ORDER BY id DESC LIMIT :limit;

-- name: last_audit_id
SELECT coalesce(max(id), 0) FROM rota_audit;

-- name: audit_after
SELECT
    id, at, actor_kind, actor_id, actor_name, address, request_id, action, object_kind, object_id, fields,
    "values", outcome, times
FROM rota_audit WHERE id > ? ORDER BY id LIMIT ?;

-- name: last_seal
SELECT last_id, records, at, key_id, seal FROM rota_audit_seals ORDER BY last_id DESC LIMIT 1;

-- name: seals
SELECT last_id, records, at, key_id, seal FROM rota_audit_seals ORDER BY last_id;

-- name: add_seal
INSERT INTO rota_audit_seals (last_id, records, at, key_id, seal) VALUES (?, ?, ?, ?, ?);
