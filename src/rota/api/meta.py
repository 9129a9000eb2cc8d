"""Pages about the API itself: plain HTML that loads nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Final

from rota.api.call import HTML, JSON, Answer, Call, Handler
from rota.api.route import Route
from rota.errors import BY_CODE, NotFound, RotaError, StartError

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1b1f24;background:#fff}code{font-family:ui-monospace,monospace;font-size:.95em}"
    "h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.4rem .8rem .4rem 0;border-bottom:1px solid #d8dee4}"
    "a{color:#0b57d0}summary{cursor:pointer;padding:.4rem 0}summary span{color:#57606a}"
    "details{border-bottom:1px solid #d8dee4}details[open]{padding-bottom:1rem}p{margin:.4rem 0}"
    "@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}"
    "td,th,details{border-color:#30363d}a{color:#8ab4f8}summary span{color:#9198a1}}"
)
_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; frame-ancestors 'none'".encode()
)
"""The content security policy of these pages: their own style, nothing else."""

_ADVICE: Final = {
    "validation-failed": "Look at errors: each entry names a field and what is wrong with it.",
    "not-available-yet": "Leave the field out: its part is not built yet.",
    "malformed": "The request is not valid HTTP or JSON. Send it again in the right form.",
    "unauthenticated": "Send a valid token in the header Authorization: Bearer rota_…",
    "forbidden": "The token lacks a scope, range or priority. Ask for one that has it.",
    "not-found": "What you ask for does not exist, or the token may not see it.",
    "method-not-allowed": "The header Allow lists the methods of this path.",
    "conflict": "The present state does not allow this. Read it again, then decide.",
    "job-not-held": "The lease was lost or the job has ended. Drop the work and claim again.",
    "job-ended": "There is nothing left to cancel. A failed or cancelled job can be replayed.",
    "job-running": "Cancel it first, or wait until it has ended; then try again.",
    "not-replayable": "Replay takes failed and cancelled jobs. For another run of this one, enqueue it anew.",
    "name-taken": "Choose another name: names of tokens are never used again.",
    "too-large": "Send less: bodies hold up to 1 MiB, batches up to 32 MiB.",
    "unsupported-media-type": "Send Content-Type: application/json and no Content-Encoding.",
    "rate-limited": "Wait as long as the header Retry-After says, then go on more slowly.",
    "unavailable": "Wait as long as the header Retry-After says, then try again. Nothing was stored.",
    "request-timeout": "Send the request again, over a better connection if this happens often.",
    "headers-too-large": "Send less in the headers: up to 32 KiB and 100 of them.",
    "internal": "This is a fault of the server. Report the request_id; its log has more.",
}
PROBLEMS: Final = {code: kind for code, kind in BY_CODE.items() if kind is not StartError}
"""Every error that is sent over HTTP, by its code."""


async def home(_: Call, __: None) -> Answer:
    return Answer(302, None, ((b"location", b"/docs"),))


async def problem_page(call: Call, _: None) -> Answer:
    kind = PROBLEMS.get(call.name)
    if kind is None:
        raise NotFound("there is no such problem; /docs lists all")
    body = (
        f"<p>Status <code>{kind.status}</code>, code <code>{escape(kind.code)}</code></p>"
        f"<p>{escape(advice(kind))}</p><p><a href='/docs'>All calls and problems</a></p>"
    )
    return Answer(200, page(kind.title, body), media=HTML)


def advice(kind: type[RotaError]) -> str:
    """What to do about an error, in a sentence or two."""
    codes = [getattr(base, "code", "") for base in kind.__mro__]
    return next(_ADVICE[code] for code in codes if code in _ADVICE)


def needs_in_words(route: Route) -> str:
    """The scopes of a route, such as ``jobs:read and detail:read``."""
    if route.public:
        return "no token"
    return " or ".join(" and ".join(sorted(scopes, reverse=True)) for scopes in route.needs)


def static(body: bytes, media: bytes = JSON) -> Handler:
    """A handler that always answers the same."""
    answer = Answer(200, body, media=media)

    async def handler(_: Call, __: None) -> Answer:
        return answer

    return handler


def page(title: str, body: str) -> bytes:
    """A whole page with the body, in the style that ``PAGE_POLICY`` lets through."""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style>"
        f"<h1>{escape(title)}</h1>{body}</html>"
    ).encode()
