from __future__ import annotations

import json

import pytest

from rota import problems
from rota.errors import Conflict, ValidationFailed


def test_problem_says_what_where_and_under_which_id() -> None:
    assert json.loads(problems.problem_body(Conflict("Read it again."), "id-1")) == {
        "type": "/problems/conflict",
        "title": Conflict.title,
        "status": 409,
        "detail": "Read it again.",
        "request_id": "id-1",
    }


def test_problem_of_a_field_names_it() -> None:
    body = problems.problem_body(ValidationFailed.of("priority", "unknown", "is no priority"), "id-1")
    faults = [{"field": "priority", "code": "unknown", "message": "is no priority"}]
    assert json.loads(body)["errors"] == faults


def test_request_ids_are_unique_and_of_sixteen_characters() -> None:
    ids = {problems.new_request_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(one) for one in ids} == {16}


@pytest.mark.parametrize("value", [b"", b"a" * 65, b"a b", b"a\n", b"\xff", b"<script>"])
def test_unsafe_request_id_is_not_taken(value: bytes) -> None:
    assert problems.accept_request_id(value) is None


def test_safe_request_id_is_taken() -> None:
    assert problems.accept_request_id(b"A.b_c-9") == "A.b_c-9"
