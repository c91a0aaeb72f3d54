"""The kernels as machine code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from vil_renderer.embedded.optional_imports import load_native

__all__ = ["compiled"]


@cache
def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel with numba; it runs without the GIL and is cached on disk if possible.

    Raises:
        RendererError: numba is not installed.
    """
    numba = load_native("numba", "numba", "Gaussian splats", extra="splat")
    # Fused multiply-add alone: no other licence with floating point is worth its surprises.
    options = {"nogil": True, "fastmath": {"contract"}}
    try:
        made = numba.njit(kernel, cache=True, **options)
    except RuntimeError:  # neither the sources' folder nor the home is writable
        made = numba.njit(kernel, **options)
    return made  # type: ignore[no-any-return]
