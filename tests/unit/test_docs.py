"""The documentation says what the code says, names everything there is, and leads nowhere wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

import rota
from docs.reference import FOLDER, TABLES, refreshed
from rota.cli.app import app
from rota.client.current import CurrentJob
from rota.domain.transitions import Event
from rota.errors import BY_CODE
from rota.settings import OTHER_VARIABLES, PREFIX, Settings

ROOT = FOLDER.parent
PAGES = [*sorted(FOLDER.rglob("*.md")), *sorted(ROOT.glob("*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
DOCS = "\n".join(text for page, text in TEXTS.items() if page.parent == FOLDER)
WITHOUT_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_say_what_the_code_says(page: Path) -> None:
    assert refreshed(TEXTS[page]) == TEXTS[page], "make them anew: python -m docs.reference"


def test_every_table_stands_in_one_page() -> None:
    marks = re.findall(r"<!-- made by python -m docs\.reference: (\w+) -->", DOCS)
    assert sorted(marks) == sorted(TABLES)


@pytest.mark.parametrize("name", rota.__all__)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert (getattr(rota, name).__doc__ or "").strip()


def test_everything_a_handler_may_call_is_described() -> None:
    members = {name for name in vars(CurrentJob) if not name.startswith("_")}
    assert {name for name in members if name not in TEXTS[FOLDER / "python.md"]} == set()


def test_every_variable_is_described() -> None:
    settings = [PREFIX + name.upper() for name in Settings.__struct_fields__]
    described = set(re.findall(r"^\|.*`(ROTA_[A-Z_]+)`", TEXTS[FOLDER / "settings.md"], re.MULTILINE))
    assert described == {*settings, *OTHER_VARIABLES}


def test_every_setting_has_an_effect() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    names = set(Settings.__struct_fields__)
    used = {name for name in names if re.search(rf"\b(settings|told)\.{name}\b", sources)}
    assert names - used == set()


def commands() -> Iterator[tuple[str, str | None]]:
    for name in app:
        if name.startswith("-"):
            continue
        within: list[str | None] = [word for word in app[name] if not word.startswith("-")]
        for word in within or [None]:
            yield name, word


@pytest.mark.parametrize(("command", "word"), list(commands()))
def test_every_command_is_listed(command: str, word: str | None) -> None:
    rows = re.findall(rf"^\| `rota {command}\b.*", TEXTS[FOLDER / "index.md"], re.MULTILINE)
    assert len(rows) == 1
    assert word is None or re.search(rf"[ `]{word}`", rows[0])


@pytest.mark.parametrize("code", sorted(set(BY_CODE) - {"start-refused"}))
def test_every_error_is_described(code: str) -> None:
    assert re.search(rf"^\| \d+ \| `{code}` \|", DOCS, re.MULTILINE)


@pytest.mark.parametrize("event", Event)
def test_every_event_is_explained(event: Event) -> None:
    assert re.search(rf"^\| `{event}` \| [A-Z]", TEXTS[FOLDER / "states.md"], re.MULTILINE)


def links() -> Iterator[tuple[Path, str]]:
    for page, text in TEXTS.items():
        for target in LINK.findall(WITHOUT_CODE.sub("", text)):
            if "://" not in target:
                yield page, target


@pytest.mark.parametrize(("page", "target"), list(links()), ids=lambda value: Path(value).name)
def test_every_link_leads_somewhere(page: Path, target: str) -> None:
    path, _, anchor = unquote(target).partition("#")
    found = (page.parent / path).resolve() if path else page
    assert found.exists(), f"{page.name} links to {target}"
    if anchor:
        assert anchor in anchors(found.read_text(encoding="utf-8"))


def anchors(text: str) -> set[str]:
    """The anchors that a Markdown page gets from its headings."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent == FOLDER and page.name != "index.md"]
)
def test_every_page_is_found_from_the_index(page: Path) -> None:
    assert f"]({page.name}" in TEXTS[FOLDER / "index.md"]
