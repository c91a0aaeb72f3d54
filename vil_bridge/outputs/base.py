"""Common parts of outputs that send pictures and measured poses to other middleware."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal

import numpy as np
from pydantic import Field

from vil_bridge.config.base import OutputConfigBase
from vil_bridge.core.errors import SinkError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import DEPTH_NO_HIT, DEPTH_UNITS_PER_M, ImageArray, Modality
from vil_bridge.interfaces.ports import CameraInfo, FrameSink
from vil_bridge.outputs.sink_thread import SinkThread
from vil_bridge.protocols.image_codecs import as_gray
from vil_bridge.runtime.supervisor import Status

_SHOWN: Final = (str(Modality.RGB), str(Modality.GRAY))
_DEPTHS: Final = (str(Modality.DEPTH32), str(Modality.DEPTH))
_FARTHEST_M: Final = 100.0
"""Of :attr:`Modality.DEPTH32`: as far as this = nothing was hit."""


class SenderConfig(OutputConfigBase):
    """Form of the pictures and rate of the poses."""

    variant: Literal["compensated", "raw"] | None = Field(
        default=None,
        description="compensated to the newest pose, or raw as rendered; none = the first that "
        "exists.",
    )
    color: Literal["rgb", "gray"] = Field(default="rgb", description="Colour of the pictures.")
    quality: int = Field(default=90, ge=1, le=100, description="JPEG quality.")
    rate_hz: float = Field(
        default=100.0, gt=0, le=1000.0, description="Poses per second at most; the IMU comes whole."
    )


class RobotSenderConfig(SenderConfig):
    """Keys of outputs that robots read."""

    depth: bool = Field(
        default=False,
        description="Send the depth pictures of cameras that have them too, in metres.",
    )


class OutputBase:
    """Common part of outputs.

    The status, and a thread for each camera (implements ``Output`` but for ``run``).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.status = Status(name)
        self._sinks: list[SinkThread] = []

    # As the port has it.
    def frame_sink(self, camera: CameraInfo) -> FrameSink | None:  # noqa: ARG002
        """Return None: without more it takes no pictures."""
        return None

    def close(self) -> None:
        """End the cameras' threads."""
        for sink in self._sinks:
            sink.close()

    def _add_sink(
        self,
        camera: CameraInfo,
        kinds: Collection[tuple[str, str]],
        send: Callable[[FrameHeader, ImageArray], None],
        is_open: Callable[[tuple[str, str]], bool] = lambda _kind: True,
    ) -> SinkThread:
        """Return a new thread for a camera's pictures of these kinds."""
        sink = SinkThread(f"{self.name}-{camera.model.name}", kinds, send, self.status, is_open)
        self._sinks.append(sink)
        return sink


def kind_of(camera: CameraInfo, variant: str | None) -> tuple[str, str]:
    """Return modality and variant to take of a camera: the first that people can look at.

    Raises:
        SinkError: it has no such pictures.
    """
    found = _first_offered(camera, variant, _SHOWN)
    if found is not None:
        return found
    wanted = "rgb or gray" if variant is None else f"{variant} rgb or gray"
    offered = ", ".join(f"{m} ({', '.join(v)})" for m, v in camera.offers.items())
    raise SinkError(f"camera {camera.model.name} has no {wanted} pictures; it offers {offered}")


def kinds_of(
    camera: CameraInfo, config: RobotSenderConfig
) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
    """Return the kinds of pictures and of depth to take of a camera, each None where it has none
    that is asked for.

    Raises:
        SinkError: it has neither.
    """
    depth = _first_offered(camera, config.variant, _DEPTHS) if config.depth else None
    shown = _first_offered(camera, config.variant, _SHOWN)
    return (kind_of(camera, config.variant) if depth is None else shown), depth


def _first_offered(
    camera: CameraInfo, variant: str | None, modalities: Sequence[str]
) -> tuple[str, str] | None:
    for modality in modalities:
        variants = camera.offers.get(modality, ())
        if variants and variant in (None, *variants):
            return modality, variant or variants[0]
    return None


def depth_m(pixels: ImageArray) -> ImageArray:
    """Return z-depth in metres, float32 (h, w), contiguous, top row first.

    Infinite where nothing was hit.
    """
    if pixels.dtype == np.uint16:
        metres = (pixels / np.float32(DEPTH_UNITS_PER_M)).astype(np.float32)
        return np.ascontiguousarray(np.where(pixels == DEPTH_NO_HIT, np.float32(np.inf), metres))
    return np.ascontiguousarray(np.where(pixels >= _FARTHEST_M, np.float32(np.inf), pixels))


def upright(pixels: ImageArray, color: str) -> ImageArray:
    """Return contiguous pixels (h, w, 3) or (h, w), top row first; gray where asked for."""
    return np.ascontiguousarray(as_gray(pixels) if color == "gray" else pixels)
