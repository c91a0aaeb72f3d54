"""Typed arrays out of buffer views: strides, normalised integers, sparse elements.

Bounded before allocation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.assets.gltf.container import Document
from vil_renderer.embedded.assets.gltf.schema import Accessor, Sparse

COMPONENTS: Final[dict[int, np.dtype[Any]]] = {
    5120: np.dtype("i1"),
    5121: np.dtype("u1"),
    5122: np.dtype("<i2"),
    5123: np.dtype("<u2"),
    5125: np.dtype("<u4"),
    5126: np.dtype("<f4"),
}
WIDTHS: Final = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
_LARGEST: Final = 1e12
"""No length, weight or time is larger, and squares of it are still numbers."""

Array = npt.NDArray[Any]


@dataclass(slots=True)
class Accessors:
    """Accessors of a file, each read at most once."""

    document: Document
    _floats: dict[int, npt.NDArray[np.float32]] = field(default_factory=dict)
    _raw: dict[int, Array] = field(default_factory=dict)

    def floats(self, index: int, user: str, *types: str) -> npt.NDArray[np.float32]:
        """Return elements as float32 (count, width), normalised integers as -1..1 or 0..1.

        Args:
            index: the accessor.
            user: the element that refers to it.
            *types: the element types that fit there.

        Raises:
            AssetError: it does not exist, does not fit, exceeds its bytes, or holds a value that is
                not finite.
        """
        raw = self.integers(index, user, *types)
        if index in self._floats:
            return self._floats[index]
        self._floats[index] = self.scaled(raw, self.document.gltf.accessors[index], index, user)
        return self._floats[index]

    def scaled(
        self, raw: Array, accessor: Accessor, index: int, user: str
    ) -> npt.NDArray[np.float32]:
        """Return stored elements as float32, normalised integers as -1..1 or 0..1.

        Raises:
            AssetError: a value is not finite.
        """
        if raw.dtype.kind == "f":
            values = raw
        else:
            self.document.spend(4 * raw.size, f"accessor {index}")
            values = raw.astype(np.float32)
            if accessor.normalized:
                values = np.maximum(values / np.float32(np.iinfo(raw.dtype).max), np.float32(-1.0))
        # Also false for NaN.
        if not (np.abs(values) <= _LARGEST).all():
            raise self.document.error(
                f"accessor {index}", f"({user}) holds values that are not finite"
            )
        return values

    def checked(self, index: int, user: str, *types: str) -> Accessor:
        """Return the description of an accessor of one of these types.

        Raises:
            AssetError: it does not exist or does not fit.
        """
        accessor = self.document.item(self.document.gltf.accessors, "accessor", index, user)
        if accessor.type not in types:
            found = f"({user}) holds {accessor.type}, {' or '.join(types)} belongs there"
            raise self.document.error(f"accessor {index}", found)
        return accessor

    def integers(self, index: int, user: str, *types: str) -> Array:
        """Return elements (count, width) in the type in which the file holds them.

        Raises:
            AssetError: as :meth:`floats`.
        """
        accessor = self.checked(index, user, *types)
        if index not in self._raw:
            self._raw[index] = self._read(accessor, f"accessor {index}")
        return self._raw[index]

    def _read(self, accessor: Accessor, element: str) -> Array:
        dtype = COMPONENTS[accessor.component_type]
        width = WIDTHS[accessor.type]
        if accessor.buffer_view is None:
            self.document.spend(accessor.count * dtype.itemsize * width, element)
            values = np.zeros((accessor.count, width), dtype)
        else:
            stride = self.document.item(
                self.document.gltf.buffer_views, "buffer view", accessor.buffer_view, element
            )
            place = (accessor.buffer_view, accessor.byte_offset, stride.byte_stride)
            values = self._strided(place, accessor.count, dtype, width, element)
        if accessor.sparse is not None:
            self._replace(values, accessor.sparse, element)
        return values

    def _replace(self, values: Array, sparse: Sparse, element: str) -> None:
        """Write the sparse elements over the others."""
        if sparse.count == 0:
            return
        indices = (sparse.indices.buffer_view, sparse.indices.byte_offset, None)
        where = self._strided(
            indices,
            sparse.count,
            COMPONENTS[sparse.indices.component_type],
            1,
            f"{element} sparse indices",
        )
        place = (sparse.values.buffer_view, sparse.values.byte_offset, None)
        new = self._strided(
            place, sparse.count, values.dtype, values.shape[1], f"{element} sparse values"
        )
        if where.max() >= len(values):
            raise self.document.error(
                f"{element} sparse indices", f"{where.max()} is beyond the {len(values):,} elements"
            )
        values[where[:, 0]] = new

    def _strided(
        self,
        place: tuple[int, int, int | None],
        count: int,
        dtype: np.dtype[Any],
        width: int,
        element: str,
    ) -> Array:
        """Copy ``count`` elements from (buffer view, offset, stride)."""
        index, offset, stride = place
        view = self.document.view(index, element)
        size = dtype.itemsize * width
        step = stride or size
        if step < size:
            raise self.document.error(
                element,
                f"stride {step} of buffer view {index} is less than an element's {size} bytes",
            )
        if offset + step * (count - 1) + size > len(view):
            beyond = (
                f"{count:,} elements of {size} bytes exceed the {len(view):,} bytes of "
                f"buffer view {index}"
            )
            raise self.document.error(element, beyond)
        self.document.spend(count * size, element)
        return np.ndarray((count, width), dtype, view, offset, (step, dtype.itemsize)).copy()
