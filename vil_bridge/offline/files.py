"""Files of data sets and replays.

Pictures as bytes, writes that are whole or not there, digests.
"""

from __future__ import annotations

import hashlib
import io
import os
import uuid
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.types import BoolArray, ImageArray
from vil_bridge.protocols import opencv as cv2
from vil_bridge.protocols.image_codecs import encode_jpeg

SUMS: Final = "SHA256SUMS"
_JPEG_QUALITY: Final = 90
_BLOCK: Final = 1 << 20


def suffix_of(pixels: ImageArray) -> str:
    """Return the suffix of :func:`encoded`'s format.

    ``.png`` for pictures of whole numbers, else ``.npy``.
    """
    return ".png" if pixels.dtype.kind == "u" else ".npy"


def encoded(pixels: ImageArray, valid: BoolArray | None = None) -> bytes:
    """Return a picture (h, w) or (h, w, channels) without loss.

    PNG for whole numbers, NumPy's format for all else.

    Args:
        pixels: colours in the order R, G, B, A.
        valid: (h, w), where the values are known; others become NaN.
    """
    if pixels.dtype.kind == "u":
        blue_first = pixels
        if pixels.ndim != 2:
            blue_first = pixels[..., [2, 1, 0, 3][: pixels.shape[2]]]
        return bytes(cv2.imencode(".png", blue_first, (cv2.IMWRITE_PNG_COMPRESSION, 1))[1])
    known = pixels if valid is None else np.where(valid[..., None], pixels, np.float32(np.nan))
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(known), allow_pickle=False)
    return stream.getvalue()


def jpeg(pixels: ImageArray) -> bytes:
    """Return a picture of uint8, (h, w) or (h, w, 3), as the stream compresses it by default."""
    return encode_jpeg(pixels, "gray" if pixels.ndim == 2 else "rgb", _JPEG_QUALITY)[0]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is whole or not there, also when this process is killed.

    Makes its folder.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder by its path there, in the order of the paths.

    :data:`SUMS` is left out, and so is what begins with a dot.
    """
    found: dict[str, str] = {}
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(base, name)
            if not name.startswith(".") and path != folder / SUMS:
                found[str(path.relative_to(folder))] = digest(path)
    return dict(sorted(found.items()))


def write_sums(folder: Path) -> None:
    """Write :data:`SUMS`, which ``sha256sum -c`` reads."""
    write_whole(
        folder / SUMS,
        "".join(f"{sha256}  {name}\n" for name, sha256 in digests(folder).items()).encode(),
    )


def folder_digest(folder: Path) -> str:
    """Return one SHA-256 for all files: that of :data:`SUMS`."""
    return digest(folder / SUMS)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        OSError: it cannot be read.
    """
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
