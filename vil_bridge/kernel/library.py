"""Compiled kernel of the pose path.

A shared library next to its sources, which the installation builds.

It is loaded with ctypes, so that one library serves every Python. Without it, the NumPy twins
compute the same.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Final, cast

from vil_bridge.kernel.structs import Layout, layout

SWITCH: Final = "VIL_KERNEL"
"""Environment variable: ``off`` leaves the library alone."""
CURE: Final = (
    "install a C compiler (Debian: apt-get install gcc libc6-dev), then install vil-bridge again"
)
PATH: Final = Path(__file__).with_name("libvil_kernel.so")
_VERSION: Final = 10
"""That of the functions' arguments, ``VIL_KERNEL_VERSION`` in the sources."""


class _Row(ctypes.Structure):
    """``Row`` of ``layout.c``, which explains the fields."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("c_type", ctypes.c_char_p),
        ("place", ctypes.c_size_t),
    )


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
    difference = _difference(_layout(library))
    if difference:
        return None, f"{PATH.name} was built from other sources: {difference}"
    return library, ""


def _layout(library: ctypes.PyDLL) -> Layout:
    """Return the structs of a library, as its compiler placed their fields."""
    library.vil_layout.restype = ctypes.POINTER(_Row)
    found: Layout = {}
    for row in library.vil_layout():
        if row.name is None:
            break
        found[row.name.decode()] = row.c_type.decode(), row.place
    return found


def _difference(theirs: Layout) -> str:
    """Return the first field or struct that is another one than here, in words; or nothing."""
    ours = layout()
    for name in ours | theirs:
        if ours.get(name) != theirs.get(name):
            return f"{name} is {_described(theirs.get(name))}, not {_described(ours.get(name))}"
    return ""


def _described(place: tuple[str, int] | None) -> str:
    if place is None:
        return "absent"
    c_type, size = place
    if not c_type:
        return f"{size} bytes"
    return f"`{c_type}` at byte {size}"


KERNEL, ABSENT = _loaded()


def description() -> str:
    """Return whether the kernel computes, and what it costs that it does not."""
    if KERNEL is not None:
        return "compiled"
    return (
        f"absent ({ABSENT}); poses take three times and filters of bodies with an IMU ten "
        "times as long"
    )


def function(name: str, *arguments: Any, returns: Any = None) -> Any:
    """Return a function of the kernel, which must be there, with the types of its arguments."""
    found = getattr(cast("Any", KERNEL), name)
    found.argtypes = arguments
    found.restype = returns
    return found


def long_function(name: str, *arguments: Any) -> Any | None:
    """Return a function of the kernel whose calls release the interpreter's lock.

    None without a kernel.
    """
    if KERNEL is None:
        return None
    found = getattr(ctypes.CDLL(str(PATH)), name)
    found.argtypes = arguments
    found.restype = None
    return found
