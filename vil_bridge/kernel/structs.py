"""Structs and functions of the kernel, as ctypes needs them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from vil_bridge.kernel.library import KERNEL, PATH


def double_bits(*values: float) -> list[int]:
    """Return the bits of doubles, as numbers of a :class:`Struct`."""
    bits: list[int] = np.array(values, dtype=np.float64).view(np.int64).tolist()
    return bits


class Struct:
    """A C struct of 64-bit integers, addresses of other structs, and addresses of arrays, in this
    order.

    The arrays live as long as the struct, and must stay in place.

    Attributes:
        pointer: its address, as an argument.
    """

    def __init__(
        self, numbers: Sequence[int | Struct], arrays: Sequence[np.ndarray[Any, Any]]
    ) -> None:
        assert all(array.flags.c_contiguous for array in arrays), "the kernel walks through them"
        self._parts = numbers, arrays
        fields = [of.address if isinstance(of, Struct) else int(of) for of in numbers]
        fields += [array.ctypes.data for array in arrays]
        self._fields = (ctypes.c_int64 * len(fields))(*fields)
        self.pointer = ctypes.c_void_p(self.address)

    @property
    def address(self) -> int:
        """Address of the struct."""
        return ctypes.addressof(self._fields)


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
