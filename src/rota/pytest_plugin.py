"""The fixtures that Rota brings to pytest: ``rota_queue``, and ``rota_tasks`` to be replaced by your own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rota.client.tasks import Task
    from rota.testing import Queue


@pytest.fixture
def rota_tasks() -> Iterable[Task[..., Any]]:
    """The tasks that ``rota_queue`` takes jobs for and runs; none until a fixture of the tests says which."""
    return ()


@pytest.fixture
def rota_queue(tmp_path: Path, rota_tasks: Iterable[Task[..., Any]]) -> Iterator[Queue]:
    """An empty queue of its own for each test: see :mod:`rota.testing`."""
    from rota.testing import queue  # noqa: PLC0415  # tests that use no queue shall not load one

    with queue(tmp_path / "rota", rota_tasks) as opened:
        yield opened
