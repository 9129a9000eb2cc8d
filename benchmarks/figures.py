"""Figures, what they should be, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from benchmarks.machine import Machine


class Target(msgspec.Struct, frozen=True):
    """A bound, and the weaker one that is accepted when a machine is noisy."""

    sense: Literal["≥", "≤", "<"]
    bound: float
    accepted: float | None = None

    def verdict(self, value: float) -> str:
        if self._keeps(value, self.bound):
            return "ok"
        return "accepted" if self.accepted is not None and self._keeps(value, self.accepted) else "below"

    def _keeps(self, value: float, bound: float) -> bool:
        if self.sense == "≥":
            return value >= bound
        return value <= bound if self.sense == "≤" else value < bound


TARGETS: Final[dict[str, Target]] = {
    "enqueue.1.rate": Target("≥", 1_300),
    "enqueue.64.rate": Target("≥", 7_000),
    "enqueue.64.ratio": Target("≥", 0.8),
    "bulk.rate": Target("≥", 40_000),
    "drain.rate": Target("≥", 15_000),
    "local.drain": Target("≥", 30_000),
    "latency.p50": Target("≤", 2.5),
    "latency.p99": Target("≤", 6),
    "finished.5000000.ratio": Target("≤", 1.2, accepted=1.5),
    "finished.5000000.steps": Target("≤", 1),
    "finished.scans": Target("≤", 0),
    "lanes.1000.ratio": Target("≥", 0.333),
    "idle.cpu": Target("<", 1),
    "idle.memory": Target("<", 80),
    "start.ready": Target("<", 1),
}
"""The SQLite column of the project's aims, by the names of figures."""


class Figure(msgspec.Struct, kw_only=True):
    """One number of a run."""

    name: str
    what: str
    value: float
    unit: str = ""
    samples: list[float] = []
    """What the value is the median of."""
    target: Target | None = None
    verdict: str = ""


class Run(msgspec.Struct, kw_only=True):
    """Everything that one ``python -m benchmarks`` found."""

    began: str
    quick: bool
    machine: Machine
    figures: list[Figure]


def figure(name: str, what: str, value: float, unit: str = "", samples: Iterable[float] = ()) -> Figure:
    """A figure, judged where there is a target of its name."""
    target = TARGETS.get(name)
    return Figure(
        name=name,
        what=what,
        value=round(value, 4),
        unit=unit,
        samples=[round(each, 4) for each in samples],
        target=target,
        verdict="" if target is None else target.verdict(value),
    )


def plain_table(figures: Iterable[Figure]) -> str:
    """The figures for a terminal."""
    rows = [_cells(each) for each in figures]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
    return "\n".join(
        f"{what:<{widths[0]}}  {value:>{widths[1]}}  {aim:>{widths[2]}}  {verdict}".rstrip()
        for what, value, aim, verdict in rows
    )


def markdown(run: Run) -> str:
    """A run as a table for the documentation, with what it was taken on."""
    machine = run.machine
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    taken = (
        f"Taken {run.began}, commit {machine.commit}{', with --quick' if run.quick else ''}: "
        f"{machine.cores} cores of {machine.cpu}, load before {machine.load_before:.1f}, "
        f"fdatasync of 4 KiB {machine.fsync_ms:.2f} ms (p99 {machine.fsync_p99_ms:.2f} ms); {versions}."
    )
    lines = [taken, "", "| what | value | aim | |", "|---|---:|---:|---|"]
    lines += [f"| {' | '.join(_cells(each))} |" for each in run.figures]
    return "\n".join(lines)


def _cells(each: Figure) -> tuple[str, str, str, str]:
    aim = "" if each.target is None else f"{each.target.sense} {_number(each.target.bound)}"
    if each.target is not None and each.target.accepted is not None:
        aim += f" (accepted {_number(each.target.accepted)})"
    return each.what, f"{_number(each.value)} {each.unit}".rstrip(), aim, each.verdict


def _number(value: float) -> str:
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"
