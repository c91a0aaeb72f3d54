"""Settings of an interpreter whose sets have the same order each time."""

from __future__ import annotations

import os
import sys
from typing import Final

__all__ = ["execute_again"]

_SETTINGS: Final = {"PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}


def execute_again(module: str) -> None:
    """Execute ``python -m module`` in place of this process, unless it has the settings already."""
    if all(os.environ.get(name) == value for name, value in _SETTINGS.items()):
        return
    os.environ |= _SETTINGS
    os.execvp(
        "setarch", ["setarch", "--addr-no-randomize", sys.executable, "-m", module, *sys.argv[1:]]
    )
