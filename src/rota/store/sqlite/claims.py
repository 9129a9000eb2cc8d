"""The claim on SQLite: which ready jobs go to which waiting workers."""

from __future__ import annotations

import heapq
import secrets
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import json

from rota.domain.job import (
    MAX_BATCH_PAYLOAD_BYTES,
    MAX_HELD_PER_TOKEN,
    MAX_PAYLOAD_BYTES,
    Claim,
    Job,
    granted_lease,
)
from rota.errors import RateLimited, RotaError, Unauthenticated
from rota.store.batcher import Lane
from rota.store.sqlite.jobs import load_jobs
from rota.store.sqlite.transaction import Transaction

RESERVED_PREFIX: Final = "rota."

Candidate = tuple[int, int]
"""(-priority, id): sorts in the order of the queue."""


def serve(within: Transaction, claims: Sequence[Claim]) -> list[list[Job] | RotaError]:
    """Hand ready jobs to claims with equal lane sets, first come first served; empty: nothing was found."""
    room: dict[str, int] = {}
    for owner in {claim.owner for claim in claims}:
        held, revoked = within.execute("count_held", owner).fetchone()
        room[owner] = -1 if revoked else MAX_HELD_PER_TOKEN - held
    answers = [_at_once(within, claim, room[claim.owner]) for claim in claims]
    wanted = sum(
        min(claim.limit, room[claim.owner])
        for claim, answer in zip(claims, answers, strict=True)
        if answer is None
    )
    ready = _ready(within, claims[0], wanted) if wanted else []
    picks: list[tuple[object, ...]] = []
    shares: list[list[int]] = []
    at = 0
    for i, claim in enumerate(claims):
        share: list[tuple[int, str]] = []
        if answers[i] is None and room[claim.owner] == 0:
            answers[i] = _full()
        elif answers[i] is None:
            share = _fitting(within, ready[at : at + min(claim.limit, room[claim.owner])])
            at += len(share)
            room[claim.owner] -= len(share)
        shares.append([id for id, _ in share])
        picks += [_pick(within, claim, id, type) for id, type in share]
    claimed = {row[0]: Job(*row) for cursor in within.execute_rows("claim_jobs", picks) for row in cursor}
    within.count_lanes("claimed", [(job.queue, job.type) for job in claimed.values()])
    return [
        [claimed[id] for id in share] if answer is None else answer
        for answer, share in zip(answers, shares, strict=True)
    ]


def _at_once(within: Transaction, claim: Claim, room: int) -> list[Job] | RotaError | None:
    """The answer to a claim that needs no look at the queue; ``room`` is negative for a revoked token."""
    if room < 0:
        return Unauthenticated("the token was revoked")
    return _repeated(within, claim) or (_full() if room == 0 else None)


def _full() -> RateLimited:
    return RateLimited(
        f"this token holds {MAX_HELD_PER_TOKEN} jobs already: finish some before claiming more", retry_after=1
    )


def _repeated(within: Transaction, claim: Claim) -> list[Job] | None:
    """What the caller already holds under the claim_id it repeats; None when there is nothing."""
    if not claim.repeat or claim.claim_id is None:
        return None
    ids = [id for (id,) in within.execute("held_under_claim", claim.owner, claim.claim_id)]
    held = load_jobs(within, ids)
    return sorted(held.values(), key=lambda job: (-job.priority, job.id)) or None


def _pick(within: Transaction, claim: Claim, id: int, type: str) -> tuple[object, ...]:
    known = within.types.get(type)
    lease = granted_lease(claim.lease_seconds, None if known is None else known.lease_seconds)
    return (
        *(id, within.now, claim.owner, claim.worker_id, secrets.token_bytes(16), lease),
        *(within.now + int(lease * 1000), claim.claim_id),
    )


def _fitting(within: Transaction, share: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """As many of these jobs as one answer may carry: it stops after the job that passes 8 MiB of payload."""
    if len(share) * MAX_PAYLOAD_BYTES <= MAX_BATCH_PAYLOAD_BYTES:
        return share
    sizes = dict(within.execute("payload_sizes", json.encode([id for id, _ in share]).decode()).fetchall())
    total = 0
    for n, (id, _) in enumerate(share, start=1):
        total += sizes[id] or 0
        if total > MAX_BATCH_PAYLOAD_BYTES:
            return share[:n]
    return share


def _ready(within: Transaction, claim: Claim, limit: int) -> list[tuple[int, str]]:
    """The first ``limit`` ready jobs of the claim's lanes in the order of the queue, with their types."""
    heads = _heads(within, claim)
    if not heads:
        return []
    if len(heads) == 1:
        ((lane, _),) = heads
        return [(id, lane[1]) for _, id in within.execute("lane_top", *lane, limit)]
    # A lane whose head is not among the first `limit` heads cannot contribute.
    open_lanes = [lane for lane, _ in heapq.nsmallest(limit, heads, key=lambda each: each[1])]
    tops: dict[Lane, list[Candidate]] = {lane: [head] for lane, head in heads}
    known = {lane: tops[lane] for lane in open_lanes}
    depth = 1
    while True:
        first = heapq.nsmallest(limit, ((each, lane) for lane, top in known.items() for each in top))
        full = len(first) == limit
        # A lane read to `depth` rows may hold more of them; they matter while they can stand before the last.
        open_lanes = [
            lane
            for lane in open_lanes
            if len(known[lane]) == depth and (not full or known[lane][-1] < first[-1][0])
        ]
        if not open_lanes:
            return [(id, lane[1]) for (_, id), lane in first]
        depth = min(depth * 4, limit)
        known.update(_tops(within, open_lanes, depth))


def _heads(within: Transaction, claim: Claim) -> list[tuple[Lane, Candidate]]:
    closed = {name for name, each in within.types.items() if each.paused or each.deleted}
    paused = within.paused_queues
    return [
        ((queue, type), (-priority, id))
        for queue, type, priority, id in within.execute("lane_heads")
        if (claim.types is None or type in claim.types)
        and (claim.queues is None or queue in claim.queues)
        and type not in closed
        and queue not in paused
        and not type.startswith(RESERVED_PREFIX)
    ]


def _tops(within: Transaction, lanes: Iterable[Lane], depth: int) -> dict[Lane, list[Candidate]]:
    ordered = list(lanes)
    tops: dict[Lane, list[Candidate]] = {lane: [] for lane in ordered}
    for index, priority, id in within.execute("lane_tops", json.encode(ordered).decode(), depth):
        tops[ordered[index]].append((-priority, id))
    for found in tops.values():
        found.sort()
    return tops
