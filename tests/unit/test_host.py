from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota import host
from rota.errors import StartError
from rota.host import DataLock, ServerAddress, ServerFile

KEY = "7f3a" + os.urandom(30).hex()
OTHER_KEY = "91be" + os.urandom(30).hex()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return host.open_data_folder(tmp_path / "data")


class TestDataFolder:
    def test_missing_folder_is_made_for_its_owner_only(self, tmp_path: Path, open_umask: None) -> None:
        made = host.open_data_folder(tmp_path / "new" / "data")
        assert made == tmp_path / "new" / "data"
        assert (mode(made), mode(made.parent)) == (0o700, 0o700)

    def test_folder_that_is_ours_is_opened_again(self, folder: Path) -> None:
        assert host.open_data_folder(folder) == folder

    def test_relative_folder_becomes_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert host.open_data_folder(Path("data")) == tmp_path / "data"

    def test_symbolic_link_is_refused(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(folder)
        with pytest.raises(StartError, match="symbolic link"):
            host.open_data_folder(tmp_path / "link")

    def test_dangling_link_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        with pytest.raises(StartError, match="symbolic link"):
            host.open_data_folder(tmp_path / "link")

    def test_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(StartError, match="not a folder"):
            host.open_data_folder(tmp_path / "file")
        with pytest.raises(StartError, match="cannot be used"):
            host.open_data_folder(tmp_path / "file" / "data")

    @pytest.mark.parametrize("wide", [0o750, 0o701, 0o720])
    def test_folder_open_to_others_is_refused_with_the_command_that_helps(
        self, folder: Path, wide: int
    ) -> None:
        folder.chmod(wide)
        with pytest.raises(StartError, match=f"chmod 700 {folder}"):
            host.open_data_folder(folder)
        assert mode(folder) == wide

    def test_folder_of_another_user_is_refused(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        with pytest.raises(StartError, match="another user"):
            host.open_data_folder(folder)


class TestPrivateFiles:
    def test_created_file_is_private_and_whole(self, folder: Path, open_umask: None) -> None:
        host.create_private(folder / "a", b"content")
        assert host.read_private(folder / "a") == b"content"
        assert mode(folder / "a") == 0o600
        assert names(folder) == ["a"]

    def test_creation_takes_no_file_or_links_place(self, folder: Path) -> None:
        (folder / "a").write_bytes(b"first")
        (folder / "link").symlink_to(folder / "nowhere")
        for name in ("a", "link"):
            with pytest.raises(FileExistsError):
                host.create_private(folder / name, b"second")
        assert (folder / "a").read_bytes() == b"first"
        assert names(folder) == ["a", "link"]

    def test_written_file_replaces_a_link_and_leaves_its_target(self, folder: Path, tmp_path: Path) -> None:
        target = tmp_path / "target"
        target.write_bytes(b"precious")
        (folder / "a").symlink_to(target)
        host.write_private(folder / "a", b"new")
        assert host.read_private(folder / "a") == b"new"
        assert (mode(folder / "a"), target.read_bytes()) == (0o600, b"precious")
        assert names(folder) == ["a"]

    def test_file_and_folder_are_synced(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        synced: list[bool] = []
        sync = os.fsync

        def note(descriptor: int) -> None:
            synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", note)
        host.create_private(folder / "a", b"content")
        host.write_private(folder / "a", b"content")
        assert synced == [False, True, False, True]

    def test_missing_file_is_told_apart(self, folder: Path) -> None:
        with pytest.raises(FileNotFoundError):
            host.read_private(folder / "a")

    def test_link_is_not_read(self, folder: Path) -> None:
        host.create_private(folder / "a", b"content")
        (folder / "link").symlink_to(folder / "a")
        with pytest.raises(StartError, match="symbolic link"):
            host.read_private(folder / "link")

    @pytest.mark.parametrize("wide", [0o640, 0o604, 0o700])
    def test_wider_file_is_not_read_and_the_command_that_helps_is_said(self, folder: Path, wide: int) -> None:
        host.create_private(folder / "a", b"content")
        (folder / "a").chmod(wide)
        with pytest.raises(StartError, match=f"chmod 600 {folder}/a"):
            host.read_private(folder / "a")

    def test_file_of_another_user_is_not_read(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        host.create_private(folder / "a", b"content")
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        with pytest.raises(StartError, match="another user"):
            host.read_private(folder / "a")

    def test_fifo_does_not_hold_the_reader(self, folder: Path) -> None:
        os.mkfifo(folder / "a", 0o600)
        with pytest.raises(StartError, match="not a regular file"):
            host.read_private(folder / "a")

    def test_endless_file_is_not_read(self, folder: Path) -> None:
        host.create_private(folder / "a", b"a" * (host.MAX_PRIVATE_BYTES + 1))
        with pytest.raises(StartError, match="larger"):
            host.read_private(folder / "a")


class TestDataLock:
    def test_many_share_and_none_has_it_alone_meanwhile(self, folder: Path) -> None:
        with DataLock(folder) as one, DataLock(folder) as two, DataLock(folder) as alone:
            one.acquire_shared()
            two.acquire_shared()
            with pytest.raises(StartError, match=f"process {os.getpid()}"):
                alone.acquire_exclusive(wait_seconds=0)
            one.release()
            two.release()
            alone.acquire_exclusive(wait_seconds=0)

    def test_none_shares_what_one_has_alone_until_it_steps_down(self, folder: Path) -> None:
        with DataLock(folder) as alone, DataLock(folder) as other:
            alone.acquire_exclusive()
            with pytest.raises(StartError, match=f"process {os.getpid()}"):
                other.acquire_shared(wait_seconds=0)
            alone.acquire_shared()
            other.acquire_shared(wait_seconds=0)

    def test_starting_process_waits_out_a_short_look_of_another(self, folder: Path) -> None:
        with DataLock(folder) as looking, DataLock(folder) as starting:
            looking.acquire_exclusive()
            soon = threading.Timer(0.1, looking.release)
            soon.start()
            starting.acquire_shared()
            soon.join()

    def test_held_is_seen_from_outside_and_the_look_leaves_no_trace(self, folder: Path) -> None:
        assert not DataLock(folder).is_held()
        assert names(folder) == []
        with DataLock(folder) as lock:
            lock.acquire_shared()
            assert DataLock(folder).is_held()
            assert lock.is_held()
        assert not DataLock(folder).is_held()
        assert mode(folder / host.LOCK_FILE) == 0o600

    def test_killed_process_is_named_while_it_lives_and_lets_go_when_it_dies(self, folder: Path) -> None:
        program = (
            "import sys, pathlib; from rota.host import DataLock\n"
            "lock = DataLock(pathlib.Path(sys.argv[1])); lock.acquire_shared()\n"
            "print('held', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", program, str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            with DataLock(folder) as lock:
                with pytest.raises(StartError, match=f"stop process {holder.pid}"):
                    lock.acquire_exclusive(wait_seconds=0)
                holder.kill()
                holder.wait()
                lock.acquire_exclusive(wait_seconds=0)

    def test_lock_file_that_is_a_link_is_refused(self, folder: Path, tmp_path: Path) -> None:
        (folder / host.LOCK_FILE).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StartError, match="symbolic link"):
            DataLock(folder).acquire_shared()
        assert not (tmp_path / "elsewhere").exists()


class TestServerFile:
    def test_address_is_written_read_and_taken_back(self, folder: Path) -> None:
        file = ServerFile(folder)
        address = ServerAddress("http://127.0.0.1:8520", os.getpid(), 1_780_000_000_000)
        assert file.read() is None
        file.write(address)
        assert file.read() == address
        assert mode(file.path) == 0o600
        file.remove()
        assert file.read() is None
        file.remove()

    def test_address_of_a_later_server_is_left(self, folder: Path) -> None:
        file = ServerFile(folder)
        address = ServerAddress("http://127.0.0.1:8520", os.getpid() + 1, 1_780_000_000_000)
        file.write(address)
        file.remove()
        assert file.read() == address

    @pytest.mark.parametrize("content", [b"{", b"{}", b"\xff"])
    def test_foreign_content_is_refused(self, folder: Path, content: bytes) -> None:
        host.create_private(folder / host.SERVER_FILE, content)
        with pytest.raises(StartError, match="Remove it"):
            ServerFile(folder).read()


class TestSecretKey:
    def test_key_is_made_once_and_kept(self, folder: Path) -> None:
        key, previous = host.load_secret_key(folder, {})
        assert len(key) == 32
        assert previous is None
        assert host.load_secret_key(folder, {}) == (key, None)
        assert mode(folder / host.KEY_FILE) == 0o600

    def test_processes_that_start_at_once_make_one_key(self, folder: Path) -> None:
        program = (
            "import sys, pathlib; from rota.host import load_secret_key\n"
            "print('ready', flush=True); sys.stdin.read()\n"
            "print(load_secret_key(pathlib.Path(sys.argv[1]), {})[0].hex())"
        )
        command = [sys.executable, "-c", program, str(folder)]
        starting = [
            subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(4)
        ]
        for process in starting:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in starting:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        keys = {process.communicate()[0].strip() for process in starting}
        assert keys == {host.load_secret_key(folder, {})[0].hex()}

    def test_the_loser_of_the_race_takes_the_winners_key(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create = host.create_private

        def lose(path: Path, data: bytes) -> None:
            create(path, KEY.encode())
            create(path, data)

        monkeypatch.setattr(host, "create_private", lose)
        assert host.load_secret_key(folder, {})[0] == bytes.fromhex(KEY)

    def test_given_keys_are_used_and_nothing_is_written(self, folder: Path) -> None:
        given = {"ROTA_SECRET_KEY": KEY, "ROTA_SECRET_KEY_PREVIOUS": OTHER_KEY}
        assert host.load_secret_key(folder, given) == (bytes.fromhex(KEY), bytes.fromhex(OTHER_KEY))
        assert names(folder) == []

    def test_mounted_key_may_be_a_link_and_readable_by_the_group(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "key").write_text(KEY + "\n")
        (tmp_path / "key").chmod(0o440)
        (tmp_path / "link").symlink_to(tmp_path / "key")
        key, _ = host.load_secret_key(folder, {"ROTA_SECRET_KEY_FILE": str(tmp_path / "link")})
        assert key == bytes.fromhex(KEY)

    @pytest.mark.parametrize("wide", [0o444, 0o460, 0o602])
    def test_mounted_key_open_to_others_is_refused(self, folder: Path, tmp_path: Path, wide: int) -> None:
        (tmp_path / "key").write_text(KEY)
        (tmp_path / "key").chmod(wide)
        with pytest.raises(StartError, match="open to other users"):
            host.load_secret_key(folder, {"ROTA_SECRET_KEY_FILE": str(tmp_path / "key")})

    def test_mounted_key_that_is_missing_is_refused_not_made(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(StartError, match="does not exist"):
            host.load_secret_key(folder, {"ROTA_SECRET_KEY_FILE": str(tmp_path / "key")})
        assert names(folder) == []

    def test_two_sources_are_refused(self, folder: Path) -> None:
        with pytest.raises(StartError, match="both set"):
            host.load_secret_key(folder, {"ROTA_SECRET_KEY": KEY, "ROTA_SECRET_KEY_FILE": "/x"})

    @pytest.mark.parametrize("name", ["ROTA_SECRET_KEY", "ROTA_SECRET_KEY_PREVIOUS"])
    def test_short_key_is_refused_by_its_variables_name(self, folder: Path, name: str) -> None:
        with pytest.raises(StartError, match=name + " "):
            host.load_secret_key(folder, {name: "short"})

    def test_emptied_key_file_is_refused_not_made_anew(self, folder: Path) -> None:
        host.create_private(folder / host.KEY_FILE, b"")
        with pytest.raises(StartError, match=host.KEY_FILE):
            host.load_secret_key(folder, {})


class TestProcess:
    def test_root_is_warned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert "root" in (host.warn_if_root() or "")

    def test_other_users_are_not_warned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        assert host.warn_if_root() is None

    def test_new_files_are_private_once_the_umask_is_set(self, folder: Path, open_umask: None) -> None:
        host.set_umask()
        (folder / "a").touch()
        assert mode(folder / "a") == 0o600
