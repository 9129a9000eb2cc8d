"""The trace that a job belongs to, as W3C Trace Context writes it in the header ``traceparent``."""

from __future__ import annotations

import re
from typing import NamedTuple

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


class SpanPlace(NamedTuple):
    """Where a span stands: its trace, itself, and whether it is recorded (bit 0 of ``flags``)."""

    trace_id: int
    span_id: int
    flags: int

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"


def parse_traceparent(text: str) -> SpanPlace | None:
    """The span that a ``traceparent`` names; None for anything that is not one."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    return SpanPlace(trace_id, span_id, flags)


def kept_traceparent(header: bytes | None) -> str | None:
    """The header as it is kept with a job. One that is not valid is dropped, as the standard asks."""
    if header is None:
        return None
    text = header.decode("latin-1")
    return text if _TRACEPARENT.fullmatch(text) else None
