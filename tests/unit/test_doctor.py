"""What the doctor makes of each thing that can be wrong: how bad it is, and what to do."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rota.auth.seals import ChainReport
from rota.doctor import Facts, FileFacts, Finding, ServerFacts, StoredFacts, judge

FOLDER = Path("/srv/rota data")
NOW = 1_780_000_000_000
CHAIN = ChainReport(10, 0, None, frozenset(), None)
STORED = StoredFacts(
    journal_mode="wal",
    faults=[],
    schema=4,
    schema_known=4,
    schema_fault=None,
    newest_at=NOW - 5,
    wal_unchecked=0,
    fingerprint="f1",
    admin="valid",
    chain=CHAIN,
)
WELL = Facts(
    folder=FOLDER,
    user=1000,
    data=FileFacts(FOLDER, stat.S_IFDIR | 0o700, 1000),
    files=[FileFacts(FOLDER / "rota.db", stat.S_IFREG | 0o600, 1000)],
    leftovers=[],
    filesystem="ext4",
    free_mb=10_000,
    min_free_mb=512,
    drift_ms=0,
    now=NOW,
    sqlite=(3, 45, 1),
    settings_fault=None,
    key_fault=None,
    fingerprint="f1",
    wal_bytes=1_000_000,
    database=STORED,
    admin_file=True,
    held=True,
    server=ServerFacts("http://127.0.0.1:8520", 200),
)


def troubles(facts: Facts) -> list[Finding]:
    return [each for each in judge(facts) if each.verdict != "ok"]


def file(name: str = "secret.key", mode: int = stat.S_IFREG | 0o600, owner: int = 1000) -> dict[str, Any]:
    return {"files": [FileFacts(FOLDER / name, mode, owner)]}


def stored(**fields: Any) -> dict[str, Any]:
    return {"database": replace(STORED, **fields)}


def audited(**fields: Any) -> dict[str, Any]:
    return stored(chain=CHAIN._replace(**fields))


def test_nothing_is_wrong_when_all_is_well() -> None:
    assert troubles(WELL) == []


def test_nothing_is_wrong_before_the_first_start() -> None:
    empty = replace(
        WELL, data=None, files=[], database=None, fingerprint=None, held=False, server=None, admin_file=False
    )
    assert troubles(empty) == []


@pytest.mark.parametrize(
    ("verdict", "check", "words", "fields"),
    [
        ("fault", "settings", "prot is not", {"settings_fault": "prot is not a setting"}),
        ("warning", "user", "root", {"user": 0, "data": replace(WELL.data, owner=0), "files": []}),  # type: ignore[type-var]
        (
            "fault",
            "data folder",
            "chmod 700 '/srv/rota data'",
            {"data": FileFacts(FOLDER, stat.S_IFDIR | 0o750, 1000)},
        ),
        ("fault", "data folder", "another user", {"data": FileFacts(FOLDER, stat.S_IFDIR | 0o700, 1)}),
        ("fault", "data folder", "symbolic link", {"data": FileFacts(FOLDER, stat.S_IFLNK | 0o777, 1000)}),
        ("fault", "data folder", "not a folder", {"data": FileFacts(FOLDER, stat.S_IFREG | 0o600, 1000)}),
        ("fault", "files", "chmod 600", file(mode=stat.S_IFREG | 0o640)),
        ("fault", "files", "symbolic link", file(mode=stat.S_IFLNK | 0o777)),
        ("fault", "files", "regular", file(mode=stat.S_IFIFO | 0o600)),
        ("fault", "files", "another user", file(owner=0)),
        ("fault", "files", "chmod 600", file("rota.toml", mode=stat.S_IFREG | 0o622)),
        ("warning", "leftovers", "rota.db.before-restore-1", {"leftovers": ["rota.db.before-restore-1"]}),
        ("fault", "file system", "local disk", {"filesystem": "nfs4"}),
        ("warning", "file system", "volume", {"filesystem": "overlay"}),
        ("fault", "disk", "make room", {"free_mb": 511}),
        ("warning", "disk", "make room", {"free_mb": 1_000}),
        ("warning", "clock", "time service", {"drift_ms": -3_000}),
        ("fault", "clock", "60 s in the future", stored(newest_at=NOW + 60_000)),
        ("fault", "SQLite", "3.36.0 is too old", {"sqlite": (3, 36, 0)}),
        ("fault", "database", "rota restore", {"database": "the database cannot be opened"}),
        ("fault", "database", "damaged", stored(faults=["row 3 is missing"])),
        ("fault", "database", "journal mode", stored(journal_mode="delete")),
        ("fault", "schema", "newer release", stored(schema_fault="written by a newer release")),
        ("warning", "schema", "make a backup", stored(schema=3)),
        (
            "warning",
            "write-ahead log",
            "long reads",
            {"wal_bytes": 2**30, **stored(wal_unchecked=200_000)},
        ),
        ("fault", "secret key", "open to other users", {"key_fault": "secret.key is open to other users"}),
        ("fault", "secret key", "put secret.key back", {"fingerprint": None}),
        ("fault", "secret key", "another one", {"fingerprint": "f2"}),
        ("warning", "admin token", "rota admin reset-token", stored(admin=None)),
        ("warning", "admin token", "it is suspended", stored(admin="suspended")),
        ("fault", "audit", "evidence", audited(broken_after=7)),
        ("warning", "audit", "ROTA_SECRET_KEY_PREVIOUS", audited(unknown_key_ids=frozenset({"k"}))),
        ("warning", "audit", "not sealed", audited(unsealed=3, oldest_unsealed_at=NOW - 600_000)),
        ("warning", "server", "none says where", {"server": None}),
        (
            "fault",
            "server",
            "does not answer",
            {"server": ServerFacts("http://127.0.0.1:1", None, "Refused")},
        ),
        ("fault", "server", "503", {"server": ServerFacts("http://127.0.0.1:1", 503)}),
    ],
)
def test_each_trouble_is_named_with_what_to_do(
    verdict: str, check: str, words: str, fields: dict[str, Any]
) -> None:
    (found,) = troubles(replace(WELL, **fields))
    assert (found.verdict, found.check) == (verdict, check)
    assert words in f"{found.detail}; {found.step}"


@pytest.mark.parametrize(
    "fields",
    [
        file("rota.toml", mode=stat.S_IFREG | 0o644),
        {"files": [FileFacts(Path("/srv/app/app.db"), stat.S_IFREG | 0o644, 1000)]},
        {"wal_bytes": 2**30},
        audited(unsealed=1, oldest_unsealed_at=NOW - 60_000),
        {"held": False, "server": None, **stored(journal_mode="delete")},
        {"admin_file": False},
    ],
)
def test_what_is_as_it_may_be_is_no_trouble(fields: dict[str, Any]) -> None:
    assert troubles(replace(WELL, **fields)) == []
