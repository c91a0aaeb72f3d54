"""Point clouds as PLY 1.0, binary little-endian."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_TYPES: Final = {"<f4": "float", "<u2": "ushort"}


def ply_bytes(fields: Sequence[tuple[str, str]], columns: Sequence[npt.NDArray[Any]]) -> bytes:
    """Return a file of vertices.

    Args:
        fields: name and type of each property, ``<f4`` or ``<u2``.
        columns: values (n,) of each.
    """
    rows = np.empty(len(columns[0]), list(fields))
    for (name, _), column in zip(fields, columns, strict=True):
        rows[name] = column
    properties = [f"property {_TYPES[kind]} {name}" for name, kind in fields]
    header = [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(rows)}",
        *properties,
        "end_header",
        "",
    ]
    return "\n".join(header).encode() + rows.tobytes()
