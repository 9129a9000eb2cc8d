"""Workers over HTTP: what they announce, who sees it, and being asked to drain."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.live_server import Api, LiveServer, fields, fresh, problem

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}


def announced(api: Api, instance: str, *types: str, **changes: Any) -> dict[str, Any]:
    body = {
        "host": "host-1",
        "pid": 4711,
        "version": "1.0",
        "concurrency": 8,
        "handlers": [{"name": name, "description": f"Runs {name}", "schema": SCHEMA} for name in types],
    }
    answer = api.put(f"/workers/{instance}", body | changes)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def listed(api: Api, instance: str) -> dict[str, Any]:
    items = api.get("/workers", limit=200).json()["items"]
    (found,) = (item for item in items if item["instance"] == instance)
    return dict(found)


def test_a_worker_is_listed_with_who_announced_it_and_what_it_holds(server: LiveServer) -> None:
    name, instance = server.type(), fresh("worker")
    worker = server.token("worker", types=[name])
    assert announced(worker, instance, name) == {"drain_requested": False}
    server.admin.enqueue(name)
    job = worker.claim(name, instance=instance)
    found = listed(server.token("observer"), instance)
    assert found["worker_id"] == job["worker_id"] == f"{found['announced_by']}/{instance}"
    assert (found["host"], found["pid"], found["concurrency"]) == ("host-1", 4711, 8)
    assert (found["handlers"], found["held"], found["drain_requested"]) == ([name], 1, False)
    worker.finish(job, "complete")
    assert listed(server.admin, instance)["held"] == 0


def test_the_catalogue_tells_what_handlers_are_for_and_take(server: LiveServer) -> None:
    name = server.type()
    announced(server.token("worker"), fresh("worker"), name)
    items = server.admin.get("/handlers", limit=200).json()["items"]
    (found,) = (item for item in items if item["name"] == name)
    assert (found["description"], found["schema"], found["workers"]) == (f"Runs {name}", SCHEMA, 1)


def test_lists_come_in_pages(server: LiveServer) -> None:
    names = [server.type(), server.type()]
    reader = server.token("observer", types=names)
    for name in names:
        announced(server.admin, fresh("worker"), name)
    for path, key in (("/workers", "instance"), ("/handlers", "name")):
        first = reader.get(path, limit=1).json()
        second = reader.get(path, limit=1, cursor=first["next_cursor"]).json()
        assert first["items"][0][key] != second["items"][0][key]
        assert reader.get(path, limit=1, cursor=second["next_cursor"]).json()["items"] == []
        assert fields(reader.get(path, cursor="am9icy4z")) == ["cursor"]


def test_a_drain_reaches_the_worker_and_not_its_successor(server: LiveServer) -> None:
    name, instance, run = server.type(), fresh("worker"), str(uuid.uuid4())
    announced(server.admin, instance, name, run=run)
    id = listed(server.admin, instance)["id"]
    drained = server.token("operator").post(f"/workers/{id}/drain")
    assert (drained.status_code, drained.json()["drain_requested"]) == (200, True)
    assert announced(server.admin, instance, name, run=run) == {"drain_requested": True}
    assert announced(server.admin, instance, name, run=str(uuid.uuid4())) == {"drain_requested": False}


def test_who_sees_only_some_types_of_a_worker_may_not_drain_it(server: LiveServer) -> None:
    mine, other, instance = server.type(), server.type(), fresh("worker")
    announced(server.admin, instance, mine, other)
    operator = server.token("operator", types=[mine])
    found = listed(operator, instance)
    assert found["handlers"] == [mine]
    problem(operator.post(f"/workers/{found['id']}/drain"), 403, "forbidden")
    assert listed(server.admin, instance)["drain_requested"] is False


def test_a_worker_announces_only_types_of_its_range_and_under_its_own_name(server: LiveServer) -> None:
    mine, other, instance = server.type(), server.type(), fresh("worker")
    worker = server.token("worker", types=[mine])
    refused = worker.put(f"/workers/{instance}", {"handlers": [{"name": mine}, {"name": other}]})
    assert problem(refused, 403, "forbidden")["errors"][0]["field"] == "handlers[1].name"
    announced(server.admin, instance, other)
    problem(worker.put(f"/workers/{instance}", {"handlers": [{"name": mine}]}), 409, "conflict")
    assert listed(server.admin, instance)["handlers"] == [other]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"host": "h" * 256}, "host"),
        ({"host": "two\nlines"}, "host"),
        ({"version": "1" * 65}, "version"),
        ({"pid": -1}, "pid"),
        ({"concurrency": 0}, "concurrency"),
        ({"handlers": [{"name": "NO NAME"}]}, "handlers[0].name"),
        ({"handlers": [{"name": "rota.rpc"}]}, "handlers[0].name"),
        ({"handlers": [{"name": "a"}, {"name": "a"}]}, "handlers[1].name"),
        ({"handlers": [{"name": "a", "description": "d" * 201}]}, "handlers[0].description"),
        ({"handlers": [{"name": "a", "description": "\u202egnp"}]}, "handlers[0].description"),
        ({"handlers": [{"name": "a", "schema": []}]}, "handlers[0].schema"),
        ({"handlers": [{"name": "a", "schema": {"x": "y" * 8_192}}]}, "handlers[0].schema"),
        ({"handlers": [{"name": f"a{n}"} for n in range(201)]}, "handlers"),
        (
            {"handlers": [{"name": f"a{n}", "schema": {"x": "y" * 8_000}} for n in range(17)]},
            "handlers[16].schema",
        ),
    ],
)
def test_what_a_worker_says_is_bounded(server: LiveServer, body: dict[str, Any], field: str) -> None:
    assert fields(server.admin.put(f"/workers/{fresh('worker')}", body)) == [field]
