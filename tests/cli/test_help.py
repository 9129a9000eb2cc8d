from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rota.cli.app import app
from tests.cli.commands import Rota, environment

GROUPS = ("jobs", "queues", "types", "workers", "tokens", "audit", "admin")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("serve",),
    ("worker",),
    ("enqueue",),
    ("jobs", "list"),
    ("jobs", "show"),
    ("jobs", "logs"),
    ("jobs", "cancel"),
    ("jobs", "replay"),
    ("jobs", "delete"),
    ("jobs", "wait"),
    ("queues", "list"),
    ("queues", "put"),
    ("queues", "pause"),
    ("queues", "resume"),
    ("workers", "list"),
    ("workers", "handlers"),
    ("workers", "drain"),
    ("types", "list"),
    ("types", "show"),
    ("types", "put"),
    ("types", "delete"),
    ("types", "pause"),
    ("types", "resume"),
    ("tokens", "list"),
    ("tokens", "create"),
    ("tokens", "rotate"),
    ("tokens", "revoke"),
    ("tokens", "resume"),
    ("audit", "list"),
    ("doctor",),
    ("backup",),
    ("restore",),
    ("admin", "reset-token"),
    ("demo",),
    ("completion",),
    ("version",),
)


def names(of: str | None = None) -> set[str]:
    found = app if of is None else app[of]
    return {name for name in found if not name.startswith("-")}


def test_every_command_is_checked_here() -> None:
    assert {words[0] for words in COMMANDS} == names()
    for group in GROUPS:
        assert {words[1] for words in COMMANDS if words[0] == group} == names(group)


@pytest.mark.parametrize("words", [*COMMANDS, *((group,) for group in GROUPS)], ids=" ".join)
def test_help_of_every_command_shows_one_to_five_examples_of_it(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    app([*words, "--help"])
    _, _, examples = capsys.readouterr().out.partition("Examples:")
    shown = [line for line in examples.splitlines() if f"rota {' '.join(words)}" in line]
    assert 1 <= len(shown) <= 5
    assert [line for line in examples.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("words", [one for one in COMMANDS if one != ("completion",)], ids=" ".join)
def test_every_command_that_prints_no_script_knows_json(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    app([*words, "--help"])
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_secret_is_taken_as_an_argument(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    app([*words, "--help"])
    shown = capsys.readouterr().out
    assert "--token " not in shown
    assert "--secret" not in shown
    assert "--password" not in shown


def test_first_help_says_where_to_start(alone: Rota) -> None:
    shown = alone.done("--help").out
    for first in ("rota demo", "rota serve", "rota enqueue", "rota jobs list", "ROTA_URL", "Exit codes"):
        assert first in shown


def test_help_loads_neither_client_nor_server(tmp_path: Path) -> None:
    program = (
        "import sys, rota.cli.app as a; a.run(['--help']); "
        "heavy = {'httpx2', 'uvicorn', 'sqlite3', 'asyncio', 'rota.server'} & set(sys.modules); "
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_version_is_told_in_both_forms(alone: Rota) -> None:
    version = alone.done("version", "--json").json()
    assert f"Rota {version['rota']}" in alone.done("version").out
    assert alone.done("--version").out.strip() == version["rota"]
