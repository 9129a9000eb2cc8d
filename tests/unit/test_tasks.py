"""Tasks: how a function becomes a type of jobs, and a payload its arguments."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec import UNSET

import rota
from rota import JobInfo, Task, Tasks, task
from rota.client.calls import spec_of
from rota.client.tasks import BadPayload, load
from rota.errors import StartError


@dataclass
class Address:
    street: str
    number: int = 1


@task
async def plain(n: int, day: date | None = None) -> int:
    """Says what it does."""
    return n


@task(name="mail.send", queue="mail", max_retries=5, timeout=10, lease=60, priority="high")
def configured(to: Address, tags: list[str] = []) -> str:  # noqa: B006  # a default that must not be shared
    tags.append("seen")
    return to.street


def test_a_call_is_an_ordinary_call() -> None:
    assert configured(Address("High Street")) == "High Street"
    assert plain.__doc__ == "Says what it does."


def test_the_options_go_with_the_job() -> None:
    job = configured.job(Address("High Street"), tags=["a"])
    assert (job.type, job.queue, job.priority) == ("mail.send", "mail", "high")
    assert (job.max_retries, job.timeout_seconds) == (5, 10)
    assert job.payload == {"to": Address("High Street"), "tags": ["a"]}


def test_package_shows_its_public_names() -> None:
    assert set(rota.__all__) <= set(dir(rota))


def test_options_of_one_enqueue_go_before_those_of_the_task() -> None:
    at = configured.options(delay_seconds=60, idempotency_key="order-7", priority="low")
    job = at.job(Address("High Street"))
    assert (job.type, job.queue, job.priority, job.max_retries) == ("mail.send", "mail", "low", 5)
    assert (job.delay_seconds, job.idempotency_key) == (60, "order-7")
    assert configured.job(Address("High Street")).delay_seconds is None


@pytest.mark.parametrize(
    ("given", "says"),
    [("delay", "mean delay_seconds"), ("tiemout", "mean timeout_seconds"), ("x", "there are queue")],
)
def test_misspelt_option_is_refused_with_the_one_that_was_meant(given: str, says: str) -> None:
    misspelt: Any = {given: 1}
    with pytest.raises(TypeError, match=says):
        configured.options(**misspelt)
    with pytest.raises(TypeError, match=says):
        spec_of("mail.send", {}, misspelt)


def test_options_beside_a_spec_are_refused_with_the_place_for_them() -> None:
    with pytest.raises(TypeError, match=r"fn\.options\(delay_seconds=…\)"):
        spec_of(plain.job(1), UNSET, {"delay_seconds": 1})


def test_misspelt_argument_is_told_with_the_one_that_is_missing() -> None:
    with pytest.raises(BadPayload, match=r"unknown field `txt`.*; missing: `to`"):
        configured.arguments(b'{"txt": "a"}')
    with pytest.raises(BadPayload, match=r"unknown field `m`$"):
        plain.arguments(b'{"n": 1, "m": 2}')


def test_job_is_shown_in_one_short_word() -> None:
    now = datetime.now(UTC)
    job = JobInfo(
        id=7, type="plain", queue="q", status="pending", priority="low", created_at=now, updated_at=now
    )
    assert repr(job) == "<job 7 plain pending>"


def test_what_the_task_does_not_say_is_left_to_the_type() -> None:
    job = plain.job(1)
    assert (job.type, job.queue, job.priority, job.max_retries, job.timeout_seconds) == ("plain", *[None] * 4)


def test_arguments_that_do_not_fit_are_refused_when_the_job_is_made() -> None:
    with pytest.raises(TypeError):
        plain.job()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        plain.job(1, m=2)  # type: ignore[call-arg]


def test_a_payload_becomes_what_the_annotations_say() -> None:
    assert plain.arguments(b'{"n": 1, "day": "2026-12-01"}') == {"n": 1, "day": date(2026, 12, 1)}
    assert plain.arguments(b'{"n": 1}') == {"n": 1, "day": None}
    assert configured.arguments(b'{"to": {"street": "s"}}')["to"] == Address("s")


@pytest.mark.parametrize(
    ("payload", "names"),
    [
        (b'{"n": "1"}', "argument `n`"),
        (b'{"n": 1.5}', "argument `n`"),
        (b'{"n": 1, "day": "yesterday"}', "argument `day`"),
        (b"{}", "`n`"),
        (b'{"n": 1, "x": 1}', "`x`"),
        (b"null", "object"),
        (b"[" * 20_000, "plain"),
    ],
)
def test_a_payload_that_does_not_fit_names_the_argument(payload: bytes, names: str) -> None:
    with pytest.raises(BadPayload, match=names):
        plain.arguments(payload)


def test_further_arguments_reach_a_function_that_takes_them() -> None:
    def handler(n: int, **more: Any) -> None: ...

    made = Task(handler)
    assert made.job(1, colour="red").payload == {"n": 1, "colour": "red"}
    assert made.arguments(b'{"n": 1, "colour": "red"}') == {"n": 1, "colour": "red"}
    with pytest.raises(BadPayload, match="argument `n`"):
        made.arguments(b'{"n": "1", "colour": "red"}')


@pytest.mark.parametrize("name", ["Upper", "has space", "", "-dash", "x" * 65, "a/b"])
def test_a_name_that_no_type_can_have_is_refused(name: str) -> None:
    def handler() -> None: ...

    handler.__name__ = name or "<lambda>"
    with pytest.raises(ValueError, match="name"):
        Task(handler)


def test_arguments_without_a_name_are_refused() -> None:
    def listed(*numbers: int) -> None: ...

    def positional(n: int, /) -> None: ...

    for function in (listed, positional):
        with pytest.raises(TypeError, match="name"):
            Task(function)


def test_annotations_that_json_cannot_fill_are_told_at_start() -> None:
    class Opaque: ...

    def handler(thing: Opaque) -> None: ...

    handler.__annotations__ = {"thing": "NoSuchName"}
    with pytest.raises(StartError, match="NoSuchName"):
        Task(handler).check()


def test_two_tasks_of_one_name_are_refused() -> None:
    tasks = Tasks()

    @tasks.task
    def one() -> None: ...

    with pytest.raises(ValueError, match="one"):
        tasks.task(name="one")(lambda: None)
    assert tasks.get("one") is one


def test_a_module_gives_its_tasks_and_those_of_its_collections_once() -> None:
    module = ModuleType("some_tasks")
    collection = Tasks([plain])
    vars(module).update(alone=configured, again=configured, collection=collection, other=1)
    assert sorted(one.name for one in Tasks.of_module(module)) == ["mail.send", "plain"]


def test_tasks_are_loaded_by_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from rota import Tasks, task\nmore = Tasks()\n@task\ndef a(): ...\n@more.task\ndef b(): ...\n"
    (tmp_path / "loaded_here.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert sorted(one.name for one in load("loaded_here")) == ["a", "b"]
    assert [one.name for one in load("loaded_here:more")] == ["b"]
    assert [one.name for one in load("loaded_here:a")] == ["a"]
    for wrong in ("loaded_here:nothing", "no_such_module_here", "json"):
        with pytest.raises(StartError):
            load(wrong)
    del sys.modules["loaded_here"]
