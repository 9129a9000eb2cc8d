"""V-02: an API that takes any type lets a producer run whatever a worker happens to know."""

from __future__ import annotations

import pytest

from tests.live_server import LiveServer, fields, fresh, problem
from tests.security.evidence import check_answer, jobs_of

STRANGE = ["os.system", "__import__", "../../etc/passwd", "Type", "", "a" * 65, "a\u0000b", "type-1 ", "a\nb"]


@pytest.mark.parametrize("type", STRANGE)
def test_v02_arbitrary_type_cannot_be_enqueued(server: LiveServer, type: str) -> None:
    producer = server.token("producer")
    answer = producer.post("/jobs", {"type": type})
    assert fields(answer) == ["type"]
    check_answer(server, answer)
    (item,) = producer.post("/jobs/batch", {"jobs": [{"type": type}]}).json()["items"]
    assert item["status"] == 422
    atomic = producer.post("/jobs/batch?atomic=true", {"jobs": [{"type": type}]})
    assert fields(atomic) == ["jobs[0].type"]
    assert producer.get("/jobs").json()["items"] == []


def test_v02_arbitrary_type_is_known_only_after_somebody_may_put_it(server: LiveServer) -> None:
    producer, type = server.token("producer"), fresh("type")
    problem(producer.put(f"/types/{type}", {}), 403, "forbidden")
    assert fields(producer.post("/jobs", {"type": type})) == ["type"]
    assert server.admin.put(f"/types/{type}", {}).status_code == 201
    producer.enqueue(type)


def test_v02_arbitrary_type_is_unknown_again_once_it_was_deleted(server: LiveServer) -> None:
    producer, type = server.token("producer"), server.type()
    assert server.admin.delete(f"/types/{type}").status_code == 204
    assert fields(producer.post("/jobs", {"type": type})) == ["type"]
    assert jobs_of(server, type) == []


@pytest.mark.parametrize("type", ["rota.rpc", "rota.flow", "rota."])
def test_v02_arbitrary_type_of_the_servers_own_is_for_nobody(server: LiveServer, type: str) -> None:
    problem(server.admin.post("/jobs", {"type": type}), 403, "forbidden")
    problem(server.admin.post("/jobs/claim", {"types": [type]}), 403, "forbidden")
    assert fields(server.admin.put(f"/types/{type}", {})) == ["name"]


def test_v02_arbitrary_type_beyond_the_tokens_range_is_forbidden(server: LiveServer) -> None:
    own, other = server.type(), server.type()
    producer = server.token("producer", types=[own])
    producer.enqueue(own)
    problem(producer.post("/jobs", {"type": other}), 403, "forbidden")
    (item,) = producer.post("/jobs/batch", {"jobs": [{"type": other}]}).json()["items"]
    assert item["status"] == 403
    worker = server.token("worker", types=[own])
    problem(worker.post("/jobs/claim", {"types": [other]}), 403, "forbidden")
    server.admin.enqueue(other)
    assert worker.post("/jobs/claim", {}).json()["type"] == own
    assert worker.post("/jobs/claim", {}).status_code == 204


def test_v02_arbitrary_type_cannot_be_claimed(server: LiveServer) -> None:
    assert fields(server.token("worker").post("/jobs/claim", {"types": [fresh("type")]})) == ["types"]
