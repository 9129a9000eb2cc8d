"""How a command ends badly: its exit code, and what to do next."""

from __future__ import annotations

from typing import Final

from rota.errors import Forbidden, RotaError, Unauthenticated, Unavailable

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = 130
"""Ended by Ctrl-C, as shells count it."""


class Misuse(RotaError):
    """The command line itself is wrong; nothing was sent."""

    code = "misuse"
    title = "The command was not understood"


class NextStep(RotaError):
    """A failure that knows better than its kind what to do about it."""

    def __init__(self, cause: RotaError, step: str) -> None:
        super().__init__(cause.detail)
        self.cause = cause
        self.step = step


def code_of(failure: RotaError) -> int:
    cause = failure.cause if isinstance(failure, NextStep) else failure
    return MISUSED if isinstance(cause, Misuse) else FAILED


def next_step(failure: RotaError) -> str | None:
    """What to do about a failure, where its detail cannot know it."""
    match failure:
        case NextStep():
            return failure.step
        case Unauthenticated():
            return "Set ROTA_TOKEN to a valid token, or name a file that holds one with --token-file."
        case Forbidden():
            return "Use a token with more rights; who holds them makes one with `rota tokens create`."
        case Unavailable(retry_after=None):
            return "`rota serve` starts a server on this machine."
        case _:
            return None
