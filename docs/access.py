"""Writes access.md from the route table and the outcomes that the tests prove: ``python -m docs.access``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rota.api.meta import needs_in_words
from rota.api.routes import ROUTES
from rota.domain.access import PRESETS as GRANTS
from rota.domain.job import PRIORITY_LABELS
from tests.security.access_expectations import FIELDS, PRESETS, RELATIONS, VISIBLE, expected

PAGE: Final = Path(__file__).with_name("access.md")
_INTRODUCTION: Final = """# Who may do what

This page is made from the route table by `python -m docs.access`. Each cell is played against a live server
in `tests/security/test_access_table.py`, which fails for a call of the route table that does not stand here.

A token has scopes, mostly those of a preset; a ceiling of priority; and it may have a range of types and of
queues. What lies outside its range does not exist for a token: it gets the same answer as for an unknown id.
"""
_LEGEND: Final = """A number is the status of the answer (in batches, that of the item). `hidden`: the call
succeeds and leaves it out. `-`: there is no such thing.
"""


def page() -> str:
    """The page as Markdown."""
    return "\n".join([_INTRODUCTION, *_presets(), *_calls(), *_fields()])


def _presets() -> list[str]:
    lines = ["## Presets", "", *_row("preset", "scopes", "highest priority"), *_row("---", "---", "---")]
    for name in PRESETS:
        preset = GRANTS[name]
        scopes = "all" if name == "admin" else ", ".join(sorted(preset.scopes))
        if preset.open_api_only:
            scopes += "; only under `/openapi/v1`"
        lines += _row(name, scopes, PRIORITY_LABELS[preset.max_priority])
    return [*lines, ""]


def _calls() -> list[str]:
    lines = ["## Calls", "", _LEGEND]
    lines += [f"- *{relation}*: {meaning}" for relation, meaning in RELATIONS.items()]
    lines += ["", *_row("call", "needs", "what", *PRESETS), *_row(*["---"] * (3 + len(PRESETS)))]
    for route in ROUTES:
        call = f"{route.method} {route.path}"
        for (stated, relation), cells in expected().items():
            if stated == call:
                lines += _row(f"`{call}`", needs_in_words(route), relation, *cells.values())
    return [*lines, ""]


def _fields() -> list[str]:
    lines = [
        "## Fields of a job",
        "",
        "Shown where the job itself is; null otherwise. `has_error` is always shown.",
        "",
    ]
    lines += [*_row("preset", "what", *FIELDS), *_row(*["---"] * (2 + len(FIELDS)))]
    for (preset, relation), visible in VISIBLE.items():
        lines += _row(preset, relation, *("shown" if field in visible else "null" for field in FIELDS))
    return [*lines, ""]


def _row(*cells: str) -> list[str]:
    return [f"| {' | '.join(cells)} |"]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
