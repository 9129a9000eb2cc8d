"""The wait before the next attempt."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.retry import MAX_CAP_SECONDS, Backoff, delay_ms, validate
from rota.errors import ValidationFailed


def test_default_delay_doubles_from_two_seconds_up_to_an_hour() -> None:
    delays = [delay_ms(Backoff(), n, 0.0) for n in range(13)]
    assert delays[:4] == [2_000, 4_000, 8_000, 16_000]
    assert delays[10:] == [2_048_000, 3_600_000, 3_600_000]


def test_jitter_only_lengthens_the_delay() -> None:
    assert delay_ms(Backoff(jitter=0.5), 0, 0.0) == 2_000
    assert delay_ms(Backoff(jitter=0.5), 0, 0.5) == 2_500


def test_fixed_delay_stays_the_same_and_has_jitter() -> None:
    backoff = Backoff("fixed", base_seconds=7, jitter=0.2)
    assert [delay_ms(backoff, n, 0.0) for n in (0, 1, 500)] == [7_000, 7_000, 7_000]
    assert delay_ms(backoff, 3, 0.5) == 7_700


def test_none_means_at_once() -> None:
    assert delay_ms(Backoff("none"), 5, 0.99) == 0


def test_delay_of_attempt_1900_is_positive_and_within_the_cap() -> None:
    for factor in (2.0, 100.0):
        delay = delay_ms(Backoff(factor=factor), 1_900, 0.999)
        assert 0 < delay <= 3_600_000 * 1.1


BACKOFFS = st.floats(0, MAX_CAP_SECONDS).flatmap(
    lambda cap: st.builds(
        Backoff,
        strategy=st.sampled_from(["none", "fixed", "exponential"]),
        base_seconds=st.floats(0, cap),
        factor=st.floats(1, 100),
        cap_seconds=st.just(cap),
        jitter=st.floats(0, 1),
    )
)


@given(BACKOFFS, st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_delay_of_every_valid_backoff_is_bounded(backoff: Backoff, n: int, random: float) -> None:
    validate(backoff)
    delay = delay_ms(backoff, n, random)
    assert 0 <= delay <= math.ceil(backoff.cap_seconds * 1000 * (1 + backoff.jitter))
    assert delay_ms(backoff, n + 1, random) >= delay


@pytest.mark.parametrize(
    ("backoff", "field"),
    [
        (Backoff(base_seconds=-1), "base_seconds"),
        (Backoff(base_seconds=3601), "base_seconds"),
        (Backoff(base_seconds=math.nan), "base_seconds"),
        (Backoff(cap_seconds=MAX_CAP_SECONDS + 1), "cap_seconds"),
        (Backoff(cap_seconds=math.inf), "cap_seconds"),
        (Backoff(cap_seconds=-1), "cap_seconds"),
        (Backoff(factor=0.99), "factor"),
        (Backoff(factor=100.1), "factor"),
        (Backoff(factor=math.nan), "factor"),
        (Backoff(jitter=-0.1), "jitter"),
        (Backoff(jitter=1.1), "jitter"),
    ],
)
def test_value_out_of_range_is_refused_by_name(backoff: Backoff, field: str) -> None:
    with pytest.raises(ValidationFailed) as failure:
        validate(backoff)
    assert [error.field for error in failure.value.errors] == [f"backoff.{field}"]


@pytest.mark.parametrize("text", ['{"strategy":"linear"}', '{"bass_seconds":1}', '{"jitter":"0.1"}'])
def test_unknown_strategy_field_or_type_does_not_decode(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Backoff)
