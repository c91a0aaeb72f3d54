"""Compiled packages that only some queries need.

Loaded when they are, with a message that says how to get them.
"""

from __future__ import annotations

import importlib
import platform
from typing import Any

from vil_bridge.core.errors import RendererError
from vil_bridge.core.installation import install_command


def load_native(module: str, package: str, purpose: str, *, extra: str = "gl") -> Any:
    """Import a module of an extra.

    Args:
        module: what to import.
        package: its name in the index.
        purpose: what cannot be done without it.
        extra: that brings it.

    Raises:
        RendererError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        raise RendererError(
            f"{purpose} need the package {package} of the extra {extra} "
            f"({install_command(extra)}); where that"
            " installs without it, there is no wheel for this platform "
            f"({platform.system()} {platform.machine()},"
            f" Python {platform.python_version()}): {exc}"
        ) from exc
