"""Rota's time never goes back, follows the wall clock, and stands still in tests."""

from __future__ import annotations

import threading
import time

import pytest

from rota.clock import REANCHOR_AFTER_SECONDS, Drift, FakeClock, SystemClock


class Machine:
    """The two clocks of a machine, set by hand."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000.0
        self.monotonic = 500.0

    def run(self, seconds: float, wall_shift: float = 0.0) -> None:
        """Let time pass and set the wall clock by ``wall_shift`` seconds."""
        self.monotonic += seconds
        self.wall += seconds + wall_shift


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr("rota.clock.time.time", lambda: machine.wall)
    monkeypatch.setattr("rota.clock.time.monotonic", lambda: machine.monotonic)
    return machine


def test_system_clock_tells_milliseconds_of_the_wall_clock(machine: Machine) -> None:
    clock = SystemClock()
    assert clock.now() == 1_700_000_000_000
    machine.run(1.25)
    assert clock.now() == 1_700_000_001_250


def test_real_clock_agrees_with_the_wall_clock() -> None:
    clock = SystemClock()
    before = int(time.time() * 1000)
    assert before - 1 <= clock.now() <= int(time.time() * 1000) + 1


def test_wall_clock_set_back_makes_time_run_at_half_speed_until_it_has_caught_up(machine: Machine) -> None:
    clock = SystemClock()
    machine.run(REANCHOR_AFTER_SECONDS + 1, wall_shift=-3_600)
    before = clock.now()
    assert before == 1_700_000_011_000
    machine.run(1_800)
    assert clock.now() == before + 900_000
    machine.run(5_400)
    assert clock.now() == before + 3_600_000 == round(machine.wall * 1000)
    machine.run(8)
    assert clock.now() == round(machine.wall * 1000)


def test_a_wall_clock_a_moment_behind_costs_no_more_than_that_moment(machine: Machine) -> None:
    clock = SystemClock()
    machine.run(REANCHOR_AFTER_SECONDS + 1, wall_shift=-0.001)
    clock.now()
    machine.run(1)
    assert clock.now() == round(machine.wall * 1000)
    machine.run(8)
    assert clock.now() == round(machine.wall * 1000)


def test_between_anchors_a_jump_of_the_wall_clock_is_not_seen(machine: Machine) -> None:
    clock = SystemClock()
    machine.run(2, wall_shift=3_600)
    assert clock.now() == 1_700_000_002_000


def test_jump_forward_is_followed_at_the_next_anchor(machine: Machine) -> None:
    clock = SystemClock()
    machine.run(REANCHOR_AFTER_SECONDS + 1, wall_shift=3_600)
    assert clock.now() == round(machine.wall * 1000)


def test_drift_is_corrected_at_each_anchor(machine: Machine) -> None:
    clock = SystemClock()
    for _ in range(20):
        machine.run(REANCHOR_AFTER_SECONDS + 1, wall_shift=0.5)
        assert clock.now() == round(machine.wall * 1000)


def test_time_never_goes_back_between_threads() -> None:
    clock = SystemClock()
    faults: list[tuple[int, int]] = []

    def watch() -> None:
        last = 0
        for _ in range(2_000):
            now = clock.now()
            if now < last:
                faults.append((last, now))
            last = now

    threads = [threading.Thread(target=watch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_fake_clock_stands_still_until_moved() -> None:
    clock = FakeClock(1_000)
    assert [clock.now(), clock.now()] == [1_000, 1_000]
    assert clock.advance(1.5) == 2_500
    assert clock.now() == 2_500


def test_fake_clock_starts_at_a_whole_second() -> None:
    assert FakeClock().now() % 1000 == 0


@pytest.mark.parametrize("shift", [0.0, 2.5, -60.0])
def test_drift_is_how_far_the_wall_clock_was_set_meanwhile(machine: Machine, shift: float) -> None:
    drift = Drift()
    machine.run(10, wall_shift=shift)
    assert drift.seconds == 10
    assert drift.ms == shift * 1000
