"""Pictures of textures: opened by Pillow, their size known and bounded before a pixel is decoded."""

from __future__ import annotations

import io
import warnings
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from vil_bridge.core.errors import AssetError

__all__ = ["MAX_PIXELS", "decode_image", "open_image", "pixels_of"]

MAX_PIXELS: Final = 8192 * 8192


def decode_image(
    data: bytes, label: str, limit_px: int | None = None, formats: tuple[str, ...] = ("PNG", "JPEG")
) -> npt.NDArray[np.uint8]:
    """Decode a picture; ``label`` names file and element in messages.

    Args:
        data: the file's bytes.
        label: as above.
        limit_px: neither side becomes longer; the ratio of the sides is kept.
        formats: what Pillow may take it for.

    Returns:
        Shape (h, w, 3), or (h, w, 4) with transparency, top row first.

    Raises:
        AssetError: it is none of these formats, broken, cut short, or larger than 8192 x 8192.
    """
    with open_image(data, label, formats) as image:
        return pixels_of(image, label, limit_px)


def open_image(data: bytes, label: str, formats: tuple[str, ...]) -> Image.Image:
    """Open a picture without decoding it; same errors as :func:`decode_image`."""
    try:
        with warnings.catch_warnings():
            # Pillow warns of large pictures; we have our own bound.
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data), formats=formats)
    # Decoders of broken pictures raise whatever they meet.
    except Exception as exc:
        reason = "is empty" if not data else f"no {' or '.join(formats)}"
        raise AssetError(f"{label}: {reason if isinstance(exc, UnidentifiedImageError) else exc}") from None
    if image.width * image.height > MAX_PIXELS:
        raise AssetError(f"{label}: {image.width} x {image.height} pixels, more than {MAX_PIXELS:,} are not read")
    return image


def pixels_of(image: Image.Image, label: str, limit_px: int | None = None) -> npt.NDArray[np.uint8]:
    """Decode an opened picture; same result and errors as :func:`decode_image`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if limit_px is not None:
                # Lets the JPEG decoder skip what is not needed.
                image.draft("RGB", (limit_px, limit_px))
            if image.mode.startswith("I"):
                # 16 bits: Pillow would clip instead of scale.
                image = Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
            image = image.convert("RGBA" if image.has_transparency_data else "RGB")
            if limit_px is not None:
                image.thumbnail((limit_px, limit_px))
            return np.asarray(image)
    except Exception as exc:
        raise AssetError(f"{label}: the picture is broken: {exc}") from None
