"""Many producers and workers at once: nobody is turned away, nothing is taken from who is alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.judge import judge
from tests.crash.ledger import Ledger, read_ledger
from tests.crash.load import Seen, run_load
from tests.crash.server_process import ServerProcess


async def loaded(folder: Path, seconds: float) -> Seen:
    ledger = Ledger(folder / "ledger")
    async with ServerProcess(folder / "data") as server:
        seen = await run_load([server], ledger, producers=64, workers=16, seconds=seconds)
        final = await server.final_jobs()
    ledger.close()
    assert seen.stored > 0
    assert seen.server_errors == []
    assert judge(read_ledger(ledger.path), final) == []
    assert [job for job in final if job.lost] == []
    assert seen.refused == []
    return seen


@pytest.mark.alone
async def test_64_producers_and_16_workers_meet_no_error_and_no_false_reclaim(tmp_path: Path) -> None:
    await loaded(tmp_path, 8)


@pytest.mark.soak
async def test_64_producers_and_16_workers_for_a_minute(tmp_path: Path) -> None:
    print(f"\n64 producers, 16 workers: {await loaded(tmp_path, 60)}")  # noqa: T201 - the soak's output
