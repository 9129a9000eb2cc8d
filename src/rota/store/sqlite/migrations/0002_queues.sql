-- Queues that were made or paused; `default` and those that types name need no row.

CREATE TABLE rota_queues (
    name TEXT PRIMARY KEY,
    paused INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- With queue and type, so that delayed jobs are counted by lane from the index alone.
DROP INDEX rota_jobs_delayed;
CREATE INDEX rota_jobs_delayed ON rota_jobs (due_at, queue, type)
    WHERE status = 'pending' AND due_at IS NOT NULL;
