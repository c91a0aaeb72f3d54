"""Packages of the project and their folders: one table for all tests and tools of the tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["CODE", "FOLDERS", "PACKAGES", "PRODUCT", "python_path", "relative_module"]

FOLDERS: Final = {
    "vil_bridge": "",
    "vil_adapters": "adapters/",
    "vil_renderer": "renderer/",
    "vil_simulation": "simulation/",
    "vil_benchmarks": "benchmarks/",
}
"""Folder that holds each package, with a slash at its end; "" is the root of the checkout."""
PACKAGES: Final = tuple(FOLDERS)
_WORKSHOP: Final = frozenset({"benchmarks/vil_benchmarks"})
"""Packages that the wheel leaves out."""
CODE: Final = tuple(folder + package for package, folder in FOLDERS.items())
"""Paths of the packages, from the root of the checkout."""
PRODUCT: Final = tuple(path for path in CODE if path not in _WORKSHOP)
"""The same of those in the wheel."""


def python_path(root: Path) -> str:
    """Return what ``PYTHONPATH`` needs so that the packages of a checkout are found."""
    return os.pathsep.join(str(root / folder) for folder in FOLDERS.values())


def relative_module(path: str) -> str:
    """Return the path of a file below the folder that holds its package."""
    for package, folder in FOLDERS.items():
        if folder and path.startswith(f"{folder}{package}/"):
            return path.removeprefix(folder)
    return path
