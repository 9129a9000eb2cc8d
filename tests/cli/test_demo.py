"""``rota demo`` as a newcomer runs it."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.cli.demo import Lines, exit_code
from rota.demo.files import MOST_FILE_BYTES, measure, survey
from rota.demo.run import Progress, Summary
from rota.demo.verdict import Verdict
from rota.errors import StartError
from tests.cli.commands import Rota, environment

FILES = 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of small files; their words are known: 1 + 2 + … + 200."""
    root = tmp_path / "files"
    for n in range(1, FILES + 1):
        path = root / f"part{n % 7}" / f"{n}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("word " * n)
    return root


def test_every_file_is_counted_once_though_a_worker_is_killed(
    alone: Rota, folder: Path, tmp_path: Path
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    began = time.monotonic()
    # Variables of the user's own must not lead the demo to another server or change its own.
    strange = {"ROTA_URL": "http://127.0.0.1:1", "ROTA_TOKEN": "rota_x", "ROTA_TLS_CERT": "none"}
    demo = alone.with_variables(**strange, TMPDIR=str(temporary))
    summary = demo.process("demo", "--path", str(folder), "--json").json()
    assert time.monotonic() - began < 60
    verdict = summary["verdict"]
    assert verdict["problems"] == []
    assert (verdict["files"], verdict["words"]) == (FILES, FILES * (FILES + 1) // 2)
    assert (verdict["stumbled"], verdict["dead_letters"]) == (20, 5)
    assert verdict["taken_over"] >= summary["held"] >= 1
    assert list(temporary.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(summary["killed_pid"], 0)


def test_words_for_people_end_with_the_verdict(alone: Rota, folder: Path) -> None:
    out = alone.process("demo", "--path", str(folder)).out
    for part in ("Server ", "Tokens ", "Killed ", "failed once", "dead letters", "Verified: every file"):
        assert part in out


def test_kept_demo_can_be_looked_at_and_ends_with_ctrl_c(folder: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "rota", "demo", "--path", str(folder), "--keep"],
        env=environment(TMPDIR=str(tmp_path)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "Ctrl-C ends" in line:
                break
        command = next(line.split() for line in said.splitlines() if "rota jobs list --status failed" in line)
        listed = Rota(tmp_path, {}).done(*command[1:], "--json").json()
        process.send_signal(signal.SIGINT)
        said += process.stderr.read()
        process.wait(30)
    assert process.returncode == 0
    assert len(listed["items"]) == 5
    data = Path(command[-1])
    token = (data / "admin.token").read_text().strip()
    assert token not in said
    assert str(data / "admin.token") in said
    assert not (data / "server.json").exists()


def test_interrupted_demo_ends_what_it_started(folder: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "rota", "demo", "--path", str(folder)],
        env=environment(TMPDIR=str(tmp_path), PYTHONUNBUFFERED="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Workers"):
                break
        pids = [int(word.strip(",")) for word in line.split() if word.strip(",").isdecimal()]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert list(tmp_path.glob("rota-demo-*")) == []
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_folder_without_files_is_refused(alone: Rota, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in ("empty", "missing"):
        ended = alone("demo", "--path", path)
        assert ended.code == 1
        assert "rota demo --path FOLDER" in ended.err


def test_disagreement_is_told_and_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    good = Verdict(
        problems=(), files=1, words=1, bytes=1, retried=0, stumbled=0, taken_over=0, dead_letters=0
    )
    bad = replace(good, problems=("a: lost",))
    ends = [
        exit_code(Summary(verdict, jobs=1, killed_pid=1, held=0, seconds=1, jobs_per_second=1), as_json=False)
        for verdict in (good, bad)
    ]
    assert ends == [0, 1]
    said = capsys.readouterr()
    assert "does not agree" in said.err
    assert "a: lost" in said.err


def test_progress_lines_are_written_only_when_there_is_progress(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    for done in (1, 1, 2):
        lines.progress(Progress(total=2, done=done, failed=0, retried=0, per_second=1))
    assert len(capsys.readouterr().out.splitlines()) == 2


class TestSurvey:
    def test_default_is_the_standard_librarys_own_sources(self) -> None:
        found = survey(None)
        assert len(found.files) > 500
        assert all(path.endswith(".py") for path in found.files)
        assert not [path for path in found.files if "site-packages" in path]

    def test_links_hidden_and_large_files_are_passed_over(self, folder: Path) -> None:
        (folder / ".git").mkdir()
        (folder / ".git" / "config").write_text("x")
        (folder / "link").symlink_to(folder / "part1" / "1.txt")
        os.mkfifo(folder / "pipe")
        with (folder / "large").open("wb") as large:
            large.truncate(MOST_FILE_BYTES + 1)
        assert len(survey(folder).files) == FILES

    def test_more_files_than_the_demo_takes_are_left(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rota.demo.files.MOST_FILES", 50)
        found = survey(folder)
        assert (len(found.files), found.is_cut) == (50, True)

    def test_file_is_no_folder(self, folder: Path) -> None:
        with pytest.raises(StartError, match="not a folder"):
            survey(folder / "part1" / "1.txt")

    def test_measure_counts_bytes_words_and_checksum(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_bytes(b"one two\nthree\xff")
        counted = measure(tmp_path / "f")
        assert (counted.bytes, counted.words) == (14, 3)
        assert counted.sha256 == hashlib.sha256(b"one two\nthree\xff").hexdigest()
