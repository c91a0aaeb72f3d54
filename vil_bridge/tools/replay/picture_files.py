"""One camera's delivered pictures as files: each with its header, and their ledger for ``vil-bridge report``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec
import numpy as np

from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray
from vil_bridge.monitoring.frame_records import CameraHead
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.frame_ledger import frame_row, ledger_stamps
from vil_bridge.tools.offline.files import encoded, jpeg, suffix_of

__all__ = ["PictureWriter", "write_ledger"]


class PictureWriter:
    """A :class:`~vil_bridge.core.ports.FrameSink` that writes each modality to files.

    Colours are JPEG of quality 90 as the stream has them by default, all else is without loss. ``pictures.jsonl``
    holds each picture's header and file.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, camera: BridgeCamera) -> None:
        self._folder = folder
        self._variant = camera.variants[0]
        for modality in camera.modalities:
            (folder / modality).mkdir(parents=True)
        self._headers: IO[bytes] = (folder / "pictures.jsonl").open("wb")
        self.rows = folder / ".rows"
        self._rows: IO[bytes] = self.rows.open("wb")
        self._last_id = 0

    def wanted(self, modality: str, variant: str) -> bool:  # noqa: ARG002 - all of them
        """Return the compensated picture, where the camera has one."""
        return variant == self._variant

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Write a picture.

        Raises:
            OSError: the disk is full.
        """
        shown = pixels.dtype == np.uint8 and pixels.shape[2:] != (4,)
        name = f"{header.modality}/{header.frame_id}{'.jpg' if shown else suffix_of(pixels)}"
        (self._folder / name).write_bytes(jpeg(pixels) if shown else encoded(pixels))
        self._headers.write(msgspec.json.encode({"file": name, **header.fields()}) + b"\n")
        if header.frame_id != self._last_id:
            self._last_id = header.frame_id
            self._rows.write(msgspec.json.encode(frame_row(header, ledger_stamps(header))) + b"\n")

    def flush(self) -> None:
        """Do nothing: every picture is written at once."""

    def close(self) -> None:
        """Close the tables."""
        self._headers.close()
        self._rows.close()


def write_ledger(path: Path, cameras: Sequence[tuple[CameraHead, PictureWriter]]) -> None:
    """Join the cameras' rows into one file that ``vil-bridge report`` reads."""
    with path.open("wb") as out:
        for head, writer in cameras:
            out.write(msgspec.json.encode(head) + b"\n")
            with writer.rows.open("rb") as rows:
                shutil.copyfileobj(rows, out)
            writer.rows.unlink()
