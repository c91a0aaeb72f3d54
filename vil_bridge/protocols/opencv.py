"""OpenCV, imported at its first use: a bridge without cameras does without it (extra ``warp``).

Use it as ``from vil_bridge.protocols import opencv as cv2``. The first use raises
ModuleNotFoundError where OpenCV is absent, which :func:`vil_bridge.registry.explain_missing` turns
into the command that installs it.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return a function or constant of OpenCV, from now on without this call."""
    if name.startswith("__"):
        raise AttributeError(name)
    import cv2

    value = globals()[name] = getattr(cv2, name)
    return value
