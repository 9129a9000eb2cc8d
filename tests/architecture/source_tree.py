"""The Python files of this repository, parsed once, for the tests that read them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "rota"


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """Every ``.py`` file below the named folders of the repository, sorted; a missing folder is empty."""
    return tuple(sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def source_trees() -> Iterator[tuple[Path, ast.Module]]:
    """Every module of the package with its syntax tree."""
    for path in python_files("src"):
        yield path, tree_of(path)


def place(path: Path, node: ast.AST | None = None) -> str:
    """Where something stands, as an editor takes it: ``src/rota/clock.py:12``."""
    name = str(path.relative_to(ROOT))
    return name if node is None else f"{name}:{getattr(node, 'lineno', 0)}"
