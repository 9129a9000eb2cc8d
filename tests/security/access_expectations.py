"""Who may do what with which job, type or token, and which fields are shown: written by hand, from the rules.

``test_access_table.py`` plays every cell against a live server; ``docs/access.py`` makes a page of it.
"""

from __future__ import annotations

from typing import Final

PRESETS: Final = ("producer", "worker", "observer", "operator", "integrator", "admin")

RELATIONS: Final = {
    "own": "its own: a producer has enqueued the job, a worker holds it",
    "foreign": "within the token's range, but somebody else's",
    "in": "something new within the token's range",
    "out": "outside the range of types or queues of a token that has one",
    "less": "a token with no more rights than one's own",
    "more": "a token with rights, a range, a priority, a rate limit or an end beyond one's own",
    "any": "whatever there is",
}

# A number is the status of the answer, in batches that of the item; `hidden` means that a list leaves it out;
# `-` that there is no such thing.
TABLE: Final = """
POST /jobs                     in       201     403     403      403      403        201
POST /jobs                     out      403     403     403      403      403        403
GET /jobs                      own      200     200     -        -        403        200
GET /jobs                      foreign  hidden  hidden  200      200      403        200
GET /jobs                      out      hidden  hidden  hidden   hidden   403        hidden
GET /jobs/{id}                 own      200     200     -        -        403        200
GET /jobs/{id}                 foreign  404     404     200      200      403        200
GET /jobs/{id}                 out      404     404     404      404      403        404
GET /jobs/{id}/attempts        own      403     403     -        -        403        200
GET /jobs/{id}/attempts        foreign  403     403     403      200      403        200
GET /jobs/{id}/attempts        out      403     403     403      404      403        404
GET /jobs/{id}/logs            own      403     403     -        -        403        200
GET /jobs/{id}/logs            foreign  403     403     403      200      403        200
GET /jobs/{id}/logs            out      403     403     403      404      403        404
POST /jobs/claim               in       403     200     403      403      403        200
POST /jobs/claim               out      403     403     403      403      403        403
POST /jobs/{id}/complete       own      403     200     -        -        403        200
POST /jobs/{id}/complete       foreign  403     409     403      403      403        409
POST /jobs/{id}/complete       out      403     409     403      403      403        409
POST /jobs/{id}/fail           own      403     200     -        -        403        200
POST /jobs/{id}/fail           foreign  403     409     403      403      403        409
POST /jobs/{id}/fail           out      403     409     403      403      403        409
POST /jobs/{id}/heartbeat      own      403     200     -        -        403        200
POST /jobs/{id}/heartbeat      foreign  403     409     403      403      403        409
POST /jobs/{id}/heartbeat      out      403     409     403      403      403        409
POST /jobs/{id}/release        own      403     200     -        -        403        200
POST /jobs/{id}/release        foreign  403     409     403      403      403        409
POST /jobs/{id}/release        out      403     409     403      403      403        409
POST /jobs/{id}/cancel         own      403     403     -        -        403        200
POST /jobs/{id}/cancel         foreign  403     403     403      200      403        200
POST /jobs/{id}/cancel         out      403     403     403      404      403        404
POST /jobs/{id}/replay         own      403     403     -        -        403        200
POST /jobs/{id}/replay         foreign  403     403     403      200      403        200
POST /jobs/{id}/replay         out      403     403     403      404      403        404
POST /jobs/batch               in       201     403     403      403      403        201
POST /jobs/batch               out      403     403     403      403      403        403
POST /jobs/batch/claim         in       403     200     403      403      403        200
POST /jobs/batch/claim         out      403     403     403      403      403        403
POST /jobs/batch/finish        own      403     200     -        -        403        200
POST /jobs/batch/finish        foreign  403     409     403      403      403        409
POST /jobs/batch/finish        out      403     409     403      403      403        409
POST /jobs/batch/heartbeat     own      403     200     -        -        403        200
POST /jobs/batch/heartbeat     foreign  403     409     403      403      403        409
POST /jobs/batch/heartbeat     out      403     409     403      403      403        409
PATCH /jobs/{id}               own      403     403     -        -        403        200
PATCH /jobs/{id}               foreign  403     403     403      200      403        200
PATCH /jobs/{id}               out      403     403     403      404      403        404
DELETE /jobs/{id}              own      403     403     -        -        403        204
DELETE /jobs/{id}              foreign  403     403     403      204      403        204
DELETE /jobs/{id}              out      403     403     403      404      403        404
POST /jobs/actions             own      403     403     -        -        403        200
POST /jobs/actions             foreign  403     403     403      200      403        200
POST /jobs/actions             out      403     403     403      hidden   403        hidden
GET /queues                    foreign  403     403     200      200      403        200
GET /queues                    out      403     403     hidden   hidden   403        hidden
PUT /queues/{name}             any      403     403     403      201      403        201
POST /queues/{name}/pause      any      403     403     403      200      403        200
POST /queues/{name}/resume     any      403     403     403      200      403        200
GET /types                     foreign  200     200     200      200      403        200
GET /types                     out      hidden  hidden  hidden   hidden   403        hidden
GET /types/{name}              foreign  200     200     200      200      403        200
GET /types/{name}              out      404     404     404      404      403        404
PUT /types/{name}              in       403     403     403      403      403        201
PUT /types/{name}              foreign  403     403     403      403      403        200
PUT /types/{name}              out      403     403     403      403      403        403
DELETE /types/{name}           foreign  403     403     403      403      403        204
DELETE /types/{name}           out      403     403     403      403      403        404
POST /types/{name}/pause       foreign  403     403     403      200      403        200
POST /types/{name}/pause       out      403     403     403      404      403        404
POST /types/{name}/resume      foreign  403     403     403      200      403        200
POST /types/{name}/resume      out      403     403     403      404      403        404
PUT /workers/{instance}        in       403     200     403      403      403        200
PUT /workers/{instance}        out      403     403     403      403      403        403
PUT /workers/{instance}        foreign  403     409     403      403      403        409
GET /workers                   foreign  403     403     200      200      403        200
GET /workers                   out      403     403     hidden   hidden   403        hidden
POST /workers/{id}/drain       foreign  403     403     403      200      403        200
POST /workers/{id}/drain       out      403     403     403      404      403        404
GET /handlers                  foreign  403     403     200      200      403        200
GET /handlers                  out      403     403     hidden   hidden   403        hidden
POST /tokens                   less     403     403     403      403      403        201
POST /tokens                   more     403     403     403      403      403        403
GET /tokens                    less     403     403     403      403      403        200
GET /tokens                    out      403     403     403      403      403        hidden
POST /tokens/{key_id}/rotate   less     403     403     403      403      403        200
POST /tokens/{key_id}/rotate   out      403     403     403      403      403        404
POST /tokens/{key_id}/revoke   less     403     403     403      403      403        200
POST /tokens/{key_id}/revoke   out      403     403     403      403      403        404
POST /tokens/{key_id}/resume   less     403     403     403      403      403        200
POST /tokens/{key_id}/resume   out      403     403     403      403      403        404
GET /audit                     any      403     403     403      403      403        200
GET /audit                     out      403     403     403      403      403        403
GET /health/live               any      200     200     200      200      200        200
GET /health/ready              any      200     200     200      200      200        200
GET /metrics                   any      403     403     200      200      403        200
GET /problems/{code}           any      200     200     200      200      200        200
GET /                          any      302     302     302      302      302        302
"""

FIELDS: Final = ("payload", "result", "error", "progress message", "idempotency_key")
_ALL: Final = frozenset(FIELDS)
VISIBLE: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("producer", "own"): frozenset({"payload", "result", "progress message", "idempotency_key"}),
    ("worker", "own"): frozenset({"payload", "result", "progress message"}),
    ("observer", "foreign"): frozenset(),
    ("operator", "foreign"): frozenset({"payload", "result", "error", "progress message"}),
    ("admin", "own"): _ALL,
    ("admin", "foreign"): _ALL,
}
"""Which of the guarded fields of a job are shown; in every other case the job itself is not."""


def expected() -> dict[tuple[str, str], dict[str, str]]:
    """(call, relation) to the outcome for each preset."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for line in TABLE.strip().splitlines():
        method, path, relation, *cells = line.split()
        assert relation in RELATIONS, line
        assert (f"{method} {path}", relation) not in found, line
        found[f"{method} {path}", relation] = dict(zip(PRESETS, cells, strict=True))
    return found
