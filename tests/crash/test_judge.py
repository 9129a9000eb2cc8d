"""The judge condemns what it must, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.judge import FinalJob, judge
from tests.crash.ledger import Entry, Ledger, read_ledger

STORED = Entry("stored", 1, uid="a")
STARTED = Entry("started", 1)
COMPLETED = Entry("finished", 1, outcome="complete")
FAILED = Entry("finished", 1, outcome="fail")
RELEASED = Entry("finished", 1, outcome="release")
DONE = FinalJob(1, "a", "completed")


@pytest.mark.parametrize(
    ("entries", "job"),
    [
        ([STORED, STARTED, COMPLETED], DONE),
        ([STORED, STARTED, FAILED, STARTED, COMPLETED], FinalJob(1, "a", "completed", 1)),
        ([STORED, STARTED, RELEASED, STARTED, COMPLETED], DONE),
        ([STORED, STARTED, STARTED, COMPLETED], FinalJob(1, "a", "completed", 1, lost=1)),
        ([STORED, STARTED, Entry("unsure", 1, outcome="release"), STARTED, COMPLETED], DONE),
        ([STORED, STARTED, FAILED, STARTED, FAILED], FinalJob(1, "a", "failed", 1)),
        ([STORED, STORED, STARTED, COMPLETED], DONE),
    ],
    ids=["plain", "failed-once", "released", "lost-once", "maybe-released", "dead-letter", "stored-again"],
)
def test_kept_promises_are_not_condemned(entries: list[Entry], job: FinalJob) -> None:
    assert judge(entries, [job]) == []


@pytest.mark.parametrize(
    ("entries", "jobs", "verdict"),
    [
        ([STORED], [], "is not there"),
        ([STORED], [FinalJob(1, "a", "pending")], "has not ended"),
        ([STORED], [FinalJob(1, "a", "running")], "has not ended"),
        ([STORED, STARTED, COMPLETED, COMPLETED], [DONE], "completed 2 times"),
        ([STORED, STARTED, COMPLETED, STARTED], [FinalJob(1, "a", "completed", 1, 1)], "after its complete"),
        ([STORED, STARTED, COMPLETED], [FinalJob(1, "a", "failed")], "is failed although"),
        ([STORED, STARTED], [DONE], "nobody's complete"),
        ([STORED, STARTED, STARTED, COMPLETED], [DONE], "started 2 times"),
        ([STORED, STARTED, RELEASED, STARTED, STARTED, COMPLETED], [DONE], "started 3 times"),
        ([STORED, STARTED, COMPLETED], [FinalJob(1, "a", "completed", 1)], "counts 1 retries"),
        ([STORED, STARTED, COMPLETED], [DONE, FinalJob(2, "a", "cancelled")], "more than one job"),
        ([STORED, Entry("stored", 2, uid="a")], [FinalJob(1, "a", "failed")], "more than one job"),
    ],
    ids=[
        *("vanished", "left-pending", "left-running", "two-completes", "run-after-complete", "undone"),
        *("completed-by-nobody", "double-run", "more-runs-than-releases", "phantom-retry"),
        *("doubled-in-the-store", "doubled-in-answers"),
    ],
)
def test_a_broken_promise_is_condemned(entries: list[Entry], jobs: list[FinalJob], verdict: str) -> None:
    assert any(verdict in sentence for sentence in judge(entries, jobs))


def test_the_ledger_gives_back_what_was_written_in_order(tmp_path: Path) -> None:
    first, second = Ledger(tmp_path / "ledger"), Ledger(tmp_path / "ledger")
    first.stored(1, "a")
    second.started(1, 0)
    first.unsure(1, "release")
    second.finished(1, "complete")
    first.close()
    second.close()

    assert read_ledger(tmp_path / "ledger") == [
        STORED,
        STARTED,
        Entry("unsure", 1, outcome="release"),
        COMPLETED,
    ]
