"""The client's rules without any I/O: where to send, what an answer means, when to send again.

A transport sends a :class:`Call`, hands the :class:`Answer` to :func:`read`, and asks
:class:`Repeats` what to do after a failure. Repeats are safe: an enqueue carries its ``request_uid``,
a claim its ``claim_id``, finishing and heartbeats are repeatable by contract; a call that is not is sent
again only when it was certainly not done.
"""

from __future__ import annotations

import enum
import ipaddress
import os
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from rota.errors import (
    BY_CODE,
    BY_STATUS,
    FieldError,
    InternalError,
    RotaError,
    Unauthenticated,
    Unavailable,
    ValidationFailed,
)
from rota.wire import Problem

T = TypeVar("T")

DEFAULT_URL: Final = "http://127.0.0.1:8520"
MOST_TRIES: Final = 8
FIRST_DELAY_SECONDS: Final = 0.1
LONGEST_DELAY_SECONDS: Final = 5.0
LONGEST_RETRY_AFTER_SECONDS: Final = 60.0
"""A server that asks to wait for longer gets no repeat; the error tells the caller how long."""

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_PROBLEMS: Final = "/problems/"
_BY_STATUS: Final[Mapping[int, type[RotaError]]] = {**BY_STATUS, 502: Unavailable, 504: Unavailable}


class Answer(NamedTuple):
    """What came back. ``headers`` must find names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Trouble(enum.Enum):
    """No answer came."""

    NOT_SENT = "the server cannot be reached"
    BROKEN = "the connection broke before the answer came"
    SILENT = "the answer did not come in time"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and how its answer is read."""

    method: str
    path: str
    read: Callable[[Answer], T]
    body: bytes | None = None
    again: bytes | None = None
    """The body of a repeat where it differs: a claim then asks for what it holds already."""
    repeatable: bool = True
    """Whether doing it twice is the same as doing it once."""
    wait_seconds: float = 0.0
    """How much longer than usual the answer may take: a long poll."""
    traceparent: str | None = None
    """The span that the jobs of an enqueue belong to."""


def read(call: Call[T], outcome: Answer | Trouble, where: str = "") -> T:
    """The value of a successful answer. Raises the RotaError that was answered, or Unavailable for none.

    ``where`` is what the call was sent to, for that message.
    """
    if isinstance(outcome, Trouble):
        raise Unavailable(f"{where}: {outcome.value}. Check ROTA_URL and that the server is running.")
    if 200 <= outcome.status < 300:
        try:
            return call.read(outcome)
        except (msgspec.DecodeError, RecursionError) as fault:
            raise InternalError(
                "The answer cannot be read. Check that the address is a Rota server's and that client and "
                f"server are of the same release: {fault}"
            ) from None
    raise error_of(outcome)


def error_of(answer: Answer) -> RotaError:
    """The error that an unsuccessful answer stands for, by its problem's code, else by its status."""
    if 300 <= answer.status < 400:
        return RotaError(
            "The server answered with a redirect, which is never followed. Set the URL to its final address."
        )
    try:
        return error_of_problem(answer.body, retry_after=retry_after(answer))
    except msgspec.DecodeError:
        kind = _BY_STATUS.get(answer.status, RotaError)
        return kind(
            f"The server answered {answer.status} without saying why.", retry_after=retry_after(answer)
        )


def error_of_problem(body: bytes | msgspec.Raw, *, retry_after: float | None = None) -> RotaError:
    """The error of a problem document. Raises DecodeError for anything else."""
    problem = msgspec.json.decode(body, type=Problem)
    code = problem.type.removeprefix(_PROBLEMS) if problem.type.startswith(_PROBLEMS) else ""
    kind = BY_CODE.get(code) or _BY_STATUS.get(problem.status, RotaError)
    return kind(
        problem.detail or problem.title,
        errors=[
            FieldError(one.get("field", ""), one.get("code", ""), one.get("message", ""))
            for one in problem.errors
        ],
        retry_after=retry_after,
        headers={"X-Request-Id": problem.request_id} if problem.request_id else None,
    )


def retry_after(answer: Answer) -> float | None:
    """The seconds of a ``Retry-After`` header; None without one."""
    try:
        seconds = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def backoff(n: int, dice: float) -> float:
    """Seconds before the (n+1)-th repeat: doubling from 0.1 to 5, the upper half of it by chance."""
    ceiling = min(FIRST_DELAY_SECONDS * 2.0 ** min(n, 16), LONGEST_DELAY_SECONDS)
    return ceiling * (0.5 + dice / 2)


class Repeats:
    """Decides, outcome by outcome, whether one call is sent again and after how long."""

    def __init__(
        self, call: Call[Any], tries: int = MOST_TRIES, dice: Callable[[], float] = random.random
    ) -> None:
        self._call = call
        self._tries = tries
        self._dice = dice
        self._failures = 0

    def delay(self, outcome: Answer | Trouble) -> float | None:
        """Seconds to wait before the call is sent again; None when it is good, final or was often enough."""
        if not self._safe(outcome):
            return None
        self._failures += 1
        if self._failures >= self._tries:
            return None
        seconds = backoff(self._failures - 1, self._dice())
        asked = retry_after(outcome) if isinstance(outcome, Answer) else None
        if asked is None:
            return seconds
        return None if asked > LONGEST_RETRY_AFTER_SECONDS else max(seconds, asked)

    @property
    def body(self) -> bytes | None:
        """What to send this time."""
        return self._call.again if self._failures and self._call.again else self._call.body

    def _safe(self, failure: Answer | Trouble) -> bool:
        if isinstance(failure, Trouble):
            return failure is Trouble.NOT_SENT or self._call.repeatable
        if failure.status == 429:
            return True
        return failure.status in {502, 503, 504} and self._call.repeatable


def server_url(url: str | None, *, insecure_http: bool = False) -> str:
    """The server's address, checked: ``ROTA_URL`` when none is given, else the one of this machine.

    Raises ValidationFailed when it is no http(s) URL, holds credentials, a query or a fragment, or would
    send the token over plain HTTP to another machine.
    """
    text = (url or os.environ.get("ROTA_URL") or DEFAULT_URL).strip()
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _bad_url("is not a URL such as https://rota.example.com") from None
    if parts.scheme not in {"http", "https"} or not (_HOST.fullmatch(host) or _address(host)):
        raise _bad_url("is not a URL such as https://rota.example.com")
    if "@" in parts.netloc or parts.query or parts.fragment or not parts.path.isprintable():
        raise _bad_url("must hold no credentials, query or fragment; the token is given by itself")
    if parts.scheme == "http" and not insecure_http and not _loopback(host):
        raise _bad_url(
            "would send the token unencrypted to another machine. Use https, or allow it with insecure_http"
        )
    place = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{place}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


def bearer(token: str | None) -> str:
    """The Authorization header's value; ``ROTA_TOKEN`` when no token is given.

    Raises Unauthenticated without a token and ValidationFailed for one that no header can hold.
    """
    text = (token or os.environ.get("ROTA_TOKEN") or "").strip()
    if not text:
        raise Unauthenticated("No token: set ROTA_TOKEN, or make one with 'rota tokens create'.")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ValidationFailed.of("token", "malformed", "is not a token such as rota_…; copy it again")
    return f"Bearer {text}"


def _bad_url(message: str) -> ValidationFailed:
    return ValidationFailed.of("url", "refused", message)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _loopback(host: str) -> bool:
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback
