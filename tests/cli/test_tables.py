"""Tables on a terminal of 80 columns."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rota.cli import output

COLUMNS = ("ID", "TYPE", "STATUS", "QUEUE", "PRIORITY", "WORKER")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(output, "stdout", lambda: console)
    return written


def test_what_one_would_copy_stays_whole_and_spare_columns_give_way(screen: io.StringIO) -> None:
    type, status = "invoice.send.by.post.with.a.long.name", "pending (retry in 37s)"
    row = ("123456", type, status, "default", "critical", "mailer/host-1.example.org.4711")
    output.table(COLUMNS, [row], spare=("QUEUE", "PRIORITY"))
    shown = screen.getvalue()
    for whole in ("123456", type, status):
        assert whole in shown
    assert "QUEUE" not in shown
    assert "PRIORITY" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_what_has_room_is_shown(screen: io.StringIO) -> None:
    output.table(COLUMNS, [("1", "a", "failed", "q", "low", "w")], spare=("QUEUE", "PRIORITY"))
    assert screen.getvalue().split()[:6] == list(COLUMNS)
