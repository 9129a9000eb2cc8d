-- Jobs, their failed attempts and logs, types, tokens.
-- Instants are milliseconds since the epoch. Columns of rota_jobs stand in the order of domain.job.Job.

CREATE TABLE rota_jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    priority INTEGER NOT NULL,
    key TEXT,
    producer TEXT NOT NULL,
    retry_count INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER NOT NULL,
    idempotency_key TEXT,
    unique_key TEXT,
    request_uid BLOB,
    run_at INTEGER,
    due_at INTEGER,
    expires_at INTEGER,
    timeout_seconds REAL,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    claimed_at INTEGER,
    started_at INTEGER,
    worker_id TEXT,
    owner TEXT,
    lease_token BLOB,
    lease_seconds REAL,
    lease_expires_at INTEGER,
    claim_id BLOB,
    last_outcome TEXT,
    releases INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    progress_current REAL,
    progress_total REAL,
    progress_message TEXT,
    error TEXT,
    log_bytes INTEGER NOT NULL DEFAULT 0,
    log_bytes_attempt INTEGER NOT NULL DEFAULT 0,
    schedule_id INTEGER,
    "trigger" TEXT,
    scheduled_fire_time INTEGER,
    traceparent TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    finished_at INTEGER,
    -- Last, so that what lies before them is read without following their overflow pages.
    payload_key_id INTEGER NOT NULL DEFAULT 0,
    result BLOB,
    payload BLOB
) STRICT;

-- The ready index: ready jobs only, one run of entries a lane, its head first.
CREATE INDEX rota_jobs_ready ON rota_jobs (queue, type, priority DESC, id)
    WHERE status = 'pending' AND due_at IS NULL;

CREATE INDEX rota_jobs_delayed ON rota_jobs (due_at)
    WHERE status = 'pending' AND due_at IS NOT NULL;

-- Held jobs: counted by owner, swept by lease within each owner.
CREATE INDEX rota_jobs_held ON rota_jobs (owner, lease_expires_at)
    WHERE status = 'running';

-- Failed and cancelled jobs are few and looked for: written only when a job ends badly.
CREATE INDEX rota_jobs_failed ON rota_jobs (id) WHERE status = 'failed';
CREATE INDEX rota_jobs_cancelled ON rota_jobs (id) WHERE status = 'cancelled';

CREATE UNIQUE INDEX rota_jobs_request ON rota_jobs (producer, request_uid)
    WHERE request_uid IS NOT NULL;

CREATE UNIQUE INDEX rota_jobs_idempotency ON rota_jobs (producer, coalesce(schedule_id, 0), idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE TABLE rota_attempts (
    job_id INTEGER NOT NULL REFERENCES rota_jobs (id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    worker_id TEXT,
    claimed_at INTEGER,
    started_at INTEGER,
    finished_at INTEGER NOT NULL,
    error TEXT,
    PRIMARY KEY (job_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE rota_job_logs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES rota_jobs (id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX rota_job_logs_job ON rota_job_logs (job_id, id);

CREATE TABLE rota_types (
    name TEXT PRIMARY KEY,
    description TEXT NOT NULL,
    queue TEXT NOT NULL,
    default_priority INTEGER NOT NULL,
    max_retries INTEGER NOT NULL,
    backoff TEXT NOT NULL,
    lease_seconds REAL NOT NULL,
    timeout_seconds REAL,
    max_payload_bytes INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- scopes and ranges are JSON arrays of names; a range that is NULL means all.
CREATE TABLE rota_tokens (
    id TEXT PRIMARY KEY,
    key_id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL,
    pepper_key_id TEXT NOT NULL,
    previous_hash BLOB,
    previous_pepper_key_id TEXT,
    previous_until INTEGER,
    scopes TEXT NOT NULL,
    max_priority INTEGER NOT NULL,
    types TEXT,
    queues TEXT,
    schedules TEXT,
    "groups" TEXT,
    services TEXT,
    flows TEXT,
    open_api_only INTEGER NOT NULL,
    rate_limit_per_minute INTEGER,
    rate_minute INTEGER NOT NULL DEFAULT 0,
    rate_used INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER,
    created_at INTEGER NOT NULL,
    created_by TEXT
) STRICT;

-- The last instants at which any node could write; see "Leases" in the documentation.
CREATE TABLE rota_pulse (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL,
    writable_since INTEGER NOT NULL
) STRICT;
INSERT INTO rota_pulse (id, at, writable_since) VALUES (1, 0, 0);

-- Facts about the deployment: the fingerprint of its secret key.
CREATE TABLE rota_facts (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
