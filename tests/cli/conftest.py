from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Rota, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests here; each uses types and names of its own."""
    running = Server(tmp_path_factory.mktemp("cli") / "data")
    yield running
    assert running.stop() == 0


@pytest.fixture
def rota(server: Server, tmp_path: Path) -> Rota:
    """Commands on the server's own machine: they find its address and admin token in its data folder."""
    return Rota(tmp_path, {"ROTA_DATA": str(server.data)})


@pytest.fixture
def alone(tmp_path: Path) -> Rota:
    """Commands that know of no server."""
    return Rota(tmp_path, {})
