"""One tree of errors.

Every error has a stable ``code`` (the last part of its problem type, ``/problems/<code>``), a
``title`` and the HTTP ``status`` it is answered with. ``detail`` tells the reader what to do next
and never holds a secret, SQL or a path.

    RotaError
    ├── ValidationFailed 422        ── NotAvailableYet 422
    ├── Malformed 400
    ├── Unauthenticated 401
    ├── Forbidden 403
    ├── NotFound 404
    ├── MethodNotAllowed 405
    ├── RequestTimeout 408
    ├── Conflict 409                ── JobNotHeld, JobEnded, JobRunning, NotReplayable, NameTaken
    ├── TooLarge 413
    ├── UnsupportedMediaType 415
    ├── RateLimited 429
    ├── HeadersTooLarge 431
    ├── InternalError 500
    ├── Unavailable 503
    └── StartError                  a process that refuses to start, never sent over HTTP
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple


class FieldError(NamedTuple):
    """One fault in the input: where it is, a short code and a sentence."""

    field: str
    code: str
    message: str


class RotaError(Exception):
    """The root of every error that Rota raises on purpose."""

    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Something went wrong"
    status: ClassVar[int] = 500

    def __init__(
        self,
        detail: str = "",
        *,
        errors: Sequence[FieldError] = (),
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.errors = tuple(errors)
        self.retry_after = retry_after
        self.headers = dict(headers or {})


class ValidationFailed(RotaError):
    code = "validation-failed"
    title = "The request holds a value that is not allowed"
    status = 422

    @classmethod
    def of(cls, field: str, code: str, message: str) -> ValidationFailed:
        """An error about exactly one field."""
        return cls(f"{field}: {message}", errors=[FieldError(field, code, message)])


class NotAvailableYet(ValidationFailed):
    code = "not-available-yet"
    title = "This is not available yet"


class Malformed(RotaError):
    code = "malformed"
    title = "The request cannot be read"
    status = 400


class Unauthenticated(RotaError):
    code = "unauthenticated"
    title = "A valid token is needed"
    status = 401


class Forbidden(RotaError):
    code = "forbidden"
    title = "The token does not allow this"
    status = 403


class NotFound(RotaError):
    code = "not-found"
    title = "There is nothing here"
    status = 404


class MethodNotAllowed(RotaError):
    code = "method-not-allowed"
    title = "This path does not know the method"
    status = 405


class RequestTimeout(RotaError):
    code = "request-timeout"
    title = "The request took too long to arrive"
    status = 408


class Conflict(RotaError):
    code = "conflict"
    title = "The request does not fit the present state"
    status = 409


class JobNotHeld(Conflict):
    code = "job-not-held"
    title = "The job is not held under this lease token"


class JobEnded(Conflict):
    code = "job-ended"
    title = "The job has already ended"


class JobRunning(Conflict):
    code = "job-running"
    title = "The job is running"


class NotReplayable(Conflict):
    code = "not-replayable"
    title = "Only failed and cancelled jobs can be replayed"


class NameTaken(Conflict):
    code = "name-taken"
    title = "The name is already in use"


class TooLarge(RotaError):
    code = "too-large"
    title = "The request body is too large"
    status = 413


class UnsupportedMediaType(RotaError):
    code = "unsupported-media-type"
    title = "The body must be application/json without a content encoding"
    status = 415


class RateLimited(RotaError):
    code = "rate-limited"
    title = "Too many requests"
    status = 429


class HeadersTooLarge(RotaError):
    code = "headers-too-large"
    title = "The request's headers are too large"
    status = 431


class InternalError(RotaError):
    code = "internal"
    title = "The server failed to answer"
    status = 500


class Unavailable(RotaError):
    code = "unavailable"
    title = "The server cannot take this now"
    status = 503


class StartError(RotaError):
    """A process refuses to start or to open its data; ``detail`` says what to do about it."""

    code = "start-refused"
    title = "Rota cannot start"


def _leaves(root: type[RotaError]) -> dict[str, type[RotaError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found.update(_leaves(child))
    return found


BY_CODE: Mapping[str, type[RotaError]] = _leaves(RotaError)
"""Every error class by its code; the client raises by it what the server answered."""

BY_STATUS: Mapping[int, type[RotaError]] = {
    kind.status: kind for kind in RotaError.__subclasses__() if kind is not StartError
}
"""The general error of each HTTP status, for answers that name no code."""
