"""The demo's handlers, run by ``rota worker rota.demo.tasks``. Read them as an example.

A handler is a function; its arguments are the job's payload, its return value is the job's result, and
an exception is a failed attempt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rota.client.current import current_job
from rota.client.tasks import task
from rota.demo.files import Measure, measure

STUMBLE: Final = "stumbled on purpose"


class Stumbled(Exception):
    """Raised by the first attempt of every job that is meant to fail once."""


@task(name="file.measure")
def measure_file(path: str) -> Measure:
    """Checksum and words of one file."""
    return measure(Path(path))


@task(name="file.stumble")
def stumble_then_measure(path: str) -> Measure:
    """The same, but the first attempt fails: the second one has to bring the result."""
    if current_job().retry_count == 0:
        raise Stumbled(STUMBLE)
    return measure(Path(path))


@task(name="file.missing")
def measure_missing(path: str) -> Measure:
    """The same for files that do not exist: it fails until its retries are used up."""
    return measure(Path(path))
