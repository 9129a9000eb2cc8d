"""What reaches the terminal. Everything goes through here, so that nothing a server says can act on it.

Text is shown with its control, direction and invisible characters as escapes (``\\x1b``, ``\\u202e``),
and rich never reads it as markup. Results go to stdout; errors, hints and explanations to stderr.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Final, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rota.clock import SystemClock

WIDE = 100_000
"""Columns when no terminal is there: what a program reads is not folded to anybody's width."""

STATUS_STYLES = {
    "completed": "green",
    "failed": "bold red",
    "running": "cyan",
    "cancelled": "yellow",
    "paused": "yellow",
}
NUMBERS: Final = frozenset({"ID", "RETRIES"})
UNBROKEN: Final = frozenset({"ID", "KEY ID", "TYPE", "STATUS", "STATE", "RETRIES", "CREATED"})
"""Columns that are never folded, as long as the terminal has room for them."""
_UNSEEN_IN_JSON = re.compile(r"[^\x20-\x7e\n\r\t]")


def visible(text: str) -> str:
    """The text on one line, with every character that does not show itself written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode("ascii")
        for one in text
    )


@cache
def stdout() -> Console:
    return _console(stderr=False)


@cache
def stderr() -> Console:
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDE
    return console


def say(text: str, style: str = "") -> None:
    """One line of the result."""
    stdout().print(Text(visible(text), style), soft_wrap=True)


def hint(text: str) -> None:
    """What to know or do next; beside the result, never part of it."""
    stderr().print(Text(visible(text), "dim"), soft_wrap=True)


def error(detail: str, step: str | None = None) -> None:
    """What went wrong and what to do about it."""
    stderr().print(Text.assemble(("error: ", "bold red"), visible(detail)), soft_wrap=True)
    if step is not None:
        stderr().print(Text(visible(step)), soft_wrap=True)


def document(body: bytes) -> None:
    """The API's JSON as it came. On a terminal, characters that could act on it are written as ``\\u…``."""
    parts((body.rstrip(), b"\n"))


def parts(document: Iterable[bytes]) -> None:
    """A JSON document too large for the memory, in parts that do not break a character."""
    on_terminal = sys.stdout.isatty()
    for part in document:
        text = part.decode("utf-8", "backslashreplace")
        sys.stdout.buffer.write(
            (_UNSEEN_IN_JSON.sub(_escaped, text) if on_terminal else text).encode("utf-8")
        )
    sys.stdout.buffer.flush()


def _escaped(found: re.Match[str]) -> str:
    one = found.group()
    if one.isprintable():
        return one
    units = one.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], spare: Sequence[str] = ()) -> None:
    """Rows under headings; a column of that name is coloured by status, one of numbers is set right.

    What one would copy is never broken. On a narrow terminal ``spare`` columns are left out, first to last.
    """
    lines = [[visible(text) for text in row] for row in rows]
    widths = {
        column: max(len(column), *(len(line[at]) for line in lines)) for at, column in enumerate(columns)
    }
    for column in spare:
        if sum(widths.values()) + 3 * len(widths) > stdout().width:
            del widths[column]
    shown = Table(box=box.SIMPLE_HEAD if stdout().is_terminal else None, pad_edge=False, header_style="bold")
    for column in widths:
        justify: Literal["left", "right"] = "right" if column in NUMBERS else "left"
        shown.add_column(column, justify=justify, overflow="fold", no_wrap=column in UNBROKEN)
    for line in lines:
        shown.add_row(
            *(cell(text, column) for column, text in zip(columns, line, strict=True) if column in widths)
        )
    _show(shown)


def _show(shown: Table) -> None:
    console = stdout()
    with console.capture() as captured:
        console.print(shown)
    # rich fills each line up to the column's width; a program or a copy wants none of that.
    console.out("\n".join(line.rstrip() for line in captured.get().splitlines()), highlight=False)


def cell(text: str, column: str = "") -> Text:
    style = STATUS_STYLES.get(text, "") if column == "STATUS" else ""
    return Text(visible(text), style)


def fields(pairs: Iterable[tuple[str, str | None]]) -> None:
    """Names and values below each other; a value of None is left out."""
    shown = Table.grid(padding=(0, 2))
    shown.add_column(style="dim", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, text in pairs:
        if text is not None:
            shown.add_row(Text(visible(name)), cell(text, name.upper()))
    _show(shown)


def is_ahead(at: datetime) -> bool:
    return at.timestamp() * 1000 > SystemClock().now()


def ago(at: datetime | None) -> str:
    """How long ago, or how soon, in its largest unit: ``5m ago``, ``in 2h``."""
    if at is None:
        return "–"
    seconds = SystemClock().now() / 1000 - at.timestamp()
    size = abs(seconds)
    if size < 1:
        return "now"
    number, unit = next(
        (size / length, unit)
        for length, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
        if size >= 0.99 * length  # 59.9 minutes are an hour, not 60 minutes
    )
    return f"{number:.0f}{unit} ago" if seconds > 0 else f"in {number:.0f}{unit}"


def moment(at: datetime | None) -> str | None:
    """An instant in full, with how long ago it was."""
    return None if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC ({ago(at)})"
