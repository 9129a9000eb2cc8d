"""Counts the claims that wait for work over HTTP, and lets them all go when the server stops."""

from __future__ import annotations

import asyncio
from typing import Final

MAX_PER_TOKEN: Final = 512
MAX_PER_NODE: Final = 4_000


class Waiting:
    """Who waits. A claim that is not admitted looks once and is answered at once."""

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}
        self._all = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when waiting is over for everybody: the server is stopping."""

    @property
    def number(self) -> int:
        """How many wait now."""
        return self._all

    def enter(self, token_id: str) -> bool:
        """Whether the token's claim may wait; if so :meth:`leave` must follow."""
        waiting = self._tokens.get(token_id, 0)
        if self.over.done() or waiting >= MAX_PER_TOKEN or self._all >= MAX_PER_NODE:
            return False
        self._tokens[token_id] = waiting + 1
        self._all += 1
        return True

    def leave(self, token_id: str) -> None:
        """The claim waits no longer."""
        self._all -= 1
        if self._tokens[token_id] == 1:
            del self._tokens[token_id]
        else:
            self._tokens[token_id] -= 1

    def end(self) -> None:
        """Let every waiting claim go, and admit no other."""
        if not self.over.done():
            self.over.set_result(None)
