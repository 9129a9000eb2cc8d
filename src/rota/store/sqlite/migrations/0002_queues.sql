-- Queues that were made or paused; `default` and those that types name need no row.

CREATE TABLE rota_queues (
    name TEXT PRIMARY KEY,
    paused INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
