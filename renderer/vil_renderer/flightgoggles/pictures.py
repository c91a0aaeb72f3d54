"""Pictures to the bytes of a message part or of a shared-memory slot, and back. Pure functions.

Message parts are the original protocol's: bottom row first, depth16 with 0 for "no hit". Slots hold
pictures as they are inside: top row first, 65535 for "no hit". A validity mask follows its picture,
one byte per pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import DEPTH_NO_HIT, BoolArray, ImageArray, Modality
from vil_bridge.optics.pixel_formats import FORMAT_OF, PixelFormat

_DEPTH: Final = FORMAT_OF[Modality.DEPTH]
_HALF_EXPONENT: Final = 0x7C00
_KNOWN_LAYOUTS: Final = 256


class PixelImage(NamedTuple):
    """Pixels in one of the formats of :mod:`vil_bridge.optics.pixel_formats`, top row first, and
    where they are valid.
    """

    pixels: ImageArray
    valid: BoolArray | None = None


class ImageLayout(NamedTuple):
    """Layout of an image's bytes."""

    form: PixelFormat
    width: int
    height: int

    @property
    def nbytes(self) -> int:
        """Return the size in bytes, mask included."""
        return self.form.nbytes(self.width, self.height)

    def fits(self, picture: PixelImage) -> bool:
        """Return True when the picture is of this kind and size."""
        return picture.pixels.shape[:2] == (self.height, self.width) and self.form.fits(*picture)


class _Memory(NamedTuple):
    """A layout as NumPy needs it.

    ``is_plain``: any bytes are pixels as they are, without a mask.
    """

    nbytes: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_plain: bool


@lru_cache(_KNOWN_LAYOUTS)
def _memory_of(layout: ImageLayout) -> _Memory:
    form, width, height = layout
    dtype = np.dtype(form.dtype)
    is_plain = dtype.kind == "u" and not form.masked and form != _DEPTH
    return _Memory(layout.nbytes, dtype, form.shape(width, height), is_plain)


def to_wire(picture: PixelImage, form: PixelFormat) -> bytes | memoryview:
    """Return an image as a message part in new memory."""
    upwards = picture.pixels[::-1]
    pixels = _depth_to_wire(upwards) if form == _DEPTH else np.array(upwards, order="C")
    if picture.valid is None:
        return pixels.data.cast("B")
    return pixels.tobytes() + picture.valid[::-1].tobytes()


def from_wire(data: bytes | memoryview, layout: ImageLayout) -> PixelImage:
    """Read a message part; all but depth16 are upright views of the received buffer.

    Raises:
        ProtocolError: it has another size, or a number is not finite.
    """
    memory = _memory_of(layout)
    if len(data) != memory.nbytes:
        form, width, height = layout
        raise ProtocolError(
            f"a picture of {width}x{height} {form.name} has {memory.nbytes} bytes", length=len(data)
        )
    if memory.is_plain:
        return PixelImage(np.ndarray(memory.shape, memory.dtype, data)[::-1])
    pixels, valid = _picture_at(np.frombuffer(data, np.uint8), layout)
    if layout.form == _DEPTH:
        return PixelImage(_depth_from_wire(pixels[::-1]))
    return PixelImage(pixels[::-1], None if valid is None else valid[::-1])


def slot_arrays(pictures: Sequence[PixelImage]) -> list[ImageArray]:
    """Return the arrays to write into a slot, in order."""
    return [array for picture in pictures for array in picture if array is not None]


def from_slot(data: npt.NDArray[np.uint8], layouts: Sequence[ImageLayout]) -> list[PixelImage]:
    """Read what :func:`slot_arrays` lists; the pictures are views of ``data``.

    Raises:
        ProtocolError: it has another size, or a number is not finite.
    """
    sizes = [_memory_of(layout).nbytes for layout in layouts]
    expected = sum(sizes)
    if data.size != expected:
        raise ProtocolError(f"{len(layouts)} pictures have {expected} bytes", length=data.size)
    pictures: list[PixelImage] = []
    offset = 0
    for layout, size in zip(layouts, sizes, strict=True):
        pictures.append(_picture_at(data[offset : offset + size], layout))
        offset += size
    return pictures


def _picture_at(data: npt.NDArray[np.uint8], layout: ImageLayout) -> PixelImage:
    """Return pixels and mask in memory order; the size was checked."""
    form, width, height = layout
    memory = _memory_of(layout)
    if memory.is_plain:
        return PixelImage(data.view(memory.dtype).reshape(memory.shape))
    split = width * height * form.bytes_per_px
    pixels = data[:split].view(memory.dtype).reshape(memory.shape)
    if not _is_finite(pixels):
        raise ProtocolError(f"a picture in {form.name} holds a number that is not finite")
    return PixelImage(pixels, data[split:].reshape(height, width) != 0 if form.masked else None)


def _is_finite(pixels: ImageArray) -> bool:
    if pixels.dtype == np.float16:  # by its exponent, since NumPy takes a hundred times longer
        return not bool(((pixels.view(np.uint16) & _HALF_EXPONENT) == _HALF_EXPONENT).any())
    return pixels.dtype.kind != "f" or bool(np.isfinite(pixels).all())


def _depth_to_wire(depth: ImageArray) -> npt.NDArray[np.uint16]:
    # 0 is "no hit" on the wire, so that the nearest step gives way to the next one.
    wire = np.maximum(depth, 1, dtype="<u2")
    wire[depth == DEPTH_NO_HIT] = 0
    return np.ascontiguousarray(wire)


def _depth_from_wire(wire: ImageArray) -> npt.NDArray[np.uint16]:
    depth = wire.astype(np.uint16, order="C")
    depth[depth == 0] = DEPTH_NO_HIT
    return depth
