"""The client's rules, without any I/O: where to send, what an answer means, when to send again."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from rota.client import calls, work
from rota.client.jobs import JobSpec, time_ordered_uid
from rota.client.protocol import (
    LONGEST_DELAY_SECONDS,
    Answer,
    Call,
    Repeats,
    Trouble,
    bearer,
    error_of,
    read,
    server_url,
)
from rota.errors import (
    BY_CODE,
    InternalError,
    JobNotHeld,
    NotFound,
    RateLimited,
    RotaError,
    Unauthenticated,
    Unavailable,
    ValidationFailed,
)

JOB = {
    "id": 7,
    "type": "mail.send",
    "queue": "default",
    "status": "running",
    "priority": "low",
    "payload": {"id": 1970670598291982290},
    "created_at": "2026-12-01T08:30:00.000Z",
    "updated_at": "2026-12-01T08:30:00.250Z",
    "a_field_of_a_newer_server": True,
}


def answer(status: int, body: Any = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, b"" if body is None else json.dumps(body).encode())


def problem(status: int, code: str, detail: str = "Do that.", **more: Any) -> Answer:
    body = {"type": f"/problems/{code}", "title": "T", "status": status, "detail": detail, **more}
    return answer(status, body)


def sent(call: Call[Any]) -> Any:
    assert call.body is not None
    return json.loads(call.body)


def call(**options: Any) -> Call[None]:
    return Call("POST", "/x", lambda _: None, b"{}", **options)


# Where to send


@pytest.mark.parametrize(
    ("url", "known_as"),
    [
        ("http://127.0.0.1:8520", "http://127.0.0.1:8520"),
        ("http://localhost:8520/", "http://localhost:8520"),
        ("http://[::1]:8520", "http://[::1]:8520"),
        ("https://rota.example.com/behind/a/path/", "https://rota.example.com/behind/a/path"),
    ],
)
def test_an_address_over_tls_or_loopback_is_taken(url: str, known_as: str) -> None:
    assert server_url(url) == known_as


@pytest.mark.parametrize(
    "url",
    [
        "http://rota.example.com",
        "http://10.0.0.5:8520",
        "http://127.0.0.1.evil.example",
        "http://0.0.0.0:8520",
        "http://127.0.0.1:8520@evil.example",
        "http://127.0.0.1:6666\\@1.1.1.1/",
        "https://user:secret@rota.example.com",
        "https://rota.example.com/?token=x",
        "ftp://127.0.0.1",
        "127.0.0.1:8520",
        "https://",
        "http://127.0.0.1:99999",
    ],
)
def test_an_address_that_could_leak_the_token_is_refused(url: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        server_url(url)
    assert "secret" not in refused.value.detail


def test_plain_http_elsewhere_needs_to_be_allowed() -> None:
    assert server_url("http://rota.example.com", insecure_http=True) == "http://rota.example.com"


def test_url_and_token_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_URL", "https://rota.example.com")
    monkeypatch.setenv("ROTA_TOKEN", "rota_abc_def\n")
    assert server_url(None) == "https://rota.example.com"
    assert bearer(None) == "Bearer rota_abc_def"


def test_a_missing_or_broken_token_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTA_TOKEN", raising=False)
    with pytest.raises(Unauthenticated):
        bearer(None)
    with pytest.raises(ValidationFailed) as refused:
        bearer("rota_é\r\nX-Evil: 1")
    assert "Evil" not in refused.value.detail


# What an answer means


@pytest.mark.parametrize("code", [code for code in BY_CODE if code not in {"internal", "start-refused"}])
def test_every_code_comes_back_as_its_own_error(code: str) -> None:
    kind = BY_CODE[code]
    raised = error_of(problem(kind.status, code))
    assert type(raised) is kind
    assert raised.detail == "Do that."


def test_a_problem_brings_its_fields_and_request_id() -> None:
    raised = error_of(
        problem(
            422,
            "validation-failed",
            request_id="r-1",
            errors=[{"field": "type", "code": "unknown", "message": "is not declared"}],
        )
    )
    assert raised.errors[0].field == "type"
    assert raised.headers["X-Request-Id"] == "r-1"


def test_a_code_of_a_newer_server_falls_back_to_its_status() -> None:
    assert type(error_of(problem(404, "schedule-gone"))) is NotFound


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_a_backend_is_unavailable(status: int) -> None:
    raised = error_of(Answer(status, {"retry-after": "7"}, b"<html>Bad Gateway</html>"))
    assert isinstance(raised, Unavailable)
    assert raised.retry_after == 7


def test_a_redirect_is_an_error() -> None:
    with pytest.raises(RotaError, match="redirect"):
        read(calls.job(1), answer(307, None, location="https://evil.example/"))


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"id": "seven"}', b"[" * 20_000])
def test_an_answer_that_is_no_job_is_an_error(body: bytes) -> None:
    with pytest.raises(InternalError):
        read(calls.job(1), Answer(200, {}, body))


def test_a_job_is_read_with_instants_and_every_digit() -> None:
    job = read(calls.job(7), answer(200, JOB))
    assert job.created_at == datetime(2026, 12, 1, 8, 30, tzinfo=UTC)
    assert job.payload == {"id": 1970670598291982290}
    assert job.result is None


def test_numbers_beyond_64_bits_survive() -> None:
    job = read(calls.job(7), answer(200, JOB | {"payload": {"n": 2**200}}))
    assert job.payload == {"n": 2**200}


# When to send again


@pytest.mark.parametrize("failure", [answer(429), answer(503), answer(502), answer(504), *Trouble])
def test_a_repeatable_call_is_sent_again(failure: Answer | Trouble) -> None:
    assert Repeats(call()).delay(failure) is not None


@pytest.mark.parametrize("failure", [answer(503), answer(502), answer(504), Trouble.BROKEN, Trouble.SILENT])
def test_a_call_that_may_have_been_done_is_not_sent_again(failure: Answer | Trouble) -> None:
    assert Repeats(call(repeatable=False)).delay(failure) is None


@pytest.mark.parametrize("failure", [answer(429), Trouble.NOT_SENT])
def test_a_call_that_was_not_done_is_sent_again_whatever_it_is(failure: Answer | Trouble) -> None:
    assert Repeats(call(repeatable=False)).delay(failure) is not None


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500])
def test_an_answer_that_will_not_change_is_not_asked_for_again(status: int) -> None:
    assert Repeats(call()).delay(answer(status)) is None


def test_pauses_grow_to_a_ceiling_and_the_tries_end() -> None:
    repeats = Repeats(call(), tries=12, dice=lambda: 1.0)
    pauses = [repeats.delay(Trouble.BROKEN) for _ in range(12)]
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[10] == LONGEST_DELAY_SECONDS
    assert pauses[11] is None


def test_the_server_says_how_long_to_wait() -> None:
    assert Repeats(call(), dice=lambda: 0.0).delay(answer(429, retry_after="3")) == 3
    assert Repeats(call()).delay(answer(429, retry_after="3600")) is None


def test_a_limited_call_ends_with_the_time_to_wait() -> None:
    with pytest.raises(RateLimited) as limited:
        read(call(), answer(429, None, retry_after="3600"))
    assert limited.value.retry_after == 3600


@pytest.mark.parametrize(
    "made",
    [
        calls.cancel(1),
        calls.replay(1),
        calls.delete(1),
        calls.create_token("t", {"preset": "worker"}),
        calls.rotate_token("k", 0),
    ],
)
def test_calls_that_the_second_time_are_refused_are_not_repeatable(made: Call[Any]) -> None:
    assert not made.repeatable


def test_a_repeated_claim_asks_for_what_it_holds() -> None:
    made = work.claim_many(10, {"wait_seconds": 5, "types": ["a"]})
    repeats = Repeats(made)
    assert sent(made)["repeat"] is False
    repeats.delay(Trouble.BROKEN)
    assert repeats.body is not None
    again = json.loads(repeats.body)
    assert again == sent(made) | {"repeat": True}
    assert uuid.UUID(again["claim_id"]).version == 4


# What is sent


def test_an_enqueue_carries_a_uid_that_stays_over_repeats() -> None:
    made = calls.enqueue(JobSpec("a", {"n": 1}))
    repeats = Repeats(made)
    first = repeats.body
    repeats.delay(Trouble.BROKEN)
    assert repeats.body == first
    assert uuid.UUID(sent(made)["request_uid"]).version == 7
    assert sent(made)["request_uid"] != sent(calls.enqueue(JobSpec("a", {"n": 1})))["request_uid"]


def test_uids_grow_with_time() -> None:
    earlier = time_ordered_uid()
    while (later := time_ordered_uid()).int >> 80 == earlier.int >> 80:
        pass
    assert later > earlier
    assert later.variant == uuid.RFC_4122


def test_what_is_not_said_is_left_to_the_type() -> None:
    assert set(sent(calls.enqueue(JobSpec("a")))) == {"type", "payload", "request_uid"}


def test_an_enqueue_without_a_zone_is_refused() -> None:
    local = datetime(2026, 12, 1, 8, 30)  # noqa: DTZ001  # the case
    with pytest.raises(ValidationFailed, match="run_at"):
        calls.enqueue(JobSpec("a", run_at=local))


@pytest.mark.parametrize(
    "payload",
    [
        {"x": float("nan")},
        {"x": [None, float("inf")]},
        {"x": "a\x00b"},
        {"x": "\ud800"},
        {"x": object()},
        {"x": "y" * 65_536},
        json.loads("[" * 101 + "]" * 101),
    ],
)
def test_a_payload_that_cannot_be_stored_is_refused_before_it_travels(payload: Any) -> None:
    with pytest.raises(ValidationFailed, match="payload"):
        calls.enqueue(JobSpec("a", payload))


@pytest.mark.parametrize(
    "payload",
    [
        {"x": None, "y": 1.5},
        {"x": "\\u0000"},
        {"x": '[{"' * 200},
        json.loads("[" * 100 + "]" * 100),
        {"n": 2**200},
    ],
)
def test_odd_payloads_that_can_be_stored_are_sent_as_they_are(payload: Any) -> None:
    assert sent(calls.enqueue(JobSpec("a", payload)))["payload"] == payload


def test_lists_longer_than_a_batch_are_split() -> None:
    batches = list(calls.enqueue_batches(JobSpec("a") for _ in range(12_000)))
    assert [len(sent(batch)["jobs"]) for batch in batches] == [5_000, 5_000, 2_000]


def test_big_jobs_are_split_by_size() -> None:
    big = {"x": "y" * 60_000}
    batches = list(calls.enqueue_batches(JobSpec("a", big) for _ in range(1_200)))
    assert sum(len(sent(batch)["jobs"]) for batch in batches) == 1_200
    assert len(batches) == 3
    assert all(len(batch.body or b"") <= 32 * 1024 * 1024 for batch in batches)


def test_an_atomic_batch_is_never_split() -> None:
    with pytest.raises(ValidationFailed, match="atomic"):
        list(calls.enqueue_batches((JobSpec("a") for _ in range(5_001)), atomic=True))


def test_a_batch_answers_jobs_and_errors_in_order() -> None:
    (made,) = calls.enqueue_batches([JobSpec("a"), JobSpec("b"), JobSpec("a")])
    refusal = {"type": "/problems/validation-failed", "title": "T", "status": 422, "detail": "no type b"}
    items = [
        {"status": 201, "job": JOB},
        {"status": 422, "problem": refusal},
        {"status": 200, "job": JOB, "idempotency_replayed": True},
    ]
    first, second, third = read(made, answer(200, {"items": items}))
    assert not isinstance(first, RotaError)
    assert not first.idempotency_replayed
    assert isinstance(second, ValidationFailed)
    assert not isinstance(third, RotaError)
    assert third.idempotency_replayed


def test_a_finished_batch_tells_each_verdict() -> None:
    lost = {"type": "/problems/job-not-held", "title": "T", "status": 409, "detail": "lost"}
    made = work.finish_batch([])
    verdicts = read(made, answer(200, {"items": [{"status": 200}, {"status": 409, "problem": lost}]}))
    assert verdicts[0] is None
    assert isinstance(verdicts[1], JobNotHeld)


def test_outcomes_are_split_by_number_and_size() -> None:
    held = read(
        work.claim_many(1, {}),
        answer(200, {"items": [JOB | {"lease_token": "ab", "lease_seconds": 30, "heartbeat_seconds": 10}]}),
    )[0]
    small = work.outcome(held, result=1)
    assert len(list(work.finish_batches([small] * 2_500))) == 3
    big = work.outcome(held, result="x" * 60_000)
    assert len(list(work.finish_batches([big] * 900))) == 2


def test_an_error_text_with_a_lone_surrogate_can_be_sent() -> None:
    held = read(
        work.claim_many(1, {}),
        answer(200, {"items": [JOB | {"lease_token": "ab", "lease_seconds": 30, "heartbeat_seconds": 10}]}),
    )[0]
    assert sent(work.fail(held, "bad \ud800 text", True, None))["error"] == "bad \\ud800 text"


def test_a_claim_without_work_is_none() -> None:
    assert read(work.claim({}), Answer(204, {}, b"")) is None


def test_names_cannot_leave_their_place_in_the_path() -> None:
    assert calls.delete_type("../tokens?x").path == "/types/..%2Ftokens%3Fx"
