"""Finds the entry of the route table that a method and a path mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from rota.errors import MethodNotAllowed, NotFound, RotaError

_ID = re.compile(r"[0-9]{1,18}")


class Entry(Protocol):
    """Anything that may be open to everybody."""

    open: bool


E = TypeVar("E", bound=Entry)


class Table(Generic[E]):
    """Entries by (method, path). Literal paths win over those with a variable segment."""

    def __init__(self, entries: Mapping[tuple[str, str], E]) -> None:
        self.literal: dict[tuple[str, str], E] = {}
        """Entries without a variable segment, those of GET also as HEAD: found by one look-up."""
        self._methods: dict[str, dict[str, E]] = {}
        """By shape: the path, or with ``{id}`` or ``{}`` in the place of its variable segment."""
        for (method, path), entry in entries.items():
            shape = path if "{" not in path else re.sub(r"\{(?!id\})\w+\}", "{}", path)
            methods = self._methods.setdefault(shape, {})
            for each in (method, "HEAD") if method == "GET" else (method,):
                methods[each] = entry
                if shape == path and "{" not in path:
                    self.literal[each, path] = entry

    def find(self, method: str, path: str) -> tuple[E | None, str, RotaError | None]:
        """The entry and the variable segment; or what to answer, with an open entry where all are open."""
        name = ""
        methods = self._methods.get(path) if "{" not in path else None
        if methods is None:
            _, _, rest = path.partition("/")
            first, _, rest = rest.partition("/")
            name, slash, tail = rest.partition("/")
            methods = self._methods.get(f"/{first}/{{id}}{slash}{tail}") if _ID.fullmatch(name) else None
            if methods is None and name:
                methods = self._methods.get(f"/{first}/{{}}{slash}{tail}")
        if methods is None:
            return None, "", NotFound("there is nothing under this path; /docs lists what there is")
        entry = methods.get(method)
        if entry is not None:
            return entry, name, None
        allowed = ", ".join(sorted(methods))
        refused = MethodNotAllowed(f"this path takes {allowed}", headers={"Allow": allowed})
        opened = next((each for each in methods.values() if each.open), None)
        return opened, "", refused
