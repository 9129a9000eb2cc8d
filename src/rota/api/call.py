"""One request as a handler sees it, and what a handler answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from rota.domain.access import Actor, Principal
from rota.services.services import Services

Receive = Callable[[], Awaitable[dict[str, Any]]]
Header = tuple[bytes, bytes]

JSON: Final = b"application/json"
HTML: Final = b"text/html; charset=utf-8"
METRICS: Final = b"text/plain; version=0.0.4; charset=utf-8"


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A status and what is sent with it: bytes as they are, any other value as JSON, None as nothing."""

    status: int
    value: object = None
    headers: tuple[Header, ...] = ()
    media: bytes = JSON


class Call(msgspec.Struct, gc=False):
    """Who asks, for what, and what the answer can be made with."""

    services: Services
    principal: Principal
    """Whoever the token belongs to; nobody's on open routes."""
    headers: Mapping[bytes, bytes]
    query: Any
    """The route's query struct; None where it takes no parameters."""
    name: str
    """The path's variable segment, such as a type's name."""
    request_id: str
    address: str
    receive: Receive

    @property
    def id(self) -> int:
        """The path's segment as the id of a job; the route table lets only 1 to 18 digits through."""
        return int(self.name)

    @property
    def actor(self) -> Actor:
        """Who asks, for the record that administrative verbs leave."""
        return Actor(
            self.principal.kind, self.principal.id, self.address, self.request_id, self.principal.name
        )

    async def disconnected(self) -> None:
        """Returns when the client has gone away."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


Handler = Callable[[Call, Any], Awaitable[Answer]]
"""Gets the call and its decoded body (None where the route takes none)."""
