"""One server for all attacks of this folder, which use types and tokens of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live_server import LiveServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("attacked")) as live:
        yield live
