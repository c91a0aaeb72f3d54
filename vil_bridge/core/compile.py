"""Kernels as machine code, cached on disk."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from vil_bridge.core import elementary
from vil_bridge.core.installation import PACKAGE_FOLDERS

LANES: Final = 16
"""Vehicles in a tile.

Every loop over lanes has this constant length, so that all lanes run the same vector code.
"""

_FOLDER: Final = Path(__file__).parent
_SOURCES: Final = ("*kernel*.py", "compile.py", "elementary.py", "formulas.py", "philox.py")
"""Files of kernels, and of formulas that NumPy and kernels share."""


@cache
def has_numba() -> bool:
    """Return True if the extra ``sim`` is installed."""
    try:
        import numba  # noqa: F401
    except ModuleNotFoundError:
        return False
    _load_array_functions()
    _compile_choices()
    return True


def _load_array_functions() -> None:
    """Import numba's array functions without scipy.linalg.

    0.4 s for a BLAS that no kernel here calls.

    They only check whether it is there, so a stand-in suffices during the import; matrix products
    import the real one.
    """
    name = "scipy.linalg.cython_blas"
    if "scipy.linalg" in sys.modules or find_spec("scipy") is None:
        return
    sys.modules[name] = ModuleType(name)
    try:
        with contextlib.suppress(ImportError):
            import_module("numba.np.arraymath")
    finally:
        del sys.modules[name]


def _compile_choices() -> None:
    """Let kernels choose between two numbers by a branch.

    Of ``np.where`` numba makes arrays on the heap.
    """
    from numba.extending import overload

    @overload(elementary.where)
    def chosen(condition: Any, yes: Any, no: Any) -> Callable[[Any, Any, Any], Any]:  # noqa: ARG001
        def choose(condition: Any, yes: Any, no: Any) -> Any:
            return yes if condition else no

        return choose


def compiled(
    *, parallel: bool = False, inline: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles with numba where it is installed, else returns the Python
    function.

    Without the GIL while it runs; no licence with floating point (the same bits for every tile and
    thread). ``inline`` is for the small functions that kernels are made of.
    """

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        if not has_numba():
            return function
        import numba

        _drop_stale(function.__module__.partition(".")[0])
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
        if inline:
            return numba.njit(function, **options, inline="always")  # type: ignore[no-any-return]
        try:
            return numba.njit(function, cache=True, parallel=parallel, **options)  # type: ignore[no-any-return]
        # Files may be written neither next to the sources nor in the home folder.
        except RuntimeError:
            return numba.njit(function, parallel=parallel, **options)  # type: ignore[no-any-return]

    return make


@cache
def _drop_stale(package: str) -> None:
    """Delete kernels of this room and of one of our packages that are older than a source.

    Numba compares each with its own file only.

    Code goes with its index: numba writes a new index first, and a reader of that index must not
    find old code.
    """
    folders = [_FOLDER]
    if package in PACKAGE_FOLDERS:
        folders += map(Path, import_module(package).__path__)
    sources = [path for folder in folders for name in _SOURCES for path in folder.rglob(name)]
    newest = max(path.stat().st_mtime_ns for path in sources)
    for folder in folders:
        for stale in folder.rglob("__pycache__/*.nb[ic]"):
            with contextlib.suppress(OSError):
                if stale.stat().st_mtime_ns < newest:
                    stale.unlink()
