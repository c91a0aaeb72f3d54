"""Our pictures of the comparison.

Every shipped scene from places where a drone flies, through a camera's sensor.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.config.camera import CameraConfig
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import CameraModel, ImageArray, Modality, View, WorldSnapshot
from vil_bridge.pipeline.camera import T_FLU_OPTICAL
from vil_bridge.pipeline.sensor.stage import SensorStage
from vil_bridge.tools.bench.realism.real_set import brought
from vil_renderer.embedded import EmbeddedRenderer

PRESET: Final = "d435"
"""A colour camera that many drones carry."""
PROFILE: Final = "medium"
PLACES: Final = 6
"""In each scene."""
_MOST_TRIES: Final = 200
_NEAR_M: Final = 1.0
_NEAR_PERCENT: Final = 10.0
"""No close-ups, as among the real pictures: a tenth of the picture at most is nearer."""
_MOST_PITCH_DEG: Final = 15.0
_STEP_NS: Final = 1_000_000_000


class FlightVolume(NamedTuple):
    """Volume in which a drone flies in a scene, about the origin, metres."""

    half_x_m: float
    half_y_m: float
    low_m: float
    high_m: float


VOLUMES: Final[Mapping[str, FlightVolume]] = {
    "alphapilot": FlightVolume(40.0, 22.0, 1.0, 5.0),
    "blocks": FlightVolume(20.0, 20.0, 1.0, 6.0),
    "course": FlightVolume(26.0, 14.0, 1.0, 4.0),
    "empty": FlightVolume(50.0, 50.0, 1.0, 6.0),
    "forest": FlightVolume(40.0, 40.0, 1.0, 6.0),
    "garage": FlightVolume(15.0, 11.0, 0.8, 2.4),
    "hall": FlightVolume(8.0, 5.0, 0.8, 2.5),
    "lab": FlightVolume(2.2, 1.6, 0.8, 2.4),
    "street": FlightVolume(34.0, 6.0, 1.0, 6.0),
    "yard": FlightVolume(8.0, 8.0, 1.0, 6.0),
}


def pictures_of(scene: str, places: int = PLACES, *, baked: bool = True) -> Iterator[ImageArray]:
    """Yield pictures of a shipped scene, RGB at 640x480, the same at every call.

    The camera has the size of its preset. Its pictures are cut and made smaller as the real ones
    are. Exposure and white balance are automatic, and those of each picture alone.

    Args:
        scene: its name.
        places: how many.
        baked: with the light of all bounces, from the cache or worked out now (minutes).

    Raises:
        RendererError: no OpenGL.
    """
    config = CameraConfig.model_validate({"renderer": "drawn", "preset": PRESET})
    sensor = config.image_sensor()
    with EmbeddedRenderer(scene, PROFILE, baked=baked) as renderer:
        for number, pose in enumerate(poses_in(renderer, scene, places)):
            camera, t_ns = config.camera_model(f"{scene}{number}"), number * _STEP_NS
            (seen,) = renderer.render(
                [View(camera, Modality.RGB, pose, t_ns)], WorldSnapshot(t_ns, ())
            )
            stage = SensorStage(camera, sensor, None)
            yield brought(
                stage.picture(Modality.RGB, seen.pixels, t_ns, lambda: None, tone_curve=baked)
            )


def poses_in(renderer: EmbeddedRenderer, scene: str, places: int) -> Iterator[Transform]:
    """Yield random poses of a camera in a scene's volume, optical axes.

    Any heading, 0 to 15 degrees down.
    """
    volume = VOLUMES[scene]
    rng = np.random.default_rng(zlib.crc32(scene.encode()))
    made = 0
    for _ in range(_MOST_TRIES):
        x, y = rng.uniform(-1.0, 1.0, 2) * volume[:2]
        z = float(rng.uniform(volume.low_m, volume.high_m))
        yaw_rad, pitch_rad = rng.uniform((0.0, 0.0), (2.0 * math.pi, math.radians(_MOST_PITCH_DEG)))
        pose = (
            Transform.of((float(x), float(y), z), q_from_euler_zyx(yaw_rad, pitch_rad, 0.0))
            @ T_FLU_OPTICAL
        )
        if made < places and _far_enough(renderer, pose):
            made += 1
            yield pose


def _far_enough(renderer: EmbeddedRenderer, pose: Transform) -> bool:
    view = View(CameraModel("near", 64, 48, math.radians(42.5)), Modality.DEPTH32, pose, 0)
    (depth,) = renderer.render([view], WorldSnapshot(0, ()))
    return (
        not renderer.collision(view) and float(np.percentile(depth.pixels, _NEAR_PERCENT)) > _NEAR_M
    )
