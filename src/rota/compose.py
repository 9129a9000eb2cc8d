"""Settings to stores and services; the only module that names a concrete store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from rota.auth.authenticate import Authenticator
from rota.auth.tokens import Pepper, fingerprint
from rota.clock import Clock
from rota.host import DataLock, load_secret_key, open_data_folder
from rota.services.admin_token import ensure_admin_token
from rota.services.disk import Disk
from rota.services.health import Health
from rota.services.limits import Limits
from rota.services.queue import Queue
from rota.services.recovery import Recovery
from rota.services.runner import Runner, Task
from rota.services.services import Services
from rota.services.tokens import Tokens
from rota.services.types import Types
from rota.services.waiting import Waiting
from rota.settings import Settings
from rota.store.base import Store
from rota.store.sqlite.store import SqliteStore

REFRESH_SECONDS = 0.5
LAST_USES_SECONDS = 60


@asynccontextmanager
async def opened(settings: Settings, environ: Mapping[str, str], clock: Clock) -> AsyncIterator[Services]:
    """The services on the data that the settings name, running until the block ends.

    Makes the data folder, the secret key, the database and the admin token where they are missing.
    ``environ`` may hold the secret key. Raises StartError when the data cannot be opened or belongs
    to another key.
    """
    folder = open_data_folder(settings.data)
    with DataLock(settings.database_file.parent) as lock:
        lock.acquire_shared()
        current, previous = load_secret_key(folder, environ)
        store = await SqliteStore.open(settings.database_file, clock)
        try:
            await store.keep_fingerprint(
                fingerprint(current), None if previous is None else fingerprint(previous)
            )
            pepper = Pepper(current, previous)
            await ensure_admin_token(store, pepper, folder)
            services = _services(store, pepper, settings, clock)
            await services.start()
        except BaseException:
            await store.close()
            raise
        try:
            yield services
        finally:
            await services.close()


def _services(store: Store, pepper: Pepper, settings: Settings, clock: Clock) -> Services:
    types = Types(store, clock)
    authenticator = Authenticator(store, pepper, clock)
    disk = Disk(settings.database_file.parent, settings.min_free_disk_mb)
    tasks = (
        Task("recovery", settings.sweep_interval_ms / 1000, Recovery(store).run_once),
        Task("types", REFRESH_SECONDS, types.refresh),
        Task("tokens", REFRESH_SECONDS, authenticator.run_once),
        Task("last uses", LAST_USES_SECONDS, authenticator.record_uses),
    )
    return Services(
        clock=clock,
        store=store,
        authenticator=authenticator,
        limits=Limits(store, clock),
        queue=Queue(store, types, clock, disk),
        types=types,
        tokens=Tokens(store, pepper, clock, authenticator),
        health=Health(store, disk),
        waiting=Waiting(),
        runner=Runner(tasks),
    )
