"""Compiled kernel of the pose path.

A shared library next to its sources, which the installation builds.

It is loaded with ctypes, so that one library serves every Python. Without it, the NumPy twins
compute the same.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

SWITCH: Final = "VIL_KERNEL"
"""Environment variable: ``off`` leaves the library alone."""
CURE: Final = (
    "install a C compiler (Debian: apt-get install gcc libc6-dev), then install vil-bridge again"
)
PATH: Final = Path(__file__).with_name("libvil_kernel.so")
_VERSION: Final = 9
"""That of the functions' arguments, ``VIL_KERNEL_VERSION`` in the sources."""


def _loaded() -> tuple[ctypes.PyDLL | None, str]:
    """Return the library, or None and why it is absent."""
    if os.environ.get(SWITCH) == "off":
        return None, f"{SWITCH}=off"
    try:
        library = ctypes.PyDLL(str(PATH))  # holds the interpreter's lock: a call takes microseconds
    except OSError:
        return None, f"{PATH.name} was not built"
    version = int(library.vil_kernel_version())
    if version != _VERSION:
        return None, f"{PATH.name} has version {version}, not {_VERSION}"
    return library, ""


KERNEL, ABSENT = _loaded()


def description() -> str:
    """Return whether the kernel computes, and what it costs that it does not."""
    if KERNEL is not None:
        return "compiled"
    return (
        f"absent ({ABSENT}); poses take three times and filters of bodies with an IMU ten "
        "times as long"
    )
