"""Pictures of textures.

Opened by Pillow, their size known and bounded before a pixel is decoded.
"""

from __future__ import annotations

import io
import warnings
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from vil_bridge.core.errors import AssetError

MAX_PIXELS: Final = 8192 * 8192
MAX_TEXTURE_PX: Final = 4096
"""Longest side of a texture in memory: no quality profile draws a larger one."""
MAX_PICTURES_BYTES: Final = 1 << 30
PICTURES: Final = ("PNG", "JPEG")
"""Formats that Pillow may find in a picture."""
GLTF_PICTURES: Final = (*PICTURES, "WEBP", "AVIF")
"""The same for a glTF file, with those of EXT_texture_webp and EXT_texture_avif."""
_KTX2: Final = b"\xabKTX 20\xbb\r\n\x1a\n"


class PictureBudget:
    """Bytes that the decoded pictures of one scene may take.

    Reserved from their headers, before one is decoded.
    """

    def __init__(self) -> None:
        self._reserved = 0

    def reserve(self, image: Image.Image, label: str, limit_px: int | None = None) -> None:
        """Reserve the memory of an opened picture at this limit of its sides.

        Raises:
            AssetError: the scene's pictures would take too much.
        """
        scale = min(1.0, (limit_px or MAX_TEXTURE_PX) / max(image.size))
        width, height = (max(1, round(side * scale)) for side in image.size)
        self._reserved += width * height * (4 if image.has_transparency_data else 3)
        if self._reserved > MAX_PICTURES_BYTES:
            raise AssetError(
                f"{label}: {image.width} x {image.height} pixels: the pictures of this "
                "scene take more than "
                f"{MAX_PICTURES_BYTES >> 20:,} MiB once they are decoded. Scale them down "
                "(2048 pixels a side are "
                "enough for quality high), or use fewer of them"
            )


def decode_image(
    data: bytes,
    label: str,
    limit_px: int | None = None,
    formats: tuple[str, ...] = PICTURES,
    budget: PictureBudget | None = None,
) -> npt.NDArray[np.uint8]:
    """Decode a picture; ``label`` names file and element in messages.

    Args:
        data: the file's bytes.
        label: as above.
        limit_px: neither side becomes longer, None = than 4096 pixels; the ratio of the sides
            stays.
        formats: what Pillow may take it for.
        budget: reserves the memory before decoding.

    Returns:
        Shape (h, w, 3), or (h, w, 4) with transparency, top row first.

    Raises:
        AssetError: it is none of these formats, broken, cut short, or larger than 8192 x 8192, or
            beyond the budget.
    """
    with open_image(data, label, formats) as image:
        if budget is not None:
            budget.reserve(image, label, limit_px)
        return pixels_of(image, label, limit_px)


def open_image(data: bytes, label: str, formats: tuple[str, ...]) -> Image.Image:
    """Open a picture without decoding it; same errors as :func:`decode_image`."""
    try:
        with warnings.catch_warnings():
            # Pillow warns of large pictures; we have our own bound.
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data), formats=formats)
    # Decoders of broken pictures raise any exception.
    except Exception as exc:
        reason = "is empty" if not data else f"no {' or '.join(formats)}"
        if data[: len(_KTX2)] == _KTX2:
            reason = (
                "a KTX2 texture is not read. Convert it to PNG or JPEG (gltf-transform "
                "ktxdecompress)"
            )
        raise AssetError(
            f"{label}: {reason if isinstance(exc, UnidentifiedImageError) else exc}"
        ) from None
    if image.width * image.height > MAX_PIXELS:
        raise AssetError(
            f"{label}: {image.width} x {image.height} pixels, more than {MAX_PIXELS:,} are not read"
        )
    return image


def pixels_of(image: Image.Image, label: str, limit_px: int | None = None) -> npt.NDArray[np.uint8]:
    """Decode an opened picture; same result and errors as :func:`decode_image`."""
    limit_px = min(limit_px or MAX_TEXTURE_PX, MAX_TEXTURE_PX)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The JPEG decoder skips unneeded detail.
            image.draft("RGB", (limit_px, limit_px))
            if image.mode.startswith("I"):
                # 16 bits: Pillow would clip instead of scale.
                image = Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
            image = image.convert("RGBA" if image.has_transparency_data else "RGB")
            image.thumbnail((limit_px, limit_px))
            return np.asarray(image)
    except Exception as exc:
        raise AssetError(f"{label}: the picture is broken: {exc}") from None
