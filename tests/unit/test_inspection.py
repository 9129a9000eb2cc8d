"""What the doctor finds on a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota import inspection
from rota.clock import SystemClock
from rota.doctor import Facts

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / {folder} rw - nfs4 server:/export rw
31 30 0:41 / {folder}/with\\040space rw - tmpfs none rw
32 22 8:2 / {folder}-beside rw - xfs /dev/sdb rw
"""


def look(data: Path) -> Facts:
    return inspection.inspect(data, None, {}, SystemClock(), deep=False)


@pytest.mark.parametrize(
    ("below", "kind"),
    [
        ("", "nfs4"),
        ("deep/down", "nfs4"),
        ("with space/data", "tmpfs"),
        ("../elsewhere", "ext4"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount_also_before_the_folder_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str, kind: str
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(folder=tmp_path / "net"))
    monkeypatch.setattr(inspection, "MOUNTS", mounts)
    assert look(tmp_path / "net" / below).filesystem == kind


def test_links_and_leftovers_are_found(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "admin.token").symlink_to(tmp_path / "elsewhere")
    (data / "rota.db.before-restore-20261201T083000Z").touch(0o600)
    (data / ".rota.db.0123.new").touch(0o600)
    facts = look(data)
    assert facts.leftovers == [".rota.db.0123.new", "rota.db.before-restore-20261201T083000Z"]
    assert [file.path.name for file in facts.files] == [
        *facts.leftovers[:1],
        "admin.token",
        facts.leftovers[1],
    ]


def test_a_file_that_is_no_database_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "rota.db").write_bytes(b"no database" * 1000)
    facts = look(data)
    assert isinstance(facts.database, str)
    assert "no SQLite database" in facts.database
    assert [path.name for path in data.iterdir()] == ["rota.db"]
