"""Counts failed sign-ins per address, so that nobody may guess without end."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from rota.clock import Clock
from rota.errors import RateLimited

FAILURES_PER_MINUTE: Final = 300
MAX_ADDRESSES: Final = 50_000
"""How many addresses are told apart in a minute; those beyond share one count."""
MINUTE_MS: Final = 60_000


class Failures:
    """Failed attempts of the present minute by address; an IPv6 address counts for its /64."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._minute = 0
        self._counts: dict[str, int] = {}

    def count(self, address: str) -> None:
        """Record one failure. Raises RateLimited from the 301st of a minute on."""
        now = self._clock.now()
        minute = now // MINUTE_MS
        if minute != self._minute:
            self._minute = minute
            self._counts = {}
        place = _place(address)
        if place not in self._counts and len(self._counts) >= MAX_ADDRESSES:
            place = "others"
        failures = self._counts[place] = self._counts.get(place, 0) + 1
        if failures > FAILURES_PER_MINUTE:
            raise RateLimited(
                "too many failed attempts from your address: check the token, then try again",
                retry_after=(MINUTE_MS - now % MINUTE_MS) / 1000,
            )


def _place(address: str) -> str:
    """What shares one count: an IPv4 address or an IPv6 /64; anything else as it is written."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((int(parsed), 64), strict=False))
