"""Which server a command talks to, as whom, and that the admin token goes nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rota.cli.connection import Server as Flags
from rota.cli.connection import address_and_token
from rota.cli.failures import NextStep
from rota.errors import Unauthenticated, Unavailable
from rota.host import DataLock, ServerAddress, ServerFile, open_data_folder, write_private
from tests.cli.commands import Rota, Server

URL = "http://127.0.0.1:8521"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder of a server that has died."""
    folder = open_data_folder(tmp_path / "data")
    ServerFile(folder).write(ServerAddress(URL, os.getpid(), 0))
    write_private(folder / "admin.token", b"rota_admin\n")
    with DataLock(folder) as lock:
        lock.acquire_shared()
    return folder


def test_admin_token_is_used_while_the_server_holds_its_lock(data: Path) -> None:
    with DataLock(data) as lock:
        lock.acquire_shared()
        assert address_and_token(Flags(data=data), {}) == (URL, "rota_admin")
        assert address_and_token(Flags(), {"ROTA_DATA": str(data)}) == (URL, "rota_admin")
        assert address_and_token(Flags(url=URL + "/", data=data), {}) == (URL, "rota_admin")


def test_admin_token_stays_home_when_the_server_has_gone(data: Path) -> None:
    with pytest.raises(NextStep) as refused:
        address_and_token(Flags(data=data), {})
    assert isinstance(refused.value.cause, Unavailable)
    assert "rota serve --data" in refused.value.step


@pytest.mark.parametrize("url", ["http://127.0.0.1:8522", "http://localhost:8521", "https://127.0.0.1:8521"])
def test_admin_token_is_not_sent_to_another_address(data: Path, url: str) -> None:
    with DataLock(data) as lock:
        lock.acquire_shared()
        for flags, environ in ((Flags(url=url, data=data), {}), (Flags(data=data), {"ROTA_URL": url})):
            with pytest.raises(NextStep) as refused:
                address_and_token(flags, environ)
            assert isinstance(refused.value.cause, Unauthenticated)


def test_token_file_wins_over_variable_and_variable_over_admin_token(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "token"
    write_private(file, b"rota_file\n")
    with DataLock(data) as lock:
        lock.acquire_shared()
        environ = {"ROTA_TOKEN": "rota_variable"}
        assert address_and_token(Flags(data=data, token_file=file), environ) == (URL, "rota_file")
        assert address_and_token(Flags(data=data), environ) == (URL, "rota_variable")


def test_token_file_that_others_can_read_is_refused(alone: Rota, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("rota_x")
    file.chmod(0o644)
    ended = alone("jobs", "list", "--url", URL, "--token-file", str(file))
    assert ended.code == 2
    assert f"chmod 600 {file}" in ended.err


def test_token_comes_from_a_pipe(alone: Rota, server: Server) -> None:
    arguments = ("jobs", "list", "--url", server.url, "--token-file", "/dev/stdin", "--json")
    assert "items" in alone.process(*arguments, stdin=server.admin_token + "\n").json()


def test_without_any_token_the_ways_to_one_are_told(alone: Rota) -> None:
    ended = alone("jobs", "list", "--url", URL)
    assert ended.code == 1
    for way in (f"no token for {URL}", "ROTA_TOKEN", "--token-file", "--data"):
        assert way in ended.err


def test_missing_data_folder_is_named_with_the_ways_to_a_server(alone: Rota) -> None:
    for arguments, folder, start in (
        ((), "./rota-data", "`rota serve`"),
        (("--data", "/moved"), "/moved", "`rota serve --data /moved`"),
    ):
        ended = alone("jobs", "list", *arguments)
        assert ended.code == 1
        for part in (f"There is no data folder {folder} here", start, "--data", "--url", "ROTA_TOKEN"):
            assert part in ended.err


def test_stopped_server_is_told_from_a_missing_token(alone: Rota, tmp_path: Path) -> None:
    open_data_folder(tmp_path / "rota-data")
    ended = alone("jobs", "list")
    assert ended.code == 1
    assert "No server is running on ./rota-data." in ended.err
    assert ended.err.rstrip().endswith("rota serve")


@pytest.mark.parametrize("command", ["jobs list", "serve"])
def test_data_folder_that_is_a_file_is_refused(alone: Rota, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").touch()
    ended = alone(*command.split(), "--data", "file")
    assert ended.code == 1
    assert "file is a file, not a folder" in ended.err


def test_killed_server_leaves_no_door_open(alone: Rota, tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    local = alone.with_variables(ROTA_DATA=str(server.data))
    local.done("jobs", "list")
    server.kill()
    ended = local("jobs", "list")
    assert ended.code == 1
    assert "No server is running" in ended.err
