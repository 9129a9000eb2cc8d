"""Types with a schema: what an enqueue is told, alone and in batches."""

from __future__ import annotations

from typing import Any

from tests.live_server import LiveServer, created, fields, fresh, problem

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["to"],
    "properties": {"to": {"type": "string"}, "items": {"items": {"properties": {"price": {"minimum": 0}}}}},
}
BAD = {"to": "ann", "items": [{}, {}, {}, {"price": -1}]}


def test_a_payload_must_fit_the_schema_of_its_type(server: LiveServer) -> None:
    name = server.type(payload_schema=SCHEMA)
    created(server.admin.post("/jobs", {"type": name, "payload": {"to": "ann", "items": [{"price": 2}]}}))
    answer = server.admin.post("/jobs", {"type": name, "payload": BAD})
    assert fields(answer) == ["payload.items[3].price"]
    assert answer.json()["detail"] == "payload.items[3].price: is less than the minimum of 0"
    assert fields(server.admin.post("/jobs", {"type": name})) == ["payload.to"]


def test_in_a_batch_only_the_job_at_fault_is_refused(server: LiveServer) -> None:
    name = server.type(payload_schema=SCHEMA)
    jobs = [{"type": name, "payload": {"to": "ann"}}, {"type": name, "payload": BAD}]
    good, bad = server.admin.post("/jobs/batch", {"jobs": jobs}).json()["items"]
    assert (good["status"], bad["status"]) == (201, 422)
    assert bad["problem"]["errors"][0]["field"] == "payload.items[3].price"
    together = server.admin.post("/jobs/batch?atomic=true", {"jobs": jobs})
    assert fields(together) == ["jobs[1].payload.items[3].price"]


def test_schema_and_idempotent_are_shown_and_replaced(server: LiveServer) -> None:
    name = fresh("type")
    stored = created(server.admin.put(f"/types/{name}", {"payload_schema": SCHEMA, "idempotent": True}))
    assert (stored["payload_schema"], stored["idempotent"]) == (SCHEMA, True)
    assert stored["payload_schema_disabled"] is False
    assert server.admin.get(f"/types/{name}").json() == stored
    server.admin.put(f"/types/{name}", {"payload_schema": {"type": "string"}})
    assert fields(server.admin.post("/jobs", {"type": name, "payload": {"to": "ann"}})) == ["payload"]
    server.admin.post(f"/types/{name}/pause")
    assert server.admin.get(f"/types/{name}").json()["payload_schema"] == {"type": "string"}
    plain = server.admin.put(f"/types/{name}", {"payload_schema": None}).json()
    assert (plain["payload_schema"], plain["idempotent"]) == (None, False)
    created(server.admin.post("/jobs", {"type": name, "payload": {"to": "ann"}}))


def test_a_schema_that_could_do_harm_is_not_stored(server: LiveServer) -> None:
    name = fresh("type")
    for schema in (7, {"$ref": "http://127.0.0.1:1/"}, {"$defs": {"a": {"$ref": "#/$defs/a"}}}):
        assert fields(server.admin.put(f"/types/{name}", {"payload_schema": schema})) == ["payload_schema"]
    problem(server.admin.get(f"/types/{name}"), 404, "not-found")
