"""What the figures were taken on: processor, versions, commit, and the time of an fsync."""

from __future__ import annotations

import contextlib
import os
import platform
import sqlite3
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

import msgspec

from rota import __version__

PACKAGES = ("uvicorn", "httptools", "uvloop", "msgspec", "httpx2")
SYNCS = 200


class Machine(msgspec.Struct, kw_only=True):
    """A machine and what runs on it."""

    cpu: str
    cores: int
    system: str
    load_before: float
    """The load average of the last minute before the run: above 0.5 others were at work."""
    fsync_ms: float
    """Median of a 4 KiB write with fdatasync, in the folder of the measured databases."""
    fsync_p99_ms: float
    commit: str
    """With ``+`` when the working tree differs from it."""
    versions: dict[str, str]


def describe_machine(folder: Path) -> Machine:
    """Look at this machine; ``folder`` is where the databases will lie."""
    syncs = sorted(_sync_times(folder))
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        system=platform.platform(),
        load_before=os.getloadavg()[0],
        fsync_ms=round(median(syncs), 3),
        fsync_p99_ms=round(syncs[len(syncs) * 99 // 100], 3),
        commit=_commit(),
        versions={
            "rota": __version__,
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            **{name: version(name) for name in PACKAGES},
        },
    )


def _sync_times(folder: Path) -> list[float]:
    file = folder / "fsync"
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY, 0o600)
    page = os.urandom(4096)
    times = []
    try:
        for _ in range(SYNCS):
            began = time.perf_counter()
            os.write(descriptor, page)
            os.fdatasync(descriptor)
            times.append((time.perf_counter() - began) * 1000)
    finally:
        os.close(descriptor)
        file.unlink()
    return times


def _cpu() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _commit() -> str:
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        commit = _git("rev-parse", "--short", "HEAD")
        return f"{commit}+" if _git("status", "--porcelain") else commit
    return "unknown"


def _git(*words: str) -> str:
    here = Path(__file__).parent
    done = subprocess.run(("git", *words), cwd=here, capture_output=True, text=True, check=True)
    return done.stdout.strip()
