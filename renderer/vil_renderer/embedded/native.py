"""Compiled packages that only some queries need: loaded when they are, with a message that says how to get them."""

from __future__ import annotations

import importlib
import platform
from typing import Any

from vil_bridge.core.errors import RendererError

__all__ = ["load_native"]


def load_native(module: str, package: str, purpose: str) -> Any:
    """Import a module of the extra ``gl``.

    Args:
        module: what to import.
        package: its name in the index.
        purpose: what cannot be done without it.

    Raises:
        RendererError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        raise RendererError(
            f"{purpose} need the package {package} of the extra gl (pip install 'vil-bridge[gl]'); where that installs"
            f" without it, there is no wheel for this platform ({platform.system()} {platform.machine()},"
            f" Python {platform.python_version()}): {exc}"
        ) from exc
