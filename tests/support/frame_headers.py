"""Frame headers in tests."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["wire_json"]


def wire_json(header: Any) -> bytes:
    """A header as the stream and recordings write it."""
    return msgspec.json.encode(header)
