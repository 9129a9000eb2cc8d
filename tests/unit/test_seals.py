"""The chain of seals: whatever is done to a sealed row is noticed by who holds the key."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rota.auth.seals import AuditSealer
from rota.domain.audit import AuditRecord, Seal

KEY = b"0123456789abcdefghijklmnopqrstuv" * 2
OTHER = b"vutsrqponmlkjihgfedcba9876543210" * 2
SEALER = AuditSealer(KEY)


def row(id: int, **fields: Any) -> AuditRecord:
    given: dict[str, Any] = {
        "id": id,
        "at": 1_000 * id,
        "actor_kind": "token",
        "actor_id": "t-1",
        "actor_name": "ann",
        "address": None,
        "request_id": None,
        "action": "job.cancel",
        "object_kind": "job",
        "object_id": str(id),
        "fields": ["status"],
        "values": {"status": "cancelled"},
        "outcome": "done",
        "times": 1,
    }
    return AuditRecord(**given | fields)


ROWS = [row(id) for id in range(1, 8)]


def sealed(*cuts: int, sealer: AuditSealer = SEALER) -> list[Seal]:
    seals: list[Seal] = []
    before = None
    start = 0
    for cut in cuts:
        key_id, proof = sealer(before, ROWS[start:cut])
        seals.append(Seal(cut, cut - start, 0, key_id, proof))
        before, start = proof, cut
    return seals


def test_an_untouched_chain_is_proved_up_to_its_last_seal() -> None:
    report = SEALER.check(sealed(3, 5), ROWS)
    assert (report.sealed, report.unsealed, report.oldest_unsealed_at) == (5, 2, 6_000)
    assert report.broken_after is None
    assert report.unknown_key_ids == frozenset()


@pytest.mark.parametrize(
    ("rows", "broken_after"),
    [
        pytest.param([replace(ROWS[0], actor_id="t-2"), *ROWS[1:]], 0, id="changed"),
        pytest.param([*ROWS[:3], replace(ROWS[3], values={}), *ROWS[4:]], 3, id="changed in the second seal"),
        pytest.param([*ROWS[:1], *ROWS[2:]], 0, id="removed"),
        pytest.param([*ROWS[:4], *ROWS[5:]], 3, id="removed at the end of a seal"),
        pytest.param([ROWS[1], ROWS[0], *ROWS[2:]], 0, id="exchanged"),
        pytest.param([], 0, id="all removed"),
    ],
)
def test_what_is_done_to_a_sealed_row_breaks_the_chain(rows: list[AuditRecord], broken_after: int) -> None:
    assert SEALER.check(sealed(3, 5), rows).broken_after == broken_after


def test_a_seal_that_is_taken_out_breaks_the_chain() -> None:
    first, second, third = sealed(2, 4, 6)
    assert SEALER.check([first, third], ROWS).broken_after == 2
    assert SEALER.check([second, third], ROWS).broken_after == 0
    assert SEALER.check([first, second, third], ROWS).broken_after is None


def test_rows_cannot_be_sealed_anew_without_the_key() -> None:
    forged = [replace(ROWS[0], actor_id="t-2"), *ROWS[1:3]]
    _, proof = AuditSealer(OTHER)(None, forged)
    seal = Seal(3, 3, 0, SEALER.key_id, proof)
    assert SEALER.check([seal], forged).broken_after == 0


def test_what_the_previous_key_has_sealed_is_still_proved() -> None:
    seals = sealed(3, sealer=AuditSealer(OTHER))
    key_id, proof = SEALER(seals[0].seal, ROWS[3:5])
    seals.append(Seal(5, 2, 0, key_id, proof))
    assert AuditSealer(KEY, OTHER).check(seals, ROWS).sealed == 5
    report = SEALER.check(seals, ROWS)
    assert (report.sealed, report.broken_after) == (2, None)
    assert report.unknown_key_ids == {AuditSealer(OTHER).key_id}
