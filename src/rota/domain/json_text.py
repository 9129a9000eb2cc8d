"""What JSON text may not hold although its syntax allows it: U+0000 and too many levels."""

from __future__ import annotations

import re
from array import array
from itertools import accumulate

from rota.domain.job import MAX_NESTING

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS = bytes.maketrans(b"{[]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(code for code in range(256) if code not in b"{}[]")


def holds_nul(text: bytes) -> bool:
    """Whether a string holds U+0000, which databases and many languages cannot keep."""
    return b"\\u0000" in text and _NUL.search(text) is not None


def nests_too_deep(text: bytes) -> bool:
    """Whether more than ``MAX_NESTING`` brackets outside strings are open at once."""
    if text.count(b"[") + text.count(b"{") <= MAX_NESTING:
        return False
    steps = array("b", _STRING.sub(b"", text).translate(_STEPS, _NO_BRACKETS))
    return max(accumulate(steps), default=0) > MAX_NESTING
