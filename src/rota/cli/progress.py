"""A bar for long work, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from rota.cli import output


@contextmanager
def bar(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yields what is to be called with the amount done and the whole, where it is known.

    Shown on stderr, gone at the end.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = output.stderr()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(label, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)
