"""What every scenario gets, and how it alternates what it compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Scale(NamedTuple):
    """How much to measure."""

    seconds: float
    """Of one timed run."""
    repeats: int
    """Of each thing that is compared."""
    quick: bool

    def jobs(self, full: int) -> int:
        """A number of jobs: ``full``, or a tenth of it in a quick run."""
        return full // 10 if self.quick else full


FULL = Scale(seconds=4, repeats=5, quick=False)
QUICK = Scale(seconds=1, repeats=1, quick=True)


class Place(NamedTuple):
    """An empty folder for a scenario's databases."""

    folder: Path

    def sub(self, name: str) -> Path:
        """A folder that does not exist yet."""
        return self.folder / name


def alternating(runs: Sequence[Callable[[], T]], repeats: int) -> list[list[T]]:
    """Call each of ``runs`` ``repeats`` times, A B B A A B …; the results of each in order."""
    results: list[list[T]] = [[] for _ in runs]
    order = list(range(len(runs)))
    for _ in range(repeats):
        for i in order:
            results[i].append(runs[i]())
        order.reverse()
    return results
