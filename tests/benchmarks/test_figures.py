"""How figures are judged and shown."""

import pytest

from benchmarks.figures import TARGETS, Run, Target, figure, markdown, plain_table
from benchmarks.machine import Machine


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        (Target("≥", 0.8), 0.8, "ok"),
        (Target("≥", 0.8), 0.79, "below"),
        (Target("≤", 1.2, accepted=1.5), 1.2, "ok"),
        (Target("≤", 1.2, accepted=1.5), 1.5, "accepted"),
        (Target("≤", 1.2, accepted=1.5), 1.51, "below"),
        (Target("<", 1), 1, "below"),
    ],
)
def test_a_value_is_judged_by_its_target(target: Target, value: float, verdict: str) -> None:
    assert target.verdict(value) == verdict


def test_a_figure_is_judged_on_its_exact_value() -> None:
    assert TARGETS["enqueue.64.ratio"].bound == 0.8
    assert figure("enqueue.64.ratio", "ratio", 0.79999).verdict == "below"


def test_both_tables_show_value_aim_and_verdict() -> None:
    found = [figure("drain.rate", "Drain", 15_500.4, "jobs/s"), figure("other", "Other", 0.05, "ms")]
    machine = Machine(
        cpu="A processor",
        cores=2,
        system="Linux",
        load_before=0.1,
        fsync_ms=0.2,
        fsync_p99_ms=0.3,
        commit="abc1234",
        versions={"python": "3.11"},
    )
    run = Run(began="2026-12-01 08:30 UTC", quick=False, machine=machine, figures=found)
    assert "| Drain | 15,500 jobs/s | ≥ 15,000 | ok |" in markdown(run)
    assert "| Other | 0.050 ms |  |  |" in markdown(run)
    assert plain_table(found).splitlines()[0].split() == ["Drain", "15,500", "jobs/s", "≥", "15,000", "ok"]
