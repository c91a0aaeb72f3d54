"""A recording's pictures as PNG, and what each shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import simplejpeg

from vil_bridge.core.errors import RecordingError
from vil_bridge.core.types import ImageArray
from vil_bridge.protocols import opencv as cv2
from vil_bridge.recording.metadata import RecordingFacts
from vil_bridge.recording.reader import Recording

_MOST_PIXELS: Final = 64 << 20


def to_png(recording: Recording, _facts: RecordingFacts, out: Path) -> Counter[str]:
    """``CAMERA-VARIANT/FRAME.png`` and a line of ``headers.jsonl`` for each."""
    written: Counter[str] = Counter()
    for camera, variants in recording.cameras().items():
        for variant in variants:
            folder = out / f"{camera}-{variant}"
            folder.mkdir(parents=True)
            with (folder / "headers.jsonl").open("xb") as lines:
                for header, jpeg in recording.pictures(camera, variant):
                    pixels = decoded(recording, header, jpeg, cv2.IMREAD_COLOR)
                    path = folder / f"{header['frame_id']}.png"
                    if not cv2.imwrite(str(path), pixels):
                        raise OSError(f"cannot write {path}")
                    lines.write(msgspec.json.encode({**header, "file": path.name}) + b"\n")
                    written[folder.name] += 1
    return written


def shown(
    recording: Recording, camera: str, variant: str
) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Its pictures for formats without a word for a black one of a lost carrier.

    ``on_loss: blank``.
    """
    return (
        (header, jpeg)
        for header, jpeg in recording.pictures(camera, variant)
        if not header.get("blank")
    )


def decoded(recording: Recording, header: dict[str, Any], jpeg: bytes, flags: int) -> ImageArray:
    """Return a picture's pixels (h, w) or (h, w, BGR).

    Raises:
        RecordingError: it is none, or too large.
    """
    width_px = header.get("width")
    height_px = header.get("height")
    if (
        not isinstance(width_px, int)
        or not isinstance(height_px, int)
        or not 0 < width_px * height_px < _MOST_PIXELS
    ):
        raise RecordingError(
            f"{recording.path}: picture {header.get('frame_id')} of {width_px} x "
            f"{height_px} pixels is damaged"
        )
    try:
        size_px = simplejpeg.decode_jpeg_header(jpeg)[:2]
    except ValueError:
        size_px = None
    pixels: ImageArray | None = None
    if size_px == (height_px, width_px):  # before anything is allocated
        pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), flags)
    if pixels is None:
        raise RecordingError(
            f"{recording.path}: picture {header.get('frame_id')} cannot be decoded"
        )
    return pixels
