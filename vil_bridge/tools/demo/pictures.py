"""The demo's pictures for people: raw, compensated, and their differences from the reference."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from vil_bridge.core.types import DEPTH_UNITS_PER_M, ImageArray
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.tools.demo.collect import StreamReader
from vil_bridge.tools.demo.evaluate import Delivered, Evaluator

__all__ = ["save_pictures"]

_DEPTH_SHOWN_M = 15.0


def save_pictures(out: Path, readers: dict[str, StreamReader], evaluator: Evaluator, camera: BridgeCamera) -> None:
    """Write raw, compensated, reference, difference, depth and the two actors as PNG into ``out``.

    Raw and compensated are the pair with the largest turn in between, where there is most to see;
    ``difference.png`` shows both against the reference: left raw, right compensated.
    """
    pair = _most_turned(readers["raw"].retained, readers["compensated"].retained)
    if pair is not None:
        raw, compensated = pair
        _write(out / "raw.png", raw.gray)
        _write(out / "compensated.png", compensated.gray)
        references = [evaluator.reference(camera, picture.t_use_ns) for picture in pair]
        if references[0] is not None and references[1] is not None:
            _write(out / "reference.png", references[1])
            off = [cv2.absdiff(p.gray, r) for p, r in zip(pair, references, strict=True) if r is not None]
            _write(out / "difference.png", np.hstack(off))
    depth = readers["depth"].newest
    if depth is not None:
        metres = depth[1] / DEPTH_UNITS_PER_M
        shade = np.clip(255.0 * metres / _DEPTH_SHOWN_M, 0, 255).astype(np.uint8)
        _write(out / "depth.png", cv2.applyColorMap(255 - shade, cv2.COLORMAP_TURBO))
    observer = readers["observer"].best
    if observer is not None:
        _write(out / "two_actors.png", cv2.cvtColor(np.ascontiguousarray(observer[1]), cv2.COLOR_RGB2BGR))


def _most_turned(raw: list[Delivered], compensated: list[Delivered]) -> tuple[Delivered, Delivered] | None:
    """Return the pictures of both streams from one request (or nearly), where the late warp turned most."""
    if not raw or not compensated:
        return None
    best = max(compensated, key=lambda d: d.header["compensation"].get("angle_rad", 0.0))
    return min(raw, key=lambda d: abs(d.t_use_ns - best.t_use_ns)), best


def _write(path: Path, image: ImageArray) -> None:
    if not cv2.imwrite(str(path), image):
        raise OSError(f"cannot write {path}")
