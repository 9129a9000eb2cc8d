"""Judges what was found on a machine: each finding is ok, a warning or a fault, and says what to do.

Nothing here looks at anything itself: :mod:`rota.inspection` collects the facts.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from rota.auth.seals import ChainReport

Verdict = Literal["ok", "warning", "fault"]

NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs", "virtiofs", "ocfs2", "gfs2"}
)
PASSING: Final = frozenset({"tmpfs", "ramfs", "overlay"})
"""File systems whose content ends with the machine's run, or with the container."""
READABLE: Final = frozenset({"rota.toml"})
"""Files that others may read, as they may an application's own database: no secret stands in them."""
MAX_DRIFT_MS: Final = 50
MAX_AHEAD_MS: Final = 5_000
MAX_WAL_BYTES: Final = 256 * 1_048_576
MAX_UNSEALED_MS: Final = 5 * 60_000


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    check: str
    verdict: Verdict
    detail: str
    step: str | None = None
    """What to do about it."""


class FileFacts(msgspec.Struct, frozen=True):
    """What ``lstat`` says about a file."""

    path: Path
    mode: int
    owner: int


class ServerFacts(msgspec.Struct, frozen=True):
    """What the address in ``server.json`` answered."""

    url: str
    status: int | None
    """None when there was no answer."""
    detail: str = ""


class StoredFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in the database; see ``store.sqlite.examine``."""

    journal_mode: str
    faults: list[str]
    schema: int
    schema_known: int
    schema_fault: str | None
    newest_at: int | None
    wal_unchecked: int | None
    fingerprint: str | None
    admin: str | None
    chain: ChainReport | None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found. A fault's text stands in the place of what could not be looked at."""

    folder: Path
    user: int
    data: FileFacts | None
    files: list[FileFacts]
    leftovers: list[str]
    """Files of an unfinished or former backup or restore."""
    filesystem: str | None
    free_mb: int | None
    min_free_mb: int
    drift_ms: int
    """How far the wall clock went ahead of the steady one, or behind it (negative), during the look."""
    now: int
    sqlite: tuple[int, int, int]
    settings_fault: str | None
    key_fault: str | None
    fingerprint: str | None
    """Of the secret key; None when there is none."""
    wal_bytes: int
    database: StoredFacts | str | None
    admin_file: bool
    held: bool
    """Whether a process has the data open."""
    server: ServerFacts | None


def judge(facts: Facts) -> list[Finding]:
    """Every finding, in the order of their importance for a start."""
    return [
        *_settings(facts),
        *_folder(facts),
        *_files(facts),
        *_disk(facts),
        *_clock(facts),
        *_database(facts),
        *_key(facts),
        *_admin(facts),
        *_audit(facts),
        *_server(facts),
    ]


def _settings(facts: Facts) -> Iterator[Finding]:
    if facts.settings_fault is None:
        yield Finding("settings", "ok", "they can be read, and the server may listen where they say")
    else:
        yield Finding("settings", "fault", facts.settings_fault, "the server does not start so: change it")


def _folder(facts: Facts) -> Iterator[Finding]:
    shown, data = shlex.quote(str(facts.folder)), facts.data
    if facts.user == 0:
        yield Finding("user", "warning", "this runs as root", "give Rota a user of its own; see rota.service")
    if data is None:
        yield Finding("data folder", "ok", f"{shown} is not there yet", "the first `rota serve` makes it")
        return
    if stat.S_ISLNK(data.mode):
        yield Finding("data folder", "fault", f"{shown} is a symbolic link", "name the folder it points to")
    elif not stat.S_ISDIR(data.mode):
        yield Finding("data folder", "fault", f"{shown} is not a folder", "name another with --data")
    elif data.owner != facts.user:
        yield Finding("data folder", "fault", f"{shown} belongs to another user", "run Rota as its owner")
    elif data.mode & 0o077:
        yield Finding("data folder", "fault", f"{shown} is open to other users", f"chmod 700 {shown}")
    else:
        yield Finding("data folder", "ok", f"{shown} is there, ours and closed to others")


def _files(facts: Facts) -> Iterator[Finding]:
    wrong = False
    for file in facts.files:
        shown = shlex.quote(str(file.path))
        detail, step = "", ""
        others = 0o022 if file.path.name in READABLE or file.path.parent != facts.folder else 0o077
        if stat.S_ISLNK(file.mode):
            detail, step = "is a symbolic link", "put the file itself in its place"
        elif not stat.S_ISREG(file.mode):
            detail, step = "is not a regular file", "move it away"
        elif file.owner != facts.user:
            detail, step = "belongs to another user", f"as root: chown --reference={facts.folder} {shown}"
        elif file.mode & others:
            detail, step = "is open to other users", f"chmod 600 {shown}"
        if detail:
            wrong = True
            yield Finding("files", "fault", f"{shown} {detail}", step)
    if not wrong and facts.data is not None:
        yield Finding("files", "ok", f"{len(facts.files)} files, all ours and closed to others")
    if facts.leftovers:
        yield Finding(
            "leftovers",
            "warning",
            f"files of former restores or of backups that were cut short: {', '.join(facts.leftovers)}",
            "remove them when you have seen that all is well",
        )


def _disk(facts: Facts) -> Iterator[Finding]:
    kind = facts.filesystem
    if kind in NETWORK:
        yield Finding(
            "file system",
            "fault",
            f"the data lies on a network file system ({kind}), where SQLite's log does not work",
            "move the data folder to a local disk",
        )
    elif kind in PASSING:
        yield Finding(
            "file system",
            "warning",
            f"the data lies on {kind}, which ends with the machine's run or with the container",
            "move the data folder to a disk or a volume that stays",
        )
    elif kind is not None:
        yield Finding("file system", "ok", f"a local one ({kind})")
    if facts.free_mb is None:
        return
    room = f"{facts.free_mb:,} MiB are free"
    if facts.free_mb < facts.min_free_mb:
        yield Finding("disk", "fault", f"{room}, below min_free_disk_mb: new jobs are refused", "make room")
    elif facts.free_mb < 2 * facts.min_free_mb:
        yield Finding("disk", "warning", f"{room}: new jobs are soon refused", "make room")
    else:
        yield Finding("disk", "ok", room)


def _clock(facts: Facts) -> Iterator[Finding]:
    if abs(facts.drift_ms) > MAX_DRIFT_MS:
        yield Finding(
            "clock",
            "warning",
            f"the wall clock moved by {facts.drift_ms} ms against the steady one while this command looked",
            "let one time service set the clock, in small steps",
        )
    else:
        yield Finding("clock", "ok", "the wall clock runs with the steady one")
    database = facts.database
    if isinstance(database, StoredFacts) and database.newest_at is not None:
        ahead = database.newest_at - facts.now
        if ahead > MAX_AHEAD_MS:
            yield Finding(
                "clock",
                "fault",
                f"the database holds instants {ahead / 1000:.0f} s in the future",
                "set this machine's clock right; leases and delays last longer until it has caught up",
            )


def _database(facts: Facts) -> Iterator[Finding]:
    version = ".".join(map(str, facts.sqlite))
    if facts.sqlite < (3, 37, 0):
        yield Finding("SQLite", "fault", f"{version} is too old", "use a Python built with 3.37 or newer")
    else:
        yield Finding("SQLite", "ok", version)
    database = facts.database
    if database is None:
        if facts.data is not None:
            yield Finding("database", "ok", "there is none yet", "the first `rota serve` makes it")
        return
    if isinstance(database, str):
        yield Finding("database", "fault", database, "if it cannot be mended: rota restore BACKUP")
        return
    if database.faults:
        yield Finding(
            "database",
            "fault",
            f"it is damaged: {len(database.faults)} faults, the first: {database.faults[0]}",
            "stop the server, keep the file, and: rota restore BACKUP",
        )
    elif database.journal_mode != "wal" and facts.held:
        yield Finding(
            "database", "fault", f"its journal mode is {database.journal_mode}, not wal", "restart the server"
        )
    else:
        yield Finding("database", "ok", "whole")
    yield _schema(database)
    size = f"{facts.wal_bytes / 1_048_576:.0f} MiB"
    if facts.wal_bytes > MAX_WAL_BYTES and database.wal_unchecked != 0:
        yield Finding(
            "write-ahead log",
            "warning",
            f"{size}, and something that reads for long keeps it from being copied back",
            "end long reads of the file: a backup, a sqlite3 shell, another program",
        )
    else:
        yield Finding("write-ahead log", "ok", size)


def _schema(database: StoredFacts) -> Finding:
    if database.schema_fault is not None:
        return Finding("schema", "fault", database.schema_fault)
    if database.schema < database.schema_known:
        return Finding(
            "schema",
            "warning",
            f"{database.schema}, this release knows {database.schema_known}",
            "make a backup; the next start of the server brings it up to date",
        )
    return Finding("schema", "ok", str(database.schema))


def _key(facts: Facts) -> Iterator[Finding]:
    stored = facts.database.fingerprint if isinstance(facts.database, StoredFacts) else None
    if facts.key_fault is not None:
        yield Finding("secret key", "fault", facts.key_fault)
    elif facts.fingerprint is None:
        if stored is not None:
            yield Finding(
                "secret key",
                "fault",
                "there is none, but the database was written under one",
                "put secret.key back, or name it in ROTA_SECRET_KEY_FILE; without it all tokens are void",
            )
    elif stored is not None and stored != facts.fingerprint:
        yield Finding(
            "secret key",
            "fault",
            "the database was written under another one",
            "use that key, or give it as ROTA_SECRET_KEY_PREVIOUS to change to this one",
        )
    else:
        yield Finding("secret key", "ok", "it is the database's" if stored else "it can be used")


def _admin(facts: Facts) -> Iterator[Finding]:
    database = facts.database
    if not isinstance(database, StoredFacts) or database.schema == 0:
        return
    if database.admin != "valid":
        yield Finding(
            "admin token",
            "warning",
            "there is none" if database.admin is None else f"it is {database.admin}",
            "a new one: rota admin reset-token",
        )
    elif facts.admin_file:
        yield Finding(
            "admin token",
            "ok",
            "valid; it lies in admin.token",
            "remove the file when you have another token with all rights",
        )
    else:
        yield Finding("admin token", "ok", "valid; admin.token is gone, as it may be")


def _audit(facts: Facts) -> Iterator[Finding]:
    database = facts.database
    chain = database.chain if isinstance(database, StoredFacts) else None
    if chain is None:
        return
    if chain.broken_after is not None:
        yield Finding(
            "audit",
            "fault",
            f"the chain of seals is broken after entry {chain.broken_after}: the database was tampered with",
            "keep the file as evidence, compare it with backups, and renew every token and the key",
        )
        return
    if chain.unknown_key_ids:
        yield Finding(
            "audit",
            "warning",
            "a part was sealed under another secret key and cannot be checked",
            "give that key as ROTA_SECRET_KEY_PREVIOUS to check it",
        )
    if chain.oldest_unsealed_at is not None and facts.now - chain.oldest_unsealed_at > MAX_UNSEALED_MS:
        verdict: Verdict = "warning" if facts.held else "ok"
        step = "look into the server's log for task_failed" if facts.held else "the next start seals them"
        yield Finding("audit", verdict, f"{chain.unsealed:,} entries are not sealed yet", step)
    yield Finding("audit", "ok", f"{chain.sealed:,} entries are as they were written")


def _server(facts: Facts) -> Iterator[Finding]:
    server = facts.server
    if not facts.held:
        yield Finding("server", "ok", "none runs on this data folder", "start one with: rota serve")
    elif server is None:
        yield Finding(
            "server",
            "warning",
            "a process has the data open, but none says where it answers",
            "that is well for in-process mode and other commands; else restart the server",
        )
    elif server.status is None:
        yield Finding("server", "fault", f"{server.url} does not answer ({server.detail})", "see its log")
    elif server.status != 200:
        yield Finding(
            "server", "fault", f"{server.url} answers {server.status}: not ready", "see its log and the disk"
        )
    else:
        yield Finding("server", "ok", f"{server.url} is ready")
