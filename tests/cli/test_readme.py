"""The README's tour, run as it stands there: every block, in order, against a fresh server.

Its translation has the same commands, links and parts, so that one proof holds for both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
CHINESE = README.with_name("README.zh-CN.md")
BIN = Path(sys.executable).parent


def tour_blocks() -> list[tuple[str, str]]:
    text = README.read_text(encoding="utf-8")
    tour = text[text.index("## A tour in five minutes") : text.index("## What it does today")]
    return re.findall(r"```(\w+)\n(.*?)```", tour, re.DOTALL)


def tour_script(blocks: list[tuple[str, str]]) -> str:
    """The shell blocks, for a shell that finds ``rota`` already."""
    shell = (body for language, body in blocks if language == "sh")
    return "\n".join(shell).replace("source .venv/bin/activate\n", "")


def test_the_tour_works_by_copy_and_paste(tmp_path: Path) -> None:
    blocks = tour_blocks()
    assert [language for language, _ in blocks].count("python") == 1
    assert blocks[0] == ("sh", "make serve\n")
    assert blocks[1][1].startswith("source .venv/bin/activate\n")
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ROTA_")},
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    server = subprocess.Popen(
        [str(BIN / "rota"), "serve", "--port", "0"],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    try:
        ready = server.stdout.readline()
        port = ready.rsplit(":", 1)[1].strip()
        ((_, program),) = (block for block in blocks if block[0] == "python")
        (tmp_path / "tour.py").write_text(program, encoding="utf-8")
        ran = subprocess.run(
            ["bash", "-c", "\n".join(["set -eu", tour_script(blocks[1:]).replace("8520", port), "wait"])],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        server.terminate()
        assert server.wait(timeout=30) == 0
        server.stdout.close()
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert "HTTP/1.1 201 Created" in said
    assert "idempotency-replayed: true" in said
    assert '"result":{"words": 6}' in said
    assert re.search(r"job \d+ is pending", said)
    assert re.search(r"word.count .* completed", said)
    assert re.search(r"word.count .* failed", said)


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(r"^```.*?^```$", id="code blocks"),
        pytest.param(r"^#+ |^- ", id="headings and list items"),
        pytest.param(r"^- \[[^\]]+\.md\]\([^)]+\)", id="pages"),
    ],
)
def test_the_chinese_readme_has_the_same_parts(part: str) -> None:
    english, chinese = (
        re.findall(part, page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        for page in (README, CHINESE)
    )
    assert english
    assert chinese == english


def test_each_readme_links_to_the_other() -> None:
    heads = [page.read_text(encoding="utf-8").split("\n\n")[1] for page in (README, CHINESE)]
    assert heads == ["**English** | [简体中文](README.zh-CN.md)", "[English](README.md) | **简体中文**"]
