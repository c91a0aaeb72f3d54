"""Previews for pages: a lossy tap on a camera's relay, and its pictures as small JPEGs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.interfaces.ports import FrameSink
from vil_bridge.protocols import opencv as cv2
from vil_bridge.protocols.image_codecs import encode_jpeg
from vil_bridge.runtime.pacing import SlotTimer
from vil_bridge.web.live.codec import encode_preview

SHOWN: Final = (Modality.RGB, Modality.GRAY, Modality.RGBA)
"""Modalities that a page can show."""
_QUALITY: Final = 80
_WIDEST_PX: Final = 1280


class PreviewTap:
    """A :class:`~vil_bridge.interfaces.ports.FrameSink` with one slot per variant.

    Wants nothing while no page watches.

    Args:
        modality: of the pictures to show; None = the camera has none that people can look at.
        attach, detach: begin and end to hand it the camera's pictures.

    Attributes:
        arrived: called with the variant by the relay thread when a picture lies in its slot.
    """

    def __init__(
        self,
        modality: str | None,
        attach: Callable[[FrameSink], None],
        detach: Callable[[FrameSink], None],
    ) -> None:
        self.arrived: Callable[[str], None] | None = None
        self._modality = modality
        self._attach = attach
        self._detach = detach
        self._paces: Mapping[str, SlotTimer] = {}
        self._newest: dict[str, tuple[FrameHeader, ImageArray]] = {}

    def watch(self, rates_hz: Mapping[str, float]) -> None:
        """Set the variants and their highest rates (any thread)."""
        self._paces = {variant: SlotTimer(hz) for variant, hz in rates_hz.items()}
        (self._attach if rates_hz else self._detach)(self)

    def take(self, variant: str) -> tuple[FrameHeader, ImageArray] | None:
        """Return the newest picture once (any thread)."""
        return self._newest.pop(variant, None)

    def wanted(self, modality: str, variant: str) -> bool:
        """Return True if the next picture of this kind is to be shown."""
        pace = self._paces.get(variant)
        return pace is not None and modality == self._modality and pace.due()

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Put the newest picture into its slot."""
        variant = header.variant
        pace = self._paces.get(variant)
        arrived = self.arrived
        if pace is not None and arrived is not None:
            pace.passed()
            self._newest[variant] = header, pixels
            arrived(variant)

    def flush(self) -> None:
        """Do nothing: no picture waits for the relay here."""

    def close(self) -> None:
        """Stop watching and drop waiting pictures."""
        self._paces = {}
        self._newest.clear()


def picture_message(header: FrameHeader, pixels: ImageArray) -> bytes:
    """Return a preview for the live feed; for a worker thread."""
    height_px, width_px = pixels.shape[:2]
    scale = min(1.0, _WIDEST_PX / width_px)
    capture_ns = header.stamps_ns.capture
    fx, fy, cx, cy = header.K
    pose = None if header.blank else header.pose_display
    fields = {
        "camera": header.camera,
        "variant": header.variant,
        "frame_id": header.frame_id,
        "blank": bool(header.blank),
        "t_capture_ns": capture_ns,
        "t_image_ns": header.stamps_ns.image,
        "age_s": None if capture_ns is None else (now_ns() - capture_ns) / NS_PER_S,
        "angle_rad": header.compensation.get("angle_rad"),
        "width": round(width_px * scale),
        "height": round(height_px * scale),
        # Integer coordinates are pixel centres.
        "K": [fx * scale, fy * scale, (cx + 0.5) * scale - 0.5, (cy + 0.5) * scale - 0.5],
        "pose": None if pose is None else {"p_m": pose.p_m, "q_xyzw": pose.q_xyzw},
    }
    return encode_preview(fields, shown_jpeg(pixels))


def shown_jpeg(pixels: ImageArray) -> bytes:
    """Return an RGB, gray or RGBA picture as JPEG of a width that suits a page."""
    shown = pixels if pixels.ndim == 2 else pixels[:, :, :3]
    height_px, width_px = shown.shape[:2]
    if width_px > _WIDEST_PX:
        scale = _WIDEST_PX / width_px
        shown = cv2.resize(
            shown, (_WIDEST_PX, round(height_px * scale)), interpolation=cv2.INTER_AREA
        )
    return encode_jpeg(shown, "rgb", _QUALITY)[0]
