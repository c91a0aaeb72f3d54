"""The kernels as machine code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from vil_renderer.embedded.optional_imports import load_native

__all__ = ["compiled"]


@cache
def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel compiled by numba; without the GIL while it runs, and kept on disk where that is possible.

    Raises:
        RendererError: numba is not installed.
    """
    numba = load_native("numba", "numba", "Gaussian splats", extra="splat")
    # Fused multiply-add alone: no other licence with floating point is worth its surprises.
    options = {"nogil": True, "fastmath": {"contract"}}
    try:
        made = numba.njit(kernel, cache=True, **options)
    except RuntimeError:  # neither beside the sources nor in the home may files be written
        made = numba.njit(kernel, **options)
    return made  # type: ignore[no-any-return]
