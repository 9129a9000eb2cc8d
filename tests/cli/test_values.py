from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.cli.failures import Misuse
from rota.cli.values import duration, instant, spoken


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86400), ("250ms", 0.25), (" 5 m ", 300)],
)
def test_durations_are_read_in_any_unit(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "-5", "5x", "m", "nan", "inf", "1e3", "5m 3s", "9" * 400])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="not a duration"):
        duration(text)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.25, "0.25 s"), (90, "90 s"), (300, "5 min"), (3600, "1 h"), (172_800, "2 d")]
)
def test_durations_are_said_in_their_largest_whole_unit(seconds: float, said: str) -> None:
    assert spoken(seconds) == said


def test_instants_are_read_with_their_zone() -> None:
    assert instant("2026-12-01T09:30:00+01:00") == datetime(2026, 12, 1, 8, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2026-12-01", "2026-12-01T08:30:00", "2026-13-01T08:30:00Z"]
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="not an instant"):
        instant(text)
