"""What the table of access is played with: tokens, types, jobs and workers, and one cell of it."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.live_server import Api, LiveServer, created, fresh
from tests.security.access_expectations import PRESETS, VISIBLE
from tests.security.evidence import shown

REPORT: dict[str, dict[str, Any]] = {
    "complete": {"result": "a result"},
    "fail": {"error": "an error"},
    "release": {},
    "heartbeat": {"log": "a line", "progress": {"message": "progress"}},
}


class Stage:
    """The tokens, types and jobs that the table is played with."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        self.queue = fresh("queue")
        self.near, self.new, self.far = (self.type(self.queue) for _ in range(3))
        self.aside = self.type("default")
        self.spare_queue = fresh("queue")
        created(server.admin.put(f"/queues/{self.spare_queue}", {}))
        ranges: dict[str, dict[str, list[str]]] = {
            "unlimited": {},
            "ranged": {"types": [self.near, self.new], "queues": [self.queue]},
            "types": {"types": [self.near, self.aside]},
            "queues": {"queues": [self.queue]},
        }
        self.holders = {
            (preset, kind): server.token(preset, **limits)
            for preset in PRESETS
            for kind, limits in ranges.items()
        }
        self.producer, self.worker = server.token("producer"), server.token("worker")
        self._kept: dict[tuple[str, str, Api | None], dict[str, Any]] = {}

    def type(self, queue: str) -> str:
        return self.server.type(queue=queue, lease_seconds=600, max_retries=10_000)

    def kinds(self, relation: str) -> list[str]:
        """Which tokens of a preset stand in this relation to something."""
        return {"out": ["types", "queues"], "any": ["unlimited"], "more": ["ranged"]}.get(
            relation, ["unlimited", "ranged"]
        )

    def type_for(self, relation: str, kind: str) -> str:
        """The name of a type that lies in this relation to a token of this kind."""
        if relation != "out":
            return self.near
        return self.far if kind == "types" else self.aside

    def queue_of(self, type: str) -> str:
        return "default" if type == self.aside else self.queue

    def announced(self, type: str) -> str:
        """A worker of somebody else that runs this type; what it is called."""
        instance = fresh("worker")
        body = {"handlers": [{"name": type}]}
        assert self.worker.put(f"/workers/{instance}", body).status_code == 200
        return instance

    def running(self, type: str, preset: str, owner: Api | None) -> dict[str, Any]:
        """A running job with everything in it; ``owner`` has enqueued it as a producer, or holds it."""
        key = ("running", type, owner)
        if key not in self._kept:
            producer = owner if owner is not None and preset in ("producer", "admin") else self.producer
            worker = owner if owner is not None and preset in ("worker", "admin") else self.worker
            id = producer.enqueue(type, payload="a payload", idempotency_key=fresh("key"), priority="medium")[
                "id"
            ]
            first = self.claim(worker, id, type)
            assert worker.finish(first, "fail", error="an error", retry_in_seconds=0).status_code == 200
            job = self.claim(worker, id, type)
            assert worker.finish(job, "heartbeat", **REPORT["heartbeat"]).status_code == 200
            self._kept[key] = job
        return self._kept[key]

    def claim(self, worker: Api, id: int, type: str) -> dict[str, Any]:
        """Claim until this very job is held: others of its type may wait too."""
        while (job := worker.claim(type))["id"] != id:
            pass
        return job

    def cancelled(
        self, type: str, preset: str, owner: Api | None, *, key: str | None = "key"
    ) -> dict[str, Any]:
        """A cancelled job; without an idempotency key nothing holds it back from deletion."""
        kept = (f"cancelled {key}", type, owner)
        if kept not in self._kept:
            producer = owner if owner is not None and preset in ("producer", "admin") else self.producer
            fields = {} if key is None else {"idempotency_key": fresh(key)}
            job = producer.enqueue(type, payload="a payload", **fields)
            assert self.server.admin.post(f"/jobs/{job['id']}/cancel").json()["status"] == "cancelled"
            self._kept[kept] = job
        return self._kept[kept]

    def delayed(self, type: str, preset: str, owner: Api | None) -> dict[str, Any]:
        kept = ("delayed", type, owner)
        if kept not in self._kept:
            producer = owner if owner is not None and preset in ("producer", "admin") else self.producer
            self._kept[kept] = producer.enqueue(
                type, payload="a payload", idempotency_key=fresh("key"), delay_seconds=3_600
            )
        return self._kept[kept]

    def changed(self) -> None:
        """A call went through: the jobs are no longer as they were made."""
        self._kept.clear()


class Case:
    """One cell of the table."""

    def __init__(self, stage: Stage, preset: str, kind: str, relation: str) -> None:
        self.stage, self.preset, self.relation = stage, preset, relation
        self.holder = stage.holders[preset, kind]
        self.type = stage.type_for(relation, kind)
        self.owner = self.holder if relation == "own" else None

    @property
    def job(self) -> dict[str, Any]:
        return self.stage.running(self.type, self.preset, self.owner)

    def checked(self, job: dict[str, Any], relation: str | None = None) -> None:
        """The answer shows exactly those fields that it may, out of those that there are."""
        there = shown(self.stage.server.admin.job(job["id"]))
        allowed = VISIBLE[self.preset, relation or self.relation]
        assert shown(job) == there & allowed, (self.preset, self.relation, job)

    def outcome(self, answer: httpx2.Response, relation: str | None = None) -> str:
        """The status of an answer whose body, if it is a success, is a job."""
        if answer.status_code < 300:
            self.checked(answer.json(), relation)
        return str(answer.status_code)

    def item(self, answer: httpx2.Response) -> str:
        """The status of the only item of a batch."""
        if answer.status_code != 200:
            return str(answer.status_code)
        (item,) = answer.json()["items"]
        if "job" in item:
            self.checked(item["job"], "own")
        return str(item["status"])

    def listed(self, answer: httpx2.Response, key: str, wanted: object) -> dict[str, Any] | str:
        if answer.status_code != 200:
            return str(answer.status_code)
        return next((item for item in answer.json()["items"] if item[key] == wanted), "hidden")
