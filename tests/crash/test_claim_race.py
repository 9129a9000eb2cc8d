"""V-06: many processes claim from one queue at once; each job is handed out exactly once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.judge import judge
from tests.crash.ledger import Ledger, read_ledger
from tests.crash.server_process import ServerProcess, clean_environment

TYPE = "crash.race"
JOBS = 10_000
CLAIMANTS = 16
BATCH = 5_000
RACE_SECONDS = 60.0
ROOT = Path(__file__).parents[2]


async def store_jobs(server: ServerProcess, ledger: Ledger) -> None:
    for _ in range(JOBS // BATCH):
        uids = [str(uuid.uuid4()) for _ in range(BATCH)]
        jobs = [{"type": TYPE, "request_uid": uid, "payload": {"uid": uid}} for uid in uids]
        stored = await server.ask("POST", "/jobs/batch", {"jobs": jobs})
        for uid, item in zip(uids, stored["items"], strict=True):
            assert item["status"] == 201, item
            ledger.stored(item["job"]["id"], uid)


def start_claimant(server: ServerProcess, token: str, ledger: Path, n: int) -> subprocess.Popen[bytes]:
    limit = (1, 1, 7, 50)[n % 4]
    told = (str(server.port), str(ledger), f"c{n}", str(limit))
    environment = clean_environment() | {"CRASH_TOKEN": token}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.claimant", *told],
        cwd=ROOT,
        env=environment,
        stdin=pipe,
        stdout=pipe,
    )


@pytest.mark.alone
async def test_v06_claim_race_of_16_processes_hands_out_each_of_10000_jobs_exactly_once(
    tmp_path: Path,
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with ServerProcess(tmp_path / "data") as server:
        await server.ask("PUT", f"/types/{TYPE}", {})
        await server.ask("POST", f"/types/{TYPE}/pause")
        token = await server.token("racers", "worker")
        await store_jobs(server, ledger)
        claimants = [start_claimant(server, token, ledger.path, n) for n in range(CLAIMANTS)]
        try:
            for claimant in claimants:
                assert claimant.stdout is not None
                assert await asyncio.to_thread(claimant.stdout.readline) == b"ready\n"
            await server.ask("POST", f"/types/{TYPE}/resume")
            await server.until_all_ended(RACE_SECONDS)
            ends = await asyncio.to_thread(close, claimants)
        finally:
            for claimant in claimants:
                claimant.kill()
                claimant.wait()
        final = await server.final_jobs()
    ledger.close()

    assert ends == [0] * CLAIMANTS
    entries = read_ledger(ledger.path)
    starts = Counter(entry.id for entry in entries if entry.kind == "started")
    assert len(starts) == JOBS
    assert set(starts.values()) == {1}
    assert [job for job in final if job.status != "completed" or job.retry_count] == []
    assert judge(entries, final) == []


def close(claimants: list[subprocess.Popen[bytes]]) -> list[int]:
    """Tell them that all is over; their exit codes."""
    for claimant in claimants:
        assert claimant.stdin is not None
        claimant.stdin.close()
    ends = [claimant.wait(20) for claimant in claimants]
    for claimant in claimants:
        assert claimant.stdout is not None
        claimant.stdout.close()
    return ends
