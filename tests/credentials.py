"""Tokens for tests, put straight into a store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rota.auth.tokens import Pepper, new_token
from rota.domain.access import Actor, Grant, Principal, Scope
from rota.store.base import Store, TokenRecord

PEPPER = Pepper(bytes(range(32)))
ACTOR = Actor("token", "tok_test")


def grant(*scopes: str, **rights: Any) -> Grant:
    """A grant; ranges may be given as any iterable of names."""
    made: dict[str, Any] = {
        name: frozenset(value) if isinstance(value, Iterable) else value for name, value in rights.items()
    }
    return Grant(scopes=frozenset(Scope(each) for each in scopes), **made)


def principal(*scopes: str, **rights: Any) -> Principal:
    return Principal(id="tok_test", name="test", grant=grant(*scopes, **rights))


async def add_token(store: Store, name: str, rights: Grant, **fields: Any) -> tuple[TokenRecord, bytes]:
    """A stored token with the Authorization header that shows it."""
    key_id, token = new_token()
    record = TokenRecord(
        id=f"tok_{name}",
        key_id=key_id,
        name=name,
        hash=PEPPER.hash(token),
        pepper_key_id=PEPPER.key_id,
        grant=rights,
        **fields,
    )
    return await store.add_token(record, ACTOR), f"Bearer {token}".encode()
