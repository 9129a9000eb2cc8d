"""Files stay small and carry the name of what they hold."""

import re

from tests.architecture.source_tree import place, python_files

MOST_LINES = 450
EMPTY_NAMES = re.compile(r"(^|_)(util|utils|helper|helpers|manager|managers|common|misc)(_|$)")


def test_no_file_is_longer_than_450_lines() -> None:
    lengths = {
        place(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files("src", "tests", "benchmarks")
    }
    assert lengths, "no Python file was found, so nothing was checked"
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_file_or_folder_has_a_name_that_says_nothing() -> None:
    vague = [
        place(path)
        for path in python_files("src", "tests", "benchmarks")
        if any(EMPTY_NAMES.search(part) for part in (path.stem, path.parent.name))
    ]
    assert vague == []
