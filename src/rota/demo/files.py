"""The files the demo works on, and what it measures of each."""

from __future__ import annotations

import hashlib
import os
import stat
import sysconfig
from pathlib import Path
from typing import Final

import msgspec

from rota.errors import StartError

MOST_FILES: Final = 2_000
MOST_FILE_BYTES: Final = 4 * 1_048_576
"""Together they keep the demo below a minute on a small machine."""
PASSED_OVER: Final = frozenset({"__pycache__", "site-packages", "dist-packages", "node_modules"})


class Measure(msgspec.Struct, frozen=True):
    """What is counted in one file."""

    bytes: int
    words: int
    sha256: str


class Survey(msgspec.Struct, frozen=True):
    """The files found. ``is_cut``: there were more than the demo takes."""

    root: Path
    files: tuple[str, ...]
    is_cut: bool


def measure(path: Path) -> Measure:
    """Count a file. Words are what white space separates. Raises OSError when it cannot be read."""
    content = path.read_bytes()
    return Measure(len(content), len(content.split()), hashlib.sha256(content).hexdigest())


def survey(root: Path | None) -> Survey:
    """The files below ``root``, at most 2,000, each at most 4 MiB; None: the standard library's own sources.

    Links, hidden folders and files that cannot be read are passed over. Raises StartError when none is left.
    """
    suffix = ".py" if root is None else ""
    root = (Path(sysconfig.get_paths()["stdlib"]) if root is None else root).absolute()
    if not root.is_dir():
        raise StartError(f"{root} is not a folder. Name one that holds files: rota demo --path FOLDER")
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(one for one in folders if one not in PASSED_OVER and not one.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if name.endswith(suffix) and _is_usable(path):
                if len(found) == MOST_FILES:
                    return Survey(root, tuple(found), is_cut=True)
                found.append(str(path))
    if not found:
        raise StartError(f"{root} holds no files to work on. Name another folder: rota demo --path FOLDER")
    return Survey(root, tuple(found), is_cut=False)


def _is_usable(path: Path) -> bool:
    try:
        str(path).encode("utf-8")  # another name cannot stand in JSON
        found = path.lstat()
    except (OSError, UnicodeEncodeError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= MOST_FILE_BYTES and os.access(path, os.R_OK)
