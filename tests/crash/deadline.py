"""Waiting for what announces itself to nobody, for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

LOOK_SECONDS = 0.1


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Look again and again until ``condition`` holds; TimeoutError after ``seconds``."""
    async with asyncio.timeout(seconds):
        while True:
            if await condition():
                return
            await asyncio.sleep(LOOK_SECONDS)
