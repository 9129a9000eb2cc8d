"""Takes stack traces out of a text and keeps the lines that name the exception.

Knows Python, Java, Kotlin, .NET, Node, Ruby, PHP, Go and Rust. A trace whose newlines are escaped
(inside JSON or a repr) is found as well.
"""

from __future__ import annotations

import re

STACK_TRACE = "[stack trace]"

_PYTHON_HEAD = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):[ \t]*$")
_PYTHON_FRAME = re.compile(r'[ \t|+]{0,40}File \\*"[^"\n]{0,1000}", line \d{1,9}')
_INDENT = re.compile(r"[ \t|+]{0,40}")
_GO_HEAD = re.compile(r"goroutine \d{1,12} (?:gp=\S{1,20} m=\S{1,20}(?: mp=\S{1,20})? )?\[[^\]\n]{0,80}\]:")
_GO_FRAME = re.compile(r"\t|\\t|created by |\S.*\)$")
_RUST_HEAD = re.compile(r"stack backtrace:$")
_FRAME = re.compile(
    r"[ \t]{1,80}at (?!\d)[^\n]*(?:\)|:\d{1,9}|line \d{1,9})$"  # Java, .NET, Node
    r"|(?:\\t)+at (?!\d)[^\n]*\)$"  # Java, escaped
    r"|[ \t]{1,80}\.\.\. \d{1,6} (?:more|common frames omitted)$"
    r"|[ \t]{1,80}from [^\n]{1,1000}:\d{1,9}:in "  # Ruby
    r"|#\d{1,4} (?:\{main\}|\S{1,1000}\(\d{1,9}\): |\[internal function\])"  # PHP
)


_TRIGGERS = ("Traceback (", "File ", "goroutine ", "stack backtrace:", "at ", "... ", "from ", "#")
"""Every frame and every head holds one of these."""
_FIRST = frozenset(" \t|+FgsE#\\")
"""What a line begins with that starts a trace, unless it holds the head of a Python trace."""


def without_stack_traces(text: str) -> str:
    """``text`` with each run of frames replaced by one mark; linear in the length of the text."""
    if not any(trigger in text for trigger in _TRIGGERS):
        return text
    lines = text.split("\n")
    if any("\\n" in line for line in lines):
        lines = ["\\n".join(_without_frames(line.split("\\n"))) for line in lines]
    return "\n".join(_without_frames(lines))


def _without_frames(lines: list[str]) -> list[str]:
    if not any(map(_may_start, lines)) or (len(lines) == 1 and not _starts_trace(lines[0])):
        return lines
    kept: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        end = _end_of_frames(lines, at) if _may_start(line) else at
        if end == at:
            kept.append(line)
            at += 1
            continue
        head = _PYTHON_HEAD.search(line)
        before = line[: head.start()] if head else ""
        if before.strip(" \t|+"):
            kept.append(before + STACK_TRACE)
        elif not kept or kept[-1] != STACK_TRACE:
            kept.append(STACK_TRACE)
        at = end
    return kept


def _may_start(line: str) -> bool:
    return line[:1] in _FIRST or "Traceback (" in line


def _starts_trace(line: str) -> bool:
    return bool(_PYTHON_HEAD.search(line) or _PYTHON_FRAME.match(line) or _FRAME.match(line))


def _end_of_frames(lines: list[str], start: int) -> int:
    """Where the frames that begin at ``start`` end; ``start`` itself when none begin there."""
    line, end = lines[start], start + 1
    if head := _PYTHON_HEAD.search(line):
        before = line[: head.start()]
        depth = _depth(before) if not before.strip(" \t|+") else 0
        while end < len(lines) and lines[end].strip() and _depth(lines[end]) >= depth + 2:
            end += 1
    elif _PYTHON_FRAME.match(line):
        while end < len(lines) and lines[end].strip() and _depth(lines[end]) > _depth(line):
            end += 1
    elif _GO_HEAD.match(line):
        while end < len(lines) and _GO_FRAME.match(lines[end]):
            end += 1
    elif _RUST_HEAD.match(line):
        while end < len(lines) and lines[end].startswith(" "):
            end += 1
    elif _FRAME.match(line):
        while end < len(lines) and _FRAME.match(lines[end]):
            end += 1
    else:
        return start
    return end


def _depth(line: str) -> int:
    indent = _INDENT.match(line)
    return indent.end() if indent else 0
