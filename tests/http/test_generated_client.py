"""A client that a generator makes from the OpenAPI document works against a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from tests.live_server import LiveServer

GENERATED = """
import json, sys
from made.api.jobs import enqueue, get_job, list_jobs
from made.api.work import claim, complete
from made.client import AuthenticatedClient
from made.models import ClaimRequest, CompleteRequest, EnqueueRequest

url, token, name = sys.argv[1:]
direct = {"trust_env": False}
with AuthenticatedClient(url, token, raise_on_unexpected_status=True, httpx_args=direct) as client:
    asked = EnqueueRequest(type_=name, payload={"to": ["ann", None, 1.5]}, max_retries=2)
    made = enqueue.sync(client=client, body=asked, idempotency_key="invoice-17")
    again = enqueue.sync_detailed(client=client, body=asked, idempotency_key="invoice-17")
    read = get_job.sync(made.id, client=client)
    listed = list_jobs.sync(client=client, type_=name)
    held = claim.sync(client=client, body=ClaimRequest(types=[name]))
    ended = complete.sync(
        held.id, client=client, body=CompleteRequest(lease_token=held.lease_token, result=[True])
    )
    missing = get_job.sync(10**17, client=client)
print(json.dumps({
    "ids": [made.id, again.parsed.id, read.id, held.id, *[each.id for each in listed.items]],
    "replayed": [int(again.status_code), again.headers["idempotency-replayed"]],
    "payload": read.payload, "retries": read.max_retries, "status": ended.status, "result": ended.result,
    "created": made.created_at.tzinfo is not None, "missing": missing.type_,
}))
"""


@pytest.fixture(scope="module")
def document(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(server.api(None).get("/openapi.json").content)
    return path


def test_a_validator_accepts_the_document(server: LiveServer) -> None:
    validate(server.api(None).get("/openapi.json").json(), cls=OpenAPIV31SpecValidator)


def test_a_generated_client_enqueues_reads_claims_and_completes(
    server: LiveServer, document: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "generator.yaml"
    settings.write_text("post_hooks: []\npackage_name_override: made\n")
    options = ["--meta", "none", "--path", str(document), "--config", str(settings), "--fail-on-warning"]
    written = run(
        "-m", "openapi_python_client", "generate", *options, "--output-path", str(tmp_path / "made")
    )
    assert written.returncode == 0, written.stdout + written.stderr
    script = tmp_path / "script.py"
    script.write_text(GENERATED)
    name = server.type()
    done = run(str(script), server.url, str(server.admin.token), name)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(set(told.pop("ids"))) == 1
    assert told == {
        "replayed": [200, "true"],
        "payload": {"to": ["ann", None, 1.5]},
        "retries": 2,
        "status": "completed",
        "result": [True],
        "created": True,
        "missing": "/problems/not-found",
    }


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    return subprocess.run(
        [sys.executable, *arguments], check=False, capture_output=True, text=True, timeout=50, env=environment
    )
