"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live_server import LiveServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """One server for the tests of a module, which use types and tokens of their own."""
    with LiveServer(tmp_path_factory.mktemp("server")) as live:
        yield live
