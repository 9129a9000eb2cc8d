"""Backup, restore, a new admin token, the doctor and the audit, as an operator uses them."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Rota, Server


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server of its own, that the test may stop."""
    running = Server(tmp_path / "data")
    yield running
    if running.process.poll() is None:
        running.stop()


@pytest.fixture
def at(own: Server, tmp_path: Path) -> Rota:
    return Rota(tmp_path, {"ROTA_DATA": str(own.data)})


def verdicts(rota: Rota, *arguments: str) -> dict[str, str]:
    found = rota("doctor", "--json", *arguments).json()["checks"]
    order = ("ok", "warning", "fault")
    worst: dict[str, str] = {}
    for each in found:
        worst[each["check"]] = max(worst.get(each["check"], "ok"), each["verdict"], key=order.index)
    return worst


def let_in(rota: Rota) -> None:
    """The running server knows a token within a second that another process has made."""
    deadline = time.monotonic() + 5
    while (ended := rota("jobs", "list")).code:
        assert time.monotonic() < deadline, ended.err
        time.sleep(0.1)  # another process: it tells nobody when it has read its tokens again


def filled(rota: Rota, jobs: int = 3) -> None:
    rota.done("types", "put", "mail.send")
    for _ in range(jobs):
        rota.done("enqueue", "mail.send", "{}")


# --- backup ---------------------------------------------------------------------------------------


def test_a_backup_beside_a_running_server_is_one_private_checked_file(at: Rota, tmp_path: Path) -> None:
    filled(at)
    folder = tmp_path / "backups"
    folder.mkdir()
    made = at.done("backup", str(folder), "--json").json()
    assert [each.name for each in folder.iterdir()] == [Path(made["file"]).name]
    file = Path(made["file"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert made["bytes"] == file.stat().st_size
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT count(*) FROM rota_jobs").fetchone() == (3,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_backup_holds_neither_key_nor_admin_token_unless_they_are_asked_for(
    own: Server, at: Rota, tmp_path: Path
) -> None:
    kept = [(own.data / name).read_bytes().strip() for name in ("secret.key", "admin.token")]
    at.done("backup", str(tmp_path / "plain.db"))
    beside = [path for path in tmp_path.iterdir() if path.name.startswith("plain.db")]
    assert [path.name for path in beside] == ["plain.db"]
    assert not any(secret in beside[0].read_bytes() for secret in kept)
    at.done("backup", str(tmp_path / "full.db"), "--with-secrets")
    for name, secret in zip(("secret.key", "admin.token"), kept, strict=True):
        copied = tmp_path / f"full.db.{name}"
        assert copied.read_bytes().strip() == secret
        assert stat.S_IMODE(copied.stat().st_mode) == 0o600


def test_a_backup_never_takes_the_place_of_a_file(at: Rota, tmp_path: Path) -> None:
    target = tmp_path / "there.db"
    target.write_text("mine")
    refused = at("backup", str(target))
    assert refused.code == 1
    assert "exists already" in refused.err
    assert target.read_text() == "mine"


def test_a_backup_of_nothing_is_refused_and_makes_nothing(alone: Rota, tmp_path: Path) -> None:
    refused = alone("backup", str(tmp_path / "b.db"), "--data", str(tmp_path / "none"))
    assert refused.code == 1
    assert "There is no database" in refused.err
    assert list(tmp_path.iterdir()) == []


# --- restore --------------------------------------------------------------------------------------


def test_a_restore_is_refused_while_a_process_has_the_data_open_and_names_it(
    own: Server, at: Rota, tmp_path: Path
) -> None:
    at.done("backup", str(tmp_path / "b.db"))
    refused = at("restore", str(tmp_path / "b.db"))
    assert refused.code == 1
    assert f"process {own.process.pid}" in refused.err


def test_a_restore_brings_the_jobs_back_suspends_the_tokens_and_keeps_the_database_before(
    own: Server, at: Rota, tmp_path: Path
) -> None:
    filled(at)
    key_id = at.done("tokens", "create", "shop", "--preset", "producer", "--json").json()["key_id"]
    at.done("backup", str(tmp_path / "b.db"))
    filled(at, 2)
    own.stop()
    done = at.done("restore", str(tmp_path / "b.db"), "--json").json()
    assert (done["jobs"], done["tokens_suspended"], done["tokens_revoked"]) == (3, 2, 0)
    before = sqlite3.connect(done["aside"])
    assert before.execute("SELECT count(*) FROM rota_jobs").fetchone() == (5,)
    before.close()

    again = Server(own.data)
    try:
        refused = at("jobs", "list")
        assert refused.code == 1
        assert "token" in refused.err
        at.done("admin", "reset-token")
        let_in(at)
        assert len(at.done("jobs", "list", "--json").json()["items"]) == 3
        states = {one["key_id"]: one for one in at.done("tokens", "list", "--json").json()["items"]}
        assert states[key_id]["suspended_at"] is not None
        assert "suspended" in at.done("tokens", "list").out
        at.done("tokens", "resume", key_id)
        states = {one["key_id"]: one for one in at.done("tokens", "list", "--json").json()["items"]}
        assert states[key_id]["suspended_at"] is None
        actions = [row["action"] for row in at.done("audit", "list", "--json").json()["items"]]
        assert {"database.restore", "token.reset", "token.resume"} <= set(actions)
        assert verdicts(at)["audit"] == "ok"
    finally:
        again.stop()


def test_tokens_can_be_kept(own: Server, at: Rota, tmp_path: Path) -> None:
    at.done("backup", str(tmp_path / "b.db"))
    own.stop()
    done = at.done("restore", str(tmp_path / "b.db"), "--keep-tokens", "--json").json()
    assert (done["tokens_suspended"], done["tokens_revoked"]) == (0, 0)
    again = Server(own.data)
    try:
        at.done("jobs", "list")
    finally:
        again.stop()


def test_under_another_key_all_tokens_are_revoked_and_the_way_in_is_told(
    own: Server, at: Rota, tmp_path: Path
) -> None:
    filled(at)
    at.done("backup", str(tmp_path / "b.db"))
    elsewhere = Rota(tmp_path, {"ROTA_DATA": str(tmp_path / "elsewhere")})
    restored = elsewhere.done("restore", str(tmp_path / "b.db"), "--keep-tokens")
    assert "another secret key" in restored.err
    assert "rota admin reset-token" in restored.err
    elsewhere.done("admin", "reset-token")
    again = Server(tmp_path / "elsewhere")
    try:
        assert len(elsewhere.done("jobs", "list", "--json").json()["items"]) == 3
        tokens = elsewhere.done("tokens", "list", "--json").json()["items"]
        assert [one["name"] for one in tokens if one["revoked_at"] is None] == ["admin"]
    finally:
        again.stop()


def test_a_backup_with_secrets_is_complete_on_another_machine(own: Server, at: Rota, tmp_path: Path) -> None:
    at.done("backup", str(tmp_path / "b.db"), "--with-secrets")
    elsewhere = Rota(tmp_path, {"ROTA_DATA": str(tmp_path / "elsewhere")})
    done = elsewhere.done("restore", str(tmp_path / "b.db"), "--keep-tokens", "--json").json()
    assert not done["other_key"]
    again = Server(tmp_path / "elsewhere")
    try:
        elsewhere.done("jobs", "list")
    finally:
        again.stop()


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100], ids=["empty", "text"])
def test_what_is_no_backup_changes_nothing(own: Server, at: Rota, tmp_path: Path, content: bytes) -> None:
    own.stop()
    before = (own.data / "rota.db").read_bytes()
    wrong = tmp_path / "wrong.db"
    wrong.write_bytes(content)
    refused = at("restore", str(wrong))
    assert refused.code == 1
    assert "no database of Rota" in refused.err
    assert (own.data / "rota.db").read_bytes() == before
    assert not [path for path in own.data.iterdir() if path.name.endswith(".new")]


def test_a_damaged_backup_is_refused(own: Server, at: Rota, tmp_path: Path) -> None:
    filled(at, 40)
    at.done("backup", str(tmp_path / "b.db"))
    own.stop()
    before = (own.data / "rota.db").read_bytes()
    with (tmp_path / "b.db").open("r+b") as file:
        file.seek(8 * 4096)
        file.write(os.urandom(16 * 4096))
    refused = at("restore", str(tmp_path / "b.db"))
    assert refused.code == 1
    assert (own.data / "rota.db").read_bytes() == before


# --- a new admin token ----------------------------------------------------------------------------


def test_a_new_admin_token_ends_the_one_before_beside_a_running_server(own: Server, at: Rota) -> None:
    old = own.admin_token
    done = at.done("admin", "reset-token")
    new = own.admin_token
    assert new != old
    assert new not in done.out + done.err
    assert stat.S_IMODE((own.data / "admin.token").stat().st_mode) == 0o600
    with_old = Rota(at.folder, {"ROTA_URL": own.url, "ROTA_TOKEN": old})
    with_new = Rota(at.folder, {"ROTA_URL": own.url, "ROTA_TOKEN": new})
    let_in(with_new)
    assert with_old("jobs", "list").code == 1
    assert [path.name for path in own.data.glob(".admin.token*")] == []


def test_a_revoked_admin_token_comes_back_with_all_rights(own: Server, at: Rota) -> None:
    (admin,) = at.done("tokens", "list", "--json").json()["items"]
    at.done("tokens", "revoke", admin["key_id"])
    assert at("jobs", "list").code == 1
    assert verdicts(at)["admin token"] == "warning"
    at.done("admin", "reset-token")
    let_in(at)
    assert verdicts(at)["admin token"] == "ok"


def test_no_new_admin_token_is_made_where_there_is_no_database(alone: Rota, tmp_path: Path) -> None:
    refused = alone("admin", "reset-token", "--data", str(tmp_path / "none"))
    assert refused.code == 1
    assert "no database" in refused.err
    assert list(tmp_path.iterdir()) == []


# --- the doctor -----------------------------------------------------------------------------------


def test_the_doctor_finds_nothing_wrong_with_a_fresh_server(at: Rota) -> None:
    ended = at("doctor")
    assert ended.code == 0, ended.out
    found = verdicts(at, "--deep")
    assert {name for name, verdict in found.items() if verdict == "fault"} == set()
    assert found["server"] == found["database"] == found["schema"] == found["secret key"] == "ok"


def test_the_doctor_makes_nothing(alone: Rota, tmp_path: Path) -> None:
    assert alone("doctor", "--data", str(tmp_path / "none")).code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_names_each_fault_and_what_to_do(own: Server, at: Rota) -> None:
    own.stop()
    own.data.chmod(0o755)
    (own.data / "rota.toml").write_text("port = 1\nprot = 2\n")
    (own.data / "secret.key").write_text(secrets.token_hex(32))
    ended = at("doctor")
    assert ended.code == 1
    assert "chmod 700" in ended.out
    assert "prot" in ended.out
    assert "another one" in ended.out
    own.data.chmod(0o700)


def test_the_doctor_notices_that_the_audit_was_changed(own: Server, at: Rota) -> None:
    filled(at)
    own.stop()
    connection = sqlite3.connect(own.data / "rota.db")
    connection.execute("DROP TRIGGER rota_audit_no_update")
    connection.execute("UPDATE rota_audit SET actor_id = 'nobody' WHERE id = 2")
    connection.commit()
    connection.close()
    ended = at("doctor", "--json")
    assert ended.code == 1
    (fault,) = [each for each in ended.json()["checks"] if each["verdict"] == "fault"]
    assert fault["check"] == "audit"
    assert "broken after entry" in fault["detail"]


# --- the audit ------------------------------------------------------------------------------------


def test_the_audit_is_listed_narrowed_and_paged(at: Rota) -> None:
    filled(at, 1)
    at.done("types", "pause", "mail.send")
    ended = at.done("audit", "list", "--object", "type:mail.send")
    assert "type.pause" in ended.out
    assert "paused=true" in ended.out
    assert "127.0.0.1" in ended.out
    first = at.done("audit", "list", "--action", "type.create", "--json").json()
    assert [row["object"] for row in first["items"]] == [{"kind": "type", "id": "mail.send"}]
    page: Any = json.loads(at.done("audit", "list", "--limit", "1", "--json").out)
    assert len(page["items"]) == 1
    assert page["next_cursor"] is not None
    at.done("audit", "list", "--cursor", page["next_cursor"])
    assert at.done("audit", "list", "--to", "2020-01-01T00:00:00Z", "--json").json()["items"] == []
