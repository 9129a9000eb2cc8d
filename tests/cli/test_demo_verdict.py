"""The demo's check finds whatever could go wrong: it is tried with each fault in turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from rota.demo.files import Measure
from rota.demo.tasks import STUMBLE
from rota.demo.verdict import Outcome, Plan, Verdict, verify
from rota.domain.job import WORKER_LOST

PLAN = Plan(frozenset({"a", "b", "c"}), frozenset({"b"}), frozenset({"gone"}), missing_retries=1)
COUNTED = {path: Measure(10, words, path * 64) for path, words in (("a", 1), ("b", 2), ("c", 3))}
GOOD = (
    Outcome(1, "a", "completed", COUNTED["a"]),
    Outcome(2, "b", "completed", COUNTED["b"], (f"Stumbled: {STUMBLE}",)),
    Outcome(3, "c", "completed", COUNTED["c"], (WORKER_LOST,)),
    Outcome(4, "gone", "failed", None, ("FileNotFoundError", "FileNotFoundError")),
)


def judged(*outcomes: Outcome) -> Verdict:
    return verify(PLAN, outcomes, COUNTED, orphans=[3])


def test_everything_as_planned_has_no_problems() -> None:
    verdict = judged(*GOOD)
    assert verdict == Verdict(
        problems=(), files=3, words=6, bytes=30, retried=3, stumbled=1, taken_over=1, dead_letters=1
    )


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda a, b, c, gone: (b, c, gone), "a: its job is lost"),
        (lambda a, b, c, gone: (a, b, c), "gone: its job is lost"),
        (lambda a, b, c, gone: (a, replace(a, id=9), b, c, gone), "a: counted 2 times"),
        (lambda a, b, c, gone: (replace(a, path="x"), b, c, gone), "job 1 was never enqueued"),
        (lambda a, b, c, gone: (replace(a, status="pending"), b, c, gone), "job 1 is pending"),
        (lambda a, b, c, gone: (replace(a, result=None), b, c, gone), "job 1 says nothing"),
        (lambda a, b, c, gone: (replace(a, result=COUNTED["b"]), b, c, gone), "job 1 says 2 words"),
        (
            lambda a, b, c, gone: (replace(a, result=replace(COUNTED["a"], words=7)), b, c, gone),
            "add up to 12 words, the files hold 6",
        ),
        (
            lambda a, b, c, gone: (replace(a, result=replace(COUNTED["a"], sha256="0" * 64)), b, c, gone),
            "sha256 000000000000",
        ),
        (lambda a, b, c, gone: (replace(a, errors=("OSError",)), b, c, gone), "failed unexpectedly: OSError"),
        (lambda a, b, c, gone: (a, replace(b, errors=()), c, gone), "was to fail once and did not"),
        (lambda a, b, c, gone: (a, replace(b, errors=("x", "y")), c, gone), "failed unexpectedly: y"),
        (lambda a, b, c, gone: (a, b, replace(c, errors=()), gone), "job 3 was held by the killed worker"),
        (lambda a, b, c, gone: (a, b, c, replace(gone, status="completed")), "the file does not exist"),
        (lambda a, b, c, gone: (a, b, c, replace(gone, errors=("x",))), "tried 1 times instead of 2"),
    ],
)
def test_each_fault_is_found(tamper: Callable[..., tuple[Outcome, ...]], said: str) -> None:
    problems = judged(*tamper(*GOOD)).problems
    assert any(said in problem for problem in problems), problems


def test_file_that_changed_after_its_job_is_found() -> None:
    counted = COUNTED | {"a": Measure(11, 1, "f" * 64)}
    assert any("job 1" in problem for problem in verify(PLAN, GOOD, counted, [3]).problems)


def test_stumble_may_be_replaced_by_a_lost_worker() -> None:
    a, b, c, gone = GOOD
    assert judged(a, replace(b, errors=(WORKER_LOST,)), c, gone).problems == ()


def test_long_list_of_problems_is_cut() -> None:
    files = frozenset(str(n) for n in range(100))
    problems = verify(Plan(files, frozenset(), frozenset(), 1), (), {}).problems
    assert len(problems) == 11
    assert problems[-1] == "and 90 more"
