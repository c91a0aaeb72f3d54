"""Settings of the heap and of the garbage collector for programs that pass pictures on."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGEST_HEAP_BLOCK_BYTES: Final = 8 << 20
"""A depth picture of 1920 x 1080 fits.

Larger blocks between small ones would let the heap grow for hours.
"""
_FREE_HEAP_BYTES: Final = 16 << 20


def freeze_heap() -> bool:
    """Ask glibc not to return and re-fault the memory of every picture.

    False where there is no mallopt.

    All threads share one heap: pictures are received in one and freed in another, and heaps of
    their own would each keep room for the largest. To be called before the first thread starts.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = (
        (_M_MMAP_THRESHOLD, _LARGEST_HEAP_BLOCK_BYTES),
        (_M_TRIM_THRESHOLD, _FREE_HEAP_BYTES),
        (_M_ARENA_MAX, 1),
    )
    return all(mallopt(name, value) for name, value in settings)


def exempt_from_collector() -> None:
    """Let the garbage collector look at nothing that exists now.

    It does not collect before: a start leaves a thousand objects to free, and looking for them
    takes 70 ms.
    """
    gc.freeze()
