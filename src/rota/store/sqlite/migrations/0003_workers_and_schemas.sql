-- What payloads must look like, and whether running a job twice is the same as running it once.

ALTER TABLE rota_types ADD COLUMN payload_schema TEXT;
ALTER TABLE rota_types ADD COLUMN idempotent INTEGER NOT NULL DEFAULT 0;

-- Workers that have announced themselves. `run` tells one process from the next under the same name.

CREATE TABLE rota_workers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    instance TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    run TEXT NOT NULL,
    announced BLOB NOT NULL,
    drain_requested INTEGER NOT NULL DEFAULT 0,
    first_seen_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL
) STRICT;
CREATE INDEX rota_workers_last_seen ON rota_workers (last_seen_at);

-- The handlers of each; `schema` is that of the arguments, as JSON.
CREATE TABLE rota_handlers (
    name TEXT NOT NULL,
    worker INTEGER NOT NULL REFERENCES rota_workers (id) ON DELETE CASCADE,
    description TEXT NOT NULL,
    schema TEXT,
    PRIMARY KEY (name, worker)
) STRICT, WITHOUT ROWID;
CREATE INDEX rota_handlers_worker ON rota_handlers (worker);
