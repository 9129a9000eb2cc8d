"""``rota completion``: the scripts name the commands, and bash completes with its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import Rota


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_names_commands_and_options(alone: Rota, shell: str) -> None:
    script = alone.done("completion", shell).out
    for word in ("enqueue", "jobs", "replay", "idempotency-key", "completion"):
        assert word in script


@pytest.mark.parametrize(
    ("typed", "offered"), [("rota jo", "jobs"), ("rota jobs lo", "logs"), ("rota enqueue --fi", "--file")]
)
def test_bash_completes_with_it(alone: Rota, tmp_path: Path, typed: str, offered: str) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    (tmp_path / "rota.bash").write_text(alone.done("completion", "bash").out, encoding="utf-8")
    program = (
        f". ./rota.bash; COMP_WORDS=({typed}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _rota; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "--norc", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert offered in done.stdout.split(), done.stderr


def test_other_shells_are_refused(alone: Rota) -> None:
    refused = alone("completion", "tcsh")
    assert refused.code == 2
    assert "bash" in refused.err
