"""Sensors of one camera: what its pictures go through before they are delivered."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

import numpy as np

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.optics.camera_sensor import ImageSensor, StereoDepth
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.sensor.depth_chain import DepthChain
from vil_bridge.pipeline.sensor.image_chain import ImageChain

_IMAGES: Final = (Modality.RGB, Modality.GRAY)
_DEPTHS: Final = (Modality.DEPTH, Modality.DEPTH32)


class SensorStage:
    """Sensors of one camera; its state is the automatic exposure and white balance.

    The same camera, instant and picture give the same bits, with a fixed exposure and white balance
    or after the same pictures. The camera's name is the serial number of its fixed pattern.

    Args:
        camera: as delivered.
        image: its image sensor; None = pictures stay as they were rendered.
        depth: its depth sensor; None = depths stay true.
    """

    def __init__(
        self, camera: CameraModel, image: ImageSensor | None, depth: StereoDepth | None
    ) -> None:
        self._serial = zlib.crc32(camera.name.encode())
        self._image = None if image is None else ImageChain(image, camera, self._serial)
        self._depth = None if depth is None else DepthChain(depth, camera)
        self._needs_texture = depth is not None and depth.least_contrast > 0.0

    def picture(
        self,
        modality: Modality,
        rendered: ImageArray,
        t_ns: int,
        texture: Callable[[], ImageArray | None],
        *,
        tone_curve: bool = False,
    ) -> ImageArray:
        """Return a picture as the camera delivers it.

        Args:
            modality: of the picture; those without a sensor are returned as they are.
            rendered: the picture at its instant, undistorted by any sensor.
            t_ns: the instant, bridge time.
            texture: returns the same view in RGB or gray, as rendered; None = there is none.
            tone_curve: the picture was rendered with it.
        """
        if self._image is not None and modality in _IMAGES:
            return self._image.picture(rendered, t_ns, self._random(t_ns, 0), tone_curve=tone_curve)
        if self._depth is not None and modality in _DEPTHS:
            seen = texture() if self._needs_texture else None
            return self._depth.picture(rendered, modality, self._random(t_ns, 1), seen)
        return rendered

    def _random(self, t_ns: int, use: int) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64([self._serial, t_ns & (2**63 - 1), use]))


def sensor_stage(camera: BridgeCamera) -> SensorStage | None:
    """Return the sensors of a camera of the bridge; None = it has none."""
    if camera.image_sensor is None and camera.depth_sensor is None:
        return None
    return SensorStage(camera.model, camera.image_sensor, camera.depth_sensor)
