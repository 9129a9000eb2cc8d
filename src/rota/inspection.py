"""Collects what the doctor judges. It makes no file and changes nothing, whatever it finds."""

from __future__ import annotations

import os
import re
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import asdict

from rota import compose, settings
from rota.auth.tokens import fingerprint
from rota.clock import Clock, Drift
from rota.doctor import Facts, FileFacts, ServerFacts, StoredFacts
from rota.errors import StartError
from rota.host import ADMIN_FILE, DataLock, ServerFile, existing_secret_key
from rota.settings import Settings, check_bind

ANSWER_SECONDS: Final = 3.0
DRIFT_SECONDS: Final = 0.2
"""The shortest time over which the clocks are compared."""
MOUNTS: Final = Path("/proc/self/mountinfo")
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
"""How spaces stand in it."""


def inspect(
    data: Path | None, config: Path | None, environ: Mapping[str, str], clock: Clock, *, deep: bool
) -> Facts:
    """Look at everything that belongs to the data folder that flag, variable or default name.

    ``deep`` also compares every index of the database with its table.
    """
    drift = Drift()
    told, settings_fault = _settings(data, config, environ)
    folder = told.data.absolute()
    database = told.database_file
    keys, key_fault = _keys(folder, environ)
    held = _held(database.parent)
    stored = _database(told, keys, clock.now(), deep=deep)
    server = _server(folder) if held else None
    files, leftovers = _files(folder, database)
    time.sleep(max(0.0, DRIFT_SECONDS - drift.seconds))
    return Facts(
        folder=folder,
        user=os.geteuid(),
        data=_file(folder),
        files=files,
        leftovers=leftovers,
        filesystem=_filesystem(database.parent),
        free_mb=_free_mb(database.parent),
        min_free_mb=told.min_free_disk_mb,
        drift_ms=drift.ms,
        now=clock.now(),
        sqlite=sqlite3.sqlite_version_info,
        settings_fault=settings_fault,
        key_fault=key_fault,
        fingerprint=None if keys is None else fingerprint(keys[0]),
        wal_bytes=_size(database.with_name(f"{database.name}-wal")),
        database=stored,
        admin_file=(folder / ADMIN_FILE).exists(),
        held=held,
        server=server,
    )


def _settings(
    data: Path | None, config: Path | None, environ: Mapping[str, str]
) -> tuple[Settings, str | None]:
    """The settings as they are; where they are refused, their defaults in the folder that was named."""
    try:
        told = settings.load(data, config, environ, {})
    except StartError as refused:
        named = data or Path(environ.get("ROTA_DATA") or settings.DEFAULT_DATA)
        return Settings(data=named), refused.detail
    try:
        check_bind(told)
    except StartError as refused:
        return told, refused.detail
    return told, None


def _keys(folder: Path, environ: Mapping[str, str]) -> tuple[tuple[bytes, bytes | None] | None, str | None]:
    try:
        return existing_secret_key(folder, environ), None
    except StartError as refused:
        return None, refused.detail


def _held(folder: Path) -> bool:
    try:
        return DataLock(folder).is_held()
    except OSError:
        return False


def _database(
    told: Settings, keys: tuple[bytes, bytes | None] | None, now: int, *, deep: bool
) -> StoredFacts | str | None:
    if not told.database_file.exists():
        return None
    try:
        return StoredFacts(**asdict(compose.examine_database(told, keys, now, deep=deep)))
    except StartError as refused:
        return refused.detail


def _server(folder: Path) -> ServerFacts | None:
    try:
        address = ServerFile(folder).read()
    except StartError:
        return None
    if address is None or not address.url.startswith(("http://", "https://")):
        return None
    url = f"{address.url}/health/ready"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=ANSWER_SECONDS) as answer:
            return ServerFacts(address.url, answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return ServerFacts(address.url, refused.code)
    except (OSError, ValueError) as failed:
        return ServerFacts(address.url, None, type(failed).__name__)


def _files(folder: Path, database: Path) -> tuple[list[FileFacts], list[str]]:
    """Everything in the data folder and the database with its sidecars; then what is left over of it."""
    paths = {database.with_name(database.name + suffix) for suffix in ("", "-wal", "-shm")}
    with suppress(OSError):
        paths |= {path for path in folder.iterdir() if not path.is_dir() or path.is_symlink()}
    found = [file for path in sorted(paths) if (file := _file(path)) is not None]
    leftovers = [
        name for each in found if (name := each.path.name).endswith(".new") or ".before-restore-" in name
    ]
    return found, leftovers


def _file(path: Path) -> FileFacts | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return FileFacts(path, found.st_mode, found.st_uid)


def _filesystem(folder: Path) -> str | None:
    """The kind of file system on which the folder lies or would lie; None where the system does not tell."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    place = folder.resolve()
    best: tuple[int, str | None] = (-1, None)
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), before.split()[4]))
        if (place == mount or mount in place.parents) and len(mount.parts) >= best[0]:
            best = (len(mount.parts), after.split()[0])
    return best[1]


def _free_mb(folder: Path) -> int | None:
    for place in (folder, *folder.parents):
        try:
            found = os.statvfs(place)
        except OSError:
            continue
        return found.f_bavail * found.f_frsize // 1_048_576
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
