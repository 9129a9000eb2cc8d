"""What waits for the next transaction: its order, its bounds, and the claims that are parked."""

from __future__ import annotations

from typing import Any

import pytest

from rota.domain.job import Claim
from rota.errors import Unauthenticated, Unavailable
from rota.store.batcher import MAX_WAITING_BYTES, MAX_WAITING_MEMBERS, Batcher, Kind, Member

# Every test runs inside an event loop, to which the futures of members belong.


def member(kind: Kind = Kind.ENQUEUE, **fields: Any) -> Member:
    return Member(kind, None, **fields)


def claim(*, types: frozenset[str] | None = None, queues: frozenset[str] | None = None) -> Member:
    return Member(Kind.CLAIM, Claim("t-1", "w", 1, types=types, queues=queues), parks=True)


async def test_a_batch_is_what_waits_in_order_of_arrival_up_to_a_thousand_rows() -> None:
    batcher = Batcher()
    members = [member(rows=rows) for rows in (400, 600, 1, 3_000, 1_000)]
    batcher.submit(*members)
    assert (
        [batcher.take(0) for _ in range(5)]
        == [
            members[:2],
            members[2:3],
            members[3:4],  # one member may be larger than a transaction otherwise is
            members[4:],
            [],
        ]
    )


async def test_members_put_back_come_before_all_others_in_their_order() -> None:
    batcher = Batcher()
    early, late, newcomer = member(), member(), member()
    batcher.submit(newcomer)
    batcher.submit_again([early, late])
    assert batcher.take(0) == [early, late, newcomer]


async def test_ten_thousand_members_stop_enqueues_and_twenty_thousand_stop_all() -> None:
    batcher = Batcher()
    batcher.submit(*(member() for _ in range(MAX_WAITING_MEMBERS)))
    with pytest.raises(Unavailable) as refused:
        batcher.submit(member())
    assert refused.value.retry_after == 1
    kinds = [Kind.FINISH, Kind.BEAT, Kind.SWEEP, Kind.CLAIM, Kind.ADMIN]
    for n in range(MAX_WAITING_MEMBERS):
        batcher.submit(member(kinds[n % 5]))
    with pytest.raises(Unavailable):
        batcher.submit(member(Kind.FINISH))
    assert (MAX_WAITING_MEMBERS, MAX_WAITING_BYTES) == (10_000, 64 * 1_048_576)


async def test_sixty_four_mib_stop_enqueues_until_they_are_taken() -> None:
    batcher = Batcher()
    batcher.submit(member(size=MAX_WAITING_BYTES - 10))
    with pytest.raises(Unavailable):
        batcher.submit(member(size=11))
    batcher.submit(member(Kind.FINISH, size=11))
    while batcher.take(0):
        pass
    batcher.submit(member(size=MAX_WAITING_BYTES))


async def test_of_members_that_come_together_all_are_taken_or_none() -> None:
    batcher = Batcher()
    batcher.submit(*(member() for _ in range(MAX_WAITING_MEMBERS - 1)))
    with pytest.raises(Unavailable):
        batcher.submit(member(), member())
    batcher.submit(member())


async def test_a_parked_claim_is_woken_by_a_lane_that_it_serves_and_by_no_other() -> None:
    batcher = Batcher()
    everything, of_type, of_queue, of_both = (
        claim(),
        claim(types=frozenset({"a"})),
        claim(queues=frozenset({"q"})),
        claim(types=frozenset({"a"}), queues=frozenset({"q"})),
    )
    for each in (everything, of_type, of_queue, of_both):
        batcher.park(each)
    assert batcher.wake(set()) == []
    assert batcher.wake({("default", "b")}) == [everything]
    assert batcher.wake({("q", "b"), ("default", "c")}) == [of_queue]
    assert batcher.wake({("default", "a")}) == [of_type]
    assert batcher.knows_dry(of_both.lanes)
    assert batcher.wake(None) == [of_both]
    assert not batcher.knows_dry(of_both.lanes)


async def test_a_claim_that_has_ended_is_not_woken_and_not_kept() -> None:
    batcher = Batcher()
    gone, there = claim(), claim()
    batcher.park(gone)
    batcher.park(there)
    gone.future.cancel()
    assert batcher.wake(None) == [there]
    assert batcher.wake(None) == []


async def test_parked_claims_whose_token_is_no_longer_good_are_ended_and_the_others_stay() -> None:
    batcher = Batcher()
    good, bad = claim(), claim()
    good.judge = lambda: None
    bad.judge = lambda: Unauthenticated("revoked")
    batcher.park(good)
    batcher.park(bad)
    batcher.judge_parked()
    with pytest.raises(Unauthenticated):
        await bad.future
    assert batcher.wake(None) == [good]


async def test_a_closed_batcher_takes_nothing_more_and_hands_out_what_waits() -> None:
    batcher = Batcher()
    waiting, parked = member(), claim()
    batcher.submit(waiting)
    batcher.park(parked)
    batcher.close()
    assert await parked.future == []
    with pytest.raises(Unavailable):
        batcher.submit(member(Kind.FINISH))
    before, batch, after = batcher.drained, batcher.take(0), batcher.drained
    assert (before, batch, after) == (False, [waiting], True)
    late = claim()
    batcher.park(late)
    assert await late.future == []
