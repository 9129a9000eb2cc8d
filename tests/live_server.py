"""A real server process on a free port with a fresh data folder, and a small client for it."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

READY = "Rota is ready on "
_SERVE = """
import sys
from pathlib import Path
from rota.server import serve
from rota.settings import load
flags = dict(flag.split("=", 1) for flag in sys.argv[2:])
serve(load(Path(sys.argv[1]), None, {}, flags))
"""
_numbers = itertools.count(1)


def fresh(word: str) -> str:
    """A name that no other test of this process uses."""
    return f"{word}-{next(_numbers)}"


class Api:
    """Sends JSON with one token."""

    def __init__(self, url: str, token: str | None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.token = token
        self.http = httpx2.Client(
            base_url=url, headers=headers, timeout=20, trust_env=False, verify=False
        )  # no TLS: spares its set-up

    def get(self, path: str, **params: Any) -> httpx2.Response:
        return self.http.get(path, params=params or None)

    def post(self, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        """``body`` as JSON, or as it is when it is bytes; ``Idempotency_Key="a"`` is a header."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, bytes):
            return self.http.post(path, content=body, headers={"Content-Type": "application/json", **named})
        return self.http.post(path, json=body, headers=named) if body is not None else self.http.post(path)

    def put(self, path: str, body: Any) -> httpx2.Response:
        return self.http.put(path, json=body)

    def delete(self, path: str) -> httpx2.Response:
        return self.http.delete(path)

    def enqueue(self, type: str, **fields: Any) -> dict[str, Any]:
        return created(self.post("/jobs", {"type": type, **fields}))

    def claim(self, *types: str, **fields: Any) -> dict[str, Any]:
        """The job that must be there."""
        answer = self.post("/jobs/claim", {"types": list(types), **fields})
        assert answer.status_code == 200, answer.text
        job: dict[str, Any] = answer.json()
        return job

    def finish(self, job: dict[str, Any], verb: str, **fields: Any) -> httpx2.Response:
        return self.post(f"/jobs/{job['id']}/{verb}", {"lease_token": job["lease_token"], **fields})

    def job(self, id: int) -> dict[str, Any]:
        answer = self.get(f"/jobs/{id}")
        assert answer.status_code == 200, answer.text
        job: dict[str, Any] = answer.json()
        return job


def created(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The body of a refusal, after its form was checked."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["type"] == f"/problems/{code}", body
    assert body["status"] == status
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["title"]
    assert body["detail"]
    return body


def fields(answer: httpx2.Response, code: str = "validation-failed") -> list[str]:
    """The names of the fields that a 422 is about."""
    return [fault["field"] for fault in problem(answer, 422, code)["errors"]]


class LiveServer:
    """A server in a process of its own."""

    def __init__(self, folder: Path, **flags: object) -> None:
        self.data = folder / "data"
        self._flags = [f"{name}={value}" for name, value in {"port": 0, **flags}.items()]
        self._log = folder / "server.log"
        self._apis: list[Api] = []

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, str(self.data), *self._flags],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={name: value for name, value in os.environ.items() if not name.startswith("ROTA_")},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith(READY):
            self.process.wait()
            raise AssertionError(f"the server did not start: {self.log}")
        self.url = line.removeprefix(READY).strip()
        self.port = int(self.url.rpartition(":")[2])
        self.admin = self.api((self.data / "admin.token").read_text().strip())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for api in self._apis:
            api.http.close()
        self.stop()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def stop(self) -> int:
        """Ask the server to stop and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=40)

    def api(self, token: str | None) -> Api:
        api = Api(self.url, token)
        self._apis.append(api)
        return api

    def token(self, preset: str | None = None, **fields: Any) -> Api:
        """A client with a new token."""
        body = {"name": fresh("token"), "preset": preset, **fields}
        answer = created(
            self.admin.post("/tokens", {key: value for key, value in body.items() if value is not None})
        )
        return self.api(answer["token"])

    def type(self, **fields: Any) -> str:
        """The name of a new type."""
        name = fresh("type")
        created(self.admin.put(f"/types/{name}", fields))
        return name
