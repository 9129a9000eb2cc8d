"""One call of the API: how it is reached, what it needs, takes and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from rota.api.call import Handler
from rota.domain.access import Scope

BODY_BYTES: Final = 1_048_576
BATCH_BODY_BYTES: Final = 32 * 1_048_576
BATCH_ITEMS: Final = 5_000

Needs = tuple[frozenset[Scope], ...]
"""Alternatives: a principal needs all scopes of one of them."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the route table. ``needs`` must name scopes unless the route is ``public``."""

    method: Literal["GET", "PUT", "POST", "PATCH", "DELETE"]
    path: str
    """Literal, or with one variable segment in second place: ``/jobs/{id}/logs``."""
    handler: Handler
    summary: str
    tag: str
    needs: Needs = ()
    public: bool = False
    body: type[msgspec.Struct] | None = None
    texts: bool = False
    """The body holds error, log or progress texts, in which nothing is refused."""
    items: str | None = None
    """The body's list that holds at most ``BATCH_ITEMS`` items."""
    query: type[msgspec.Struct] | None = None
    answers: Mapping[int, type | None]
    """What each status of success brings."""
    max_body: int = BODY_BYTES

    def __post_init__(self) -> None:
        if self.public == bool(self.needs) or frozenset() in self.needs:
            raise ValueError(f"{self.method} {self.path} must name the scopes it needs, or be public")


def one_of(*scopes: Scope) -> Needs:
    """Any one of the scopes is enough."""
    return tuple(frozenset({scope}) for scope in scopes)


def all_of(*scopes: Scope) -> Needs:
    """All of the scopes are needed."""
    return (frozenset(scopes),)
