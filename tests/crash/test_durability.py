"""A 201 means that the job is on the disk: the operating system is watched, not the settings alone."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
from collections.abc import Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.clock import SystemClock
from rota.store.sqlite.store import SqliteStore
from tests.crash.ledger import Ledger
from tests.crash.producer import Producer
from tests.crash.server_process import ServerProcess

TYPE = "crash.durable"
POSTS = 20
CALLS = "fsync,fdatasync,read,recvfrom,recvmsg,write,writev,sendto,sendmsg"
ATTACH_SECONDS = 20.0

ASKED = re.compile(r'"POST /jobs ')
SYNCED = re.compile(r"(?:fsync|fdatasync)(?:\(\d+| resumed>)\)\s+= 0")
ANSWERED = re.compile(r'(?:write|writev|sendto|sendmsg)\(.*"HTTP/1\.1 201')


async def test_the_live_writing_connection_is_synchronous_full(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "rota.db", SystemClock())
    try:

        def read(within: Any) -> tuple[int, str]:
            (synchronous,) = within.connection.execute("PRAGMA synchronous").fetchone()
            (mode,) = within.connection.execute("PRAGMA journal_mode").fetchone()
            return synchronous, mode

        # In the writer's own thread, on the connection that commits every job.
        assert await store._change(read) == (2, "wal")
    finally:
        await store.close()


async def test_each_post_is_synced_to_the_disk_before_its_201(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ledger = Ledger(tmp_path / "ledger")
    async with ServerProcess(tmp_path / "data") as server:
        await server.ask("PUT", f"/types/{TYPE}", {})
        connection = server.connect()
        producer = Producer(connection, ledger, TYPE)
        async with traced(server.pid, trace):
            for n in range(POSTS):
                await producer.store(f"00000000-0000-4000-8000-{n:012}")
        connection.close()
    ledger.close()

    assert syncs_before_answers(trace.read_text().splitlines()) == [True] * POSTS


@asynccontextmanager
async def traced(pid: int, trace: Path) -> Any:
    """Write the process's syncs and its traffic to ``trace`` while the block runs."""
    strace = await asyncio.create_subprocess_exec(
        *("strace", "-f", "-ttt", "-s", "64", "-e", f"trace={CALLS}", "-o", trace, "-p", str(pid)),
        stderr=subprocess.PIPE,
    )
    assert strace.stderr is not None
    try:
        async with asyncio.timeout(ATTACH_SECONDS):
            while b"attached" not in (line := await strace.stderr.readline()):
                assert line, "strace could not attach"
        yield
    finally:
        if strace.returncode is None:
            strace.send_signal(signal.SIGINT)
        await strace.communicate()


def syncs_before_answers(lines: Iterable[str]) -> list[bool]:
    """For each 201: whether a sync ended between the arrival of its POST and the answer."""
    verdicts: list[bool] = []
    synced = False
    for line in lines:
        if ASKED.search(line):
            synced = False
        elif SYNCED.search(line):
            synced = True
        elif ANSWERED.search(line):
            verdicts.append(synced)
            synced = False
    return verdicts


@pytest.mark.parametrize(
    ("between", "verdict"),
    [
        (["7 1.2 fdatasync(12) = 0"], True),
        (["7 1.2 fdatasync(12 <unfinished ...>", "7 1.3 <... fdatasync resumed>) = 0"], True),
        (["7 1.2 fdatasync(12 <unfinished ...>"], False),
        (["7 1.2 fsync(12) = -1 EIO (Input/output error)"], False),
        ([], False),
    ],
    ids=["at-once", "ended-in-time", "still-running", "failed", "none"],
)
def test_the_trace_is_read_strictly(between: list[str], verdict: bool) -> None:
    asked = '6 1.1 recvfrom(9, "POST /jobs HTTP/1.1\\r\\nHost: 127.0.0"..., 65536, 0, NULL, NULL) = 300'
    answered = '6 1.4 sendto(9, "HTTP/1.1 201 Created\\r\\n"..., 900, 0, NULL, 0) = 900'
    early = "7 1.0 fdatasync(12) = 0"

    assert syncs_before_answers([early, asked, *between, answered]) == [verdict]
