"""``rota workers``, and the schema of a type from a file."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2

from tests.cli.commands import Rota, Server


def announced(server: Server, instance: str, type: str) -> None:
    handlers = [{"name": type, "description": "Sends a mail"}]
    answer = httpx2.put(
        f"{server.url}/workers/{instance}",
        json={"host": "host-1", "pid": 7, "handlers": handlers},
        headers={"Authorization": f"Bearer {server.admin_token}"},
    )
    assert answer.status_code == 200, answer.text


def test_a_worker_is_listed_and_asked_to_drain(rota: Rota, server: Server) -> None:
    announced(server, "cli.worker", "cli.mail")
    listed = rota.done("workers", "list").out
    assert "cli.worker" in listed
    assert "cli.mail" in listed
    assert "Sends a mail" in rota.done("workers", "handlers").out
    assert "is asked to drain" in rota.done("workers", "drain", "cli.worker").out
    items = rota.done("workers", "list", "--json").json()["items"]
    assert {one["instance"]: one["drain_requested"] for one in items}["cli.worker"] is True
    items = rota.done("workers", "handlers", "--json").json()["items"]
    assert "cli.mail" in {one["name"] for one in items}


def test_a_worker_that_is_not_there_cannot_be_drained(rota: Rota) -> None:
    ended = rota("workers", "drain", "nobody")
    assert ended.code == 1
    assert "No worker is called nobody" in ended.err


def test_a_type_takes_its_schema_from_a_file(rota: Rota, tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["to"]}
    file = tmp_path / "mail.schema.json"
    file.write_text(json.dumps(schema))
    made = rota.done("types", "put", "cli.schema", "--schema", str(file), "--idempotent", "--json").json()
    assert (made["payload_schema"], made["idempotent"]) == (schema, True)
    shown = rota.done("types", "show", "cli.schema").out
    assert '"required":["to"]' in shown
    ended = rota("enqueue", "cli.schema", "{}")
    assert ended.code == 1
    assert "payload.to: is required" in ended.err


def test_a_file_that_holds_no_schema_is_said_to_be_none(rota: Rota, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    assert "cannot be read" in rota("types", "put", "cli.no", "--schema", str(file)).err
    file.write_text("{")
    assert "is no JSON" in rota("types", "put", "cli.no", "--schema", str(file)).err
    file.write_text("[]")
    assert "holds no JSON Schema" in rota("types", "put", "cli.no", "--schema", str(file)).err
