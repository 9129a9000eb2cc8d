"""A reader that tells how often tokens were read, and can lose its database."""

from __future__ import annotations

from rota.errors import Unavailable
from rota.store.base import TokenRecord
from rota.store.sqlite.reading import SqliteReader
from rota.store.sqlite.store import SqliteStore


class TokenReader(SqliteReader):
    """The store's own reader otherwise."""

    def __init__(self, store: SqliteStore) -> None:
        self.__dict__ = dict(store.reader.__dict__)
        self.single = 0
        self.all = 0
        self.lost = False

    async def token(self, key_id: str) -> TokenRecord | None:
        self.single += 1
        if self.lost:
            raise Unavailable("out of reach")
        return await super().token(key_id)

    async def tokens(self) -> list[TokenRecord]:
        self.all += 1
        if self.lost:
            raise Unavailable("out of reach")
        return await super().tokens()
