"""Settings to stores and services; the only module that names a concrete store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from rota.auth.authenticate import Authenticator
from rota.auth.seals import AuditSealer, ChainReport
from rota.auth.tokens import Pepper, fingerprint
from rota.clock import Clock
from rota.host import DataLock, load_secret_key, open_data_folder
from rota.services.admin_token import ADMIN, ensure_admin_token
from rota.services.audit import Audit
from rota.services.backlog import Backlog
from rota.services.bulk import Bulk
from rota.services.disk import Disk
from rota.services.endings import Endings
from rota.services.health import Health
from rota.services.limits import Limits
from rota.services.measures import Measures
from rota.services.queue import Queue
from rota.services.queues import Queues
from rota.services.recovery import Recovery
from rota.services.retention import Retention
from rota.services.runner import Runner, Task
from rota.services.services import Services
from rota.services.tokens import Tokens
from rota.services.types import Types
from rota.services.waiting import Waiting
from rota.services.workers import Workers
from rota.settings import Settings
from rota.store.base import Store
from rota.store.sqlite.backup import copy as copy_database
from rota.store.sqlite.backup import (
    count_jobs,
    note,
    require_current,
    require_ours,
    settle,
)
from rota.store.sqlite.backup import prepare as prepare_database
from rota.store.sqlite.examine import DatabaseFacts, examine
from rota.store.sqlite.store import SqliteStore

__all__ = [
    "OpenData",
    "copy_database",
    "count_jobs",
    "examine_database",
    "note",
    "opened",
    "opened_data",
    "prepare_database",
    "require_current",
    "require_ours",
    "settle",
]

REFRESH_SECONDS = 0.5
LAST_USES_SECONDS = 60
AUDIT_SECONDS = 1.0


class OpenData(NamedTuple):
    folder: Path
    store: Store
    pepper: Pepper
    sealer: AuditSealer


ENDINGS_SECONDS = 0.5
BACKLOG_SECONDS = 10
RETENTION_SECONDS = 60
WORKERS_SECONDS = 60


@asynccontextmanager
async def opened(settings: Settings, environ: Mapping[str, str], clock: Clock) -> AsyncIterator[Services]:
    """The services on the data that the settings name, running until the block ends.

    Makes the data folder, the secret key, the database and the admin token where they are missing.
    ``environ`` may hold the secret key. Raises StartError when the data cannot be opened or belongs
    to another key.
    """
    async with opened_data(settings, environ, clock) as data:
        await ensure_admin_token(data.store, data.pepper, data.folder)
        services = _services(data, settings, clock)
        await services.start()
        try:
            yield services
        finally:
            await services.close()


@asynccontextmanager
async def opened_data(
    settings: Settings, environ: Mapping[str, str], clock: Clock
) -> AsyncIterator[OpenData]:
    """The store and its keys alone, until the block ends. Raises StartError as :func:`opened` does."""
    folder = open_data_folder(settings.data)
    with DataLock(settings.database_file.parent) as lock:
        lock.acquire_shared()
        current, previous = load_secret_key(folder, environ)
        store = await SqliteStore.open(settings.database_file, clock)
        try:
            await store.keep_fingerprint(
                fingerprint(current), None if previous is None else fingerprint(previous)
            )
            yield OpenData(folder, store, Pepper(current, previous), AuditSealer(current, previous))
        finally:
            await store.close()


def _services(data: OpenData, settings: Settings, clock: Clock) -> Services:
    store, pepper = data.store, data.pepper
    types = Types(store, clock)
    authenticator = Authenticator(store, pepper, clock)
    disk = Disk(settings.database_file.parent, settings.min_free_disk_mb)
    endings = Endings(store.reader)
    backlog = Backlog(store.reader, settings.max_pending)
    retention = Retention(
        store,
        clock,
        {
            "completed": settings.retention_completed_days,
            "failed": settings.retention_failed_days,
            "cancelled": settings.retention_cancelled_days,
        },
    )
    audit = Audit(store, data.sealer, clock)
    workers = Workers(store, types, clock)
    health, waiting = Health(store, disk), Waiting()
    wal = settings.database_file.with_name(settings.database_file.name + "-wal")
    tasks = (
        Task("recovery", settings.sweep_interval_ms / 1000, Recovery(store).run_once),
        Task("types", REFRESH_SECONDS, types.refresh),
        Task("tokens", REFRESH_SECONDS, authenticator.run_once),
        Task("endings", ENDINGS_SECONDS, endings.run_once),
        Task("backlog", BACKLOG_SECONDS, backlog.run_once),
        Task("retention", RETENTION_SECONDS, retention.run_once),
        Task("last uses", LAST_USES_SECONDS, authenticator.record_uses),
        Task("audit", AUDIT_SECONDS, audit.run_once),
        Task("workers", WORKERS_SECONDS, workers.run_once),
    )
    return Services(
        clock=clock,
        store=store,
        authenticator=authenticator,
        limits=Limits(store, clock),
        queue=Queue(store, types, clock, disk, endings, backlog),
        bulk=Bulk(store, endings),
        queues=Queues(store, types, clock),
        types=types,
        tokens=Tokens(store, pepper, clock, authenticator),
        health=health,
        waiting=waiting,
        measures=Measures(store.telemetry, store.reader, types, health, waiting, clock, wal),
        runner=Runner(tasks),
        audit=audit,
        workers=workers,
    )


# --- beside the server ------------------------------------------------------------------------------


def examine_database(
    settings: Settings, keys: tuple[bytes, bytes | None] | None, now: int, *, deep: bool
) -> DatabaseFacts[ChainReport]:
    """What the doctor wants to know; the audit is checked where there are ``keys``. Raises StartError."""
    check = None if keys is None else AuditSealer(*keys).check
    return examine(settings.database_file, now, ADMIN, check, deep=deep)
