"""What keeps a server from starting."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from rota.errors import StartError
from rota.host import ServerFile
from rota.server import run
from rota.settings import Settings


async def test_a_port_in_use_is_said_before_anything_is_opened(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(data=tmp_path / "data", port=taken.getsockname()[1])
        with pytest.raises(StartError, match="choose another --port"):
            await run(settings, {}, lambda _: None)
    assert not settings.data.exists()


async def test_tokens_do_not_cross_a_network_in_the_clear(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="tls"):
        await run(Settings(data=tmp_path / "data", host="0.0.0.0", port=0), {}, lambda _: None)


async def test_a_server_is_found_again_after_a_later_one_on_its_folder_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.server.ADDRESS_SECONDS", 0.02)
    settings = Settings(data=tmp_path / "data", port=0)
    ready: asyncio.Queue[str] = asyncio.Queue()
    serving = asyncio.create_task(run(settings, {}, ready.put_nowait))
    url = await ready.get()
    file = ServerFile(settings.data)
    file.path.unlink()
    async with asyncio.timeout(10):
        while (found := file.read()) is None:  # noqa: ASYNC110 - a file cannot signal
            await asyncio.sleep(0.01)
    assert found.url == url
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
