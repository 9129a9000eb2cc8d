-- The audit, its seals, and tokens that a restore has suspended.

-- Rows are only ever added: each in the transaction of the change that it tells of.
-- fields is a JSON array of names, values a JSON object of those that may be shown.
CREATE TABLE rota_audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor_kind TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    actor_name TEXT,
    address TEXT,
    request_id TEXT,
    action TEXT NOT NULL,
    object_kind TEXT NOT NULL,
    object_id TEXT,
    fields TEXT NOT NULL,
    "values" TEXT NOT NULL,
    outcome TEXT NOT NULL,
    times INTEGER NOT NULL DEFAULT 1
) STRICT;

CREATE TRIGGER rota_audit_no_delete BEFORE DELETE ON rota_audit
BEGIN
    SELECT raise(ABORT, 'the audit is only added to');
END;

CREATE TRIGGER rota_audit_no_update BEFORE UPDATE ON rota_audit
BEGIN
    SELECT raise(ABORT, 'the audit is only added to');
END;

-- Each seal covers the rows after the last one of the seal before it, and that seal itself.
CREATE TABLE rota_audit_seals (
    last_id INTEGER PRIMARY KEY,
    records INTEGER NOT NULL,
    at INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    seal BLOB NOT NULL
) STRICT;

ALTER TABLE rota_tokens ADD COLUMN suspended_at INTEGER;
