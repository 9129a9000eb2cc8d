"""Models of pydantic in payloads and results, where the application brings pydantic.

A value can only be one when pydantic has been imported, so it is never imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec


def to_builtins(value: Any) -> Any:
    """What msgspec asks of values that it does not know. Raises TypeError for all but models."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    kind = type(value)
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} has no form in JSON")


def from_builtins(kind: type[Any], value: Any) -> Any:
    """A value of a type that msgspec does not know. Raises ValueError, which ends with the path."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(kind, pydantic.BaseModel):
        try:
            # From JSON, so that a strict model takes what JSON can only write as text.
            return kind.model_validate_json(msgspec.json.encode(value))
        except pydantic.ValidationError as fault:
            raise ValueError(_first(fault.errors(include_url=False, include_input=False))) from None
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot be read from JSON")


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """The JSON Schema of a type that msgspec does not know; any value where nothing is known of it."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and issubclass(kind, pydantic.BaseModel):
        schema: dict[str, Any] = kind.model_json_schema()
        # Its references start from its own root, which is not that of the arguments.
        return {"type": "object", "title": kind.__name__} if "$defs" in schema else schema
    return {}


def _first(faults: Sequence[Any]) -> str:
    """The first fault and how many more there are; what the value was is not said, it may be a secret."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in faults[0]["loc"])
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0]['msg']}{more}" + (f" - at `{path}`" if path else "")
