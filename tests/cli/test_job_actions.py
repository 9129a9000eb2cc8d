"""``rota jobs`` on many jobs, ``rota jobs wait`` and ``rota queues``."""

from __future__ import annotations

import pytest

from tests.cli.commands import Rota


@pytest.fixture
def mail(rota: Rota, request: pytest.FixtureRequest) -> str:
    """A type of this test's own, named after it."""
    name = request.node.name.removeprefix("test_").replace("[", ".").replace("]", "")[:64].lower()
    rota.done("types", "put", name)
    return str(name)


def handed_in(rota: Rota, type: str, number: int) -> list[str]:
    return [str(rota.done("enqueue", type, "--json").json()["id"]) for _ in range(number)]


def status(rota: Rota, id: str) -> str:
    return str(rota.done("jobs", "show", id, "--json").json()["status"])


def test_all_that_match_are_counted_then_done(rota: Rota, mail: str) -> None:
    ids = handed_in(rota, mail, 3)
    matching = ("--all-matching", "--type", mail)
    counted = rota.done("jobs", "cancel", *matching, "--dry-run")
    assert counted.out == "3 jobs would be cancelled.\n"
    assert {status(rota, id) for id in ids} == {"pending"}
    assert rota.done("jobs", "cancel", *matching, "--yes").out == "3 jobs were cancelled.\n"
    assert {status(rota, id) for id in ids} == {"cancelled"}
    again = rota.done("jobs", "replay", *matching, "--status", "cancelled", "--yes", "--json")
    assert again.json() == {"matched": 3, "done": 3, "remaining": 0, "next_cursor": None}
    assert {status(rota, id) for id in ids} == {"pending"}


def test_nothing_is_done_unasked(rota: Rota, mail: str) -> None:
    (id,) = handed_in(rota, mail, 1)
    refused = rota("jobs", "cancel", "--all-matching", "--type", mail, stdin="y\n")
    assert refused.code == 2
    assert "1 job will be cancelled" in refused.err
    assert "--yes" in refused.err
    assert status(rota, id) == "pending"


def test_nothing_that_matches_is_no_failure(rota: Rota, mail: str) -> None:
    assert "No job matches" in rota.done("jobs", "replay", "--all-matching", "--type", mail).out


@pytest.mark.parametrize(
    "arguments", [(), ("17", "--all-matching"), ("--type", "x"), ("17", "--dry-run"), ("17", "--type", "x")]
)
def test_either_numbers_or_all_that_match(rota: Rota, arguments: tuple[str, ...]) -> None:
    refused = rota("jobs", "delete", *arguments)
    assert (refused.code, "--all-matching" in refused.err) == (2, True)


def test_jobs_are_deleted_by_number(rota: Rota, mail: str) -> None:
    first, second = handed_in(rota, mail, 2)
    rota.done("jobs", "cancel", first)
    ended = rota("jobs", "delete", first, second)
    assert ended.code == 1
    assert f"Job {first} is deleted." in ended.out
    assert f"job {second}" in ended.err
    assert rota("jobs", "show", first).code == 1


def test_waiting_ends_with_the_job_or_with_the_time(rota: Rota, mail: str) -> None:
    first, second = handed_in(rota, mail, 2)
    rota.done("jobs", "cancel", first)
    ended = rota("jobs", "wait", first, second, "--timeout", "200ms")
    assert ended.code == 1
    assert ended.out.splitlines() == [f"Job {first} is cancelled.", f"Job {second} is still pending."]
    assert rota("jobs", "wait", first, "--json").json()["status"] == "cancelled"
    assert "no such job" in rota("jobs", "wait", "999999999").err


def test_a_queue_is_made_paused_and_resumed(rota: Rota, mail: str) -> None:
    name = mail[:40]
    assert rota.done("queues", "put", name).out == f"The queue {name} takes jobs.\n"
    rota.done("enqueue", mail, "--queue", name)
    assert rota.done("queues", "pause", name).out == f"The queue {name} is paused.\n"
    row = next(line for line in rota.done("queues", "list").out.splitlines() if line.startswith(name))
    assert row.split()[1:5] == ["paused", "1", "0", "0"]
    assert "is paused" in rota.done("queues", "put", name).out
    assert rota.done("queues", "resume", name).out == f"The queue {name} is open again.\n"
    listed = rota.done("queues", "list", "--json").json()["items"]
    assert next(each for each in listed if each["name"] == name)["paused"] is False
    assert rota("queues", "pause", "never-made").code == 1
