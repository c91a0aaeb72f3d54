"""Changes anywhere inside of JSON messages, for property tests of their readers."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st


def changed(body: bytes, data: st.DataObject, value: Any, depth: int = 5) -> bytes:
    """The message with another value at a key or index, up to ``depth`` levels down."""
    whole = json.loads(body)
    holder = whole
    for _ in range(data.draw(st.integers(0, depth))):
        members = holder.values() if isinstance(holder, dict) else holder
        inner = [member for member in members if isinstance(member, dict | list) and member]
        if not inner:
            break
        holder = data.draw(st.sampled_from(inner))
    keys = sorted(holder) if isinstance(holder, dict) else range(len(holder))
    holder[data.draw(st.sampled_from(keys))] = value
    return json.dumps(whole).encode()
