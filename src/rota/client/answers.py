"""Reading answers: one body, a page of a list, the entries of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw

from rota.client.protocol import Answer, error_of_problem
from rota.errors import InternalError, RotaError

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T]):
    """One page of a list; ``next_cursor`` is None on the last."""

    items: list[T]
    next_cursor: str | None = None


class _Items(msgspec.Struct, Generic[T]):
    items: list[T] = []


def reader(kind: type[T]) -> Callable[[Answer], T]:
    """Reads a body of this kind; what a newer server adds is passed over."""
    decode = msgspec.json.Decoder(kind).decode
    return lambda answer: decode(answer.body)


def items_reader(kind: type[T]) -> Callable[[Answer], list[T]]:
    """Reads ``{"items": […]}``; no content is an empty list."""
    decode = msgspec.json.Decoder(_Items[kind]).decode  # type: ignore[valid-type]  # a type at run time
    return lambda answer: decode(answer.body).items if answer.body else []


def item_error(status: int, problem: Raw) -> RotaError:
    """The error of one entry of a batch."""
    if not bytes(problem):
        return InternalError(f"The server answered {status} for this entry without saying why.")
    return error_of_problem(problem)
