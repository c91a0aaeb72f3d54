"""Schemas of FastAPI's fields, shared by all applications of a process.

An application has some 230 fields of some 60 types. Pydantic's adapters are immutable and depend on
the type alone.
"""

from __future__ import annotations

from typing import Any, get_args

from fastapi._compat import v2
from pydantic import TypeAdapter

__all__ = ["share_schemas"]

_adapters: dict[tuple[object, str, str], TypeAdapter[Any]] = {}


def share_schemas() -> None:
    """Let all applications in this process share the adapters of their fields."""
    if hasattr(v2, "TypeAdapter"):
        v2.TypeAdapter = _adapter


def _adapter(kind: Any, *, config: Any = None) -> TypeAdapter[Any]:
    """Return the adapter of an annotated type, made at most once."""
    annotation, *metadata = get_args(kind)
    key = annotation, repr(metadata), repr(config)
    if key not in _adapters:
        _adapters[key] = TypeAdapter(kind, config=config)
    return _adapters[key]
