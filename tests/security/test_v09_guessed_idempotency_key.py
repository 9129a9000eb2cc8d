"""V-09: an API that keeps one space of keys gives a stranger's job to whoever guesses its key."""

from __future__ import annotations

from uuid import uuid4

from tests.live_server import LiveServer, fresh, problem
from tests.security.evidence import check_answer, jobs_of


def test_v09_guessed_idempotency_key_gives_the_guesser_a_job_of_its_own(server: LiveServer) -> None:
    type, key = server.type(), fresh("order")
    victim, guesser = server.token("producer"), server.token("producer")
    job = victim.enqueue(type, payload={"card": "4111"}, idempotency_key=key)
    answers = [
        guesser.post("/jobs", {"type": type, "payload": "guessed"}, Idempotency_Key=key),
        server.token("producer").post("/jobs", {"type": type, "payload": "guessed", "idempotency_key": key}),
        server.admin.post("/jobs", {"type": type, "payload": "guessed", "idempotency_key": key}),
    ]
    for answer in answers:
        assert answer.status_code == 201
        assert answer.json()["id"] != job["id"]
        assert answer.json()["payload"] == "guessed"
        assert "4111" not in answer.text
        assert "idempotency-replayed" not in answer.headers
        assert "idempotency-mismatch" not in answer.headers
        check_answer(server, answer)


def test_v09_guessed_idempotency_key_never_takes_the_victims_place(server: LiveServer) -> None:
    type, key = server.type(), fresh("order")
    victim, guesser = server.token("producer"), server.token("producer")
    early = guesser.enqueue(type, payload="first", idempotency_key=key)
    job = victim.enqueue(type, payload="second", idempotency_key=key)
    again = victim.post("/jobs", {"type": type, "payload": "second"}, Idempotency_Key=key)
    assert (again.status_code, again.json()["id"]) == (200, job["id"])
    assert again.headers["idempotency-replayed"] == "true"
    assert guesser.post("/jobs", {"type": type, "idempotency_key": key}).json()["id"] == early["id"]
    assert len(jobs_of(server, type)) == 2


def test_v09_guessed_idempotency_key_in_a_batch(server: LiveServer) -> None:
    type, key = server.type(), fresh("order")
    victim, guesser = server.token("producer"), server.token("producer")
    job = victim.enqueue(type, payload={"card": "4111"}, idempotency_key=key)
    guesses = {"jobs": [{"type": type, "idempotency_key": key}] * 2}
    answer = guesser.post("/jobs/batch", guesses)
    first, second = answer.json()["items"]
    assert (first["status"], second["status"]) == (201, 200)
    assert first["job"]["id"] == second["job"]["id"] != job["id"]
    assert "4111" not in answer.text


def test_v09_guessed_idempotency_key_and_guessed_request_uid_are_alike(server: LiveServer) -> None:
    type, uid = server.type(), str(uuid4())
    victim, guesser = server.token("producer"), server.token("producer")
    job = victim.enqueue(type, payload={"card": "4111"}, request_uid=uid)
    answer = guesser.post("/jobs", {"type": type, "request_uid": uid})
    assert answer.status_code == 201
    assert answer.json()["id"] != job["id"]
    assert "4111" not in answer.text
    assert victim.post("/jobs", {"type": type, "request_uid": uid}).json()["id"] == job["id"]


def test_v09_guessed_idempotency_key_can_be_read_by_nobody_else(server: LiveServer) -> None:
    type, key = server.type(), fresh("order-secret")
    victim = server.token("producer")
    id = victim.enqueue(type, idempotency_key=key)["id"]
    problem(server.token("producer").get(f"/jobs/{id}"), 404, "not-found")
    for preset in ("observer", "operator", "producer"):
        reader = server.token(preset)
        for path in (f"/jobs/{id}", f"/jobs?type={type}"):
            assert key not in reader.get(path).text
    worker = server.token("worker")
    claim = worker.post("/jobs/claim", {"types": [type]})
    assert claim.json()["id"] == id
    for answer in (claim, worker.get(f"/jobs/{id}"), worker.finish(claim.json(), "complete")):
        assert key not in answer.text
    assert victim.job(id)["idempotency_key"] == key
    assert server.admin.job(id)["idempotency_key"] == key
