"""The block of uniforms that all programs share: camera, light, size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform, q_to_matrix
from vil_bridge.core.types import CameraModel, FloatArray
from vil_bridge.core.weather import FINE, Weather
from vil_renderer.embedded.engine.air import LAYER_M, air_of, airlight, falling_share
from vil_renderer.embedded.engine.detail import ViewPoints
from vil_renderer.embedded.engine.shader_frame import MAX_LAMPS
from vil_renderer.embedded.geometry.sky_cover import SkyCover
from vil_renderer.embedded.optics.camera import FAR_M, clip_from_cameras, world_from_ndc_rays
from vil_renderer.embedded.scene import Environment, Lamp

_BLOCK: Final = np.dtype(
    [
        *((name, "(4,4)f4") for name in ("clip", "clip_motion", "shadow", "camera", "ray")),
        *((name, "4f4") for name in ("sky", "ground", "to_sun", "to_sun_view", "up_view", "sun")),
        *((name, "4f4") for name in ("zenith", "horizon", "size_px", "exposure")),
        *(
            (name, "4f4")
            for name in ("air", "glow", "cover", "eye", "wind", "roof_low", "roof_scale", "moment")
        ),
        *((name, f"({MAX_LAMPS},4)f4") for name in ("lamp_place", "lamp_light", "lamp_axis")),
    ]
)
_LAMP: Final = np.dtype([(name, "4f4") for name in ("lamp_place", "lamp_light", "lamp_axis")])
_ALIGNMENT: Final = 256  # of a uniform block's place in a buffer, on all machines
FRAME_BYTES: Final = -(-_BLOCK.itemsize // _ALIGNMENT) * _ALIGNMENT
_BEHIND_M: Final = 1.0e4
_SWAY_S: Final = 0.03
_MOST_SWAY_M: Final = 0.6
"""Way of the top of a tree of 10 m in a wind of 1 m/s, and its bound."""
_SWAY_PERIOD_NS: Final = 2_300_000_000


@dataclass(frozen=True, eq=False)
class LightState:
    """The light of one moment.

    Attributes:
        shadow_from_world: (4, 4), into the sun's shadow map, 0..1. texel: one of its texels,
            lift_m: how far a surface is lifted towards the light before it is looked up; 0 = no
            map.
        cover: roofs; None = the sky is open everywhere.
    """

    environment: Environment
    lamps: Sequence[Lamp]
    shadow_from_world: FloatArray
    texel: float = 0.0
    lift_m: float = 0.0
    weather: Weather = FINE
    cover: SkyCover | None = None

    @cached_property
    def block(self) -> npt.NDArray[np.void]:
        """Uniform block with what is the same for all cameras, (1,)."""
        block = np.zeros(1, _BLOCK)
        environment = self.environment
        for name in ("sky", "ground", "zenith", "horizon"):
            block[name][:, :3] = np.asarray(getattr(environment, name)) * environment.exposure
        if environment.sun is not None:
            block["sun"][:, :3] = environment.sun.light * environment.exposure
            block["to_sun"] = *environment.sun.to_sun, self.lift_m
        block["shadow"] = self.shadow_from_world.T
        block["size_px"][:, 2] = self.texel
        weather = self.weather
        block["cover"] = weather.ground_wetness, weather.ground_snow, weather.ground_leaves, LAYER_M
        block["wind"][:, :3] = np.clip(
            _SWAY_S * np.array(weather.wind_mps), -_MOST_SWAY_M, _MOST_SWAY_M
        )
        if self.cover is not None:
            block["roof_low"] = (*self.cover.low_m, self.cover.room_m)
            block["roof_scale"][:, :3] = 1.0 / self.cover.size_m
        return block

    def roofed(self, eye_m: FloatArray) -> FloatArray:
        """Return the share of the sky that roofs hide from points (c, 3), (c,)."""
        return np.zeros(len(eye_m)) if self.cover is None else self.cover.share_over(eye_m)

    @cached_property
    def lamp_rows(self) -> npt.NDArray[np.void]:
        """Lamps as the shaders read them, (k,)."""
        rows = np.zeros(len(self.lamps), _LAMP)
        for i, lamp in enumerate(self.lamps):
            _write_lamp(rows, i, lamp, self.environment.exposure)
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class Shot:
    """Camera, pose and gain of one picture.

    ``previous`` is the camera's pose in its previous picture.

    Attributes:
        t_ns: of the picture. before_ns: of the previous one. open_s: time for which the shutter is
            open.
    """

    camera: CameraModel
    T_world_camera: Transform
    previous: Transform
    gain: float
    t_ns: int = 0
    before_ns: int = 0
    open_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Matrices of c pictures.

    Attributes:
        views: the viewpoints. blocks: the uniform blocks, one after the other, ``FRAME_BYTES``
            each.
    """

    views: ViewPoints
    blocks: npt.NDArray[np.uint8]


def depth_block(clip_from_world: FloatArray) -> npt.NDArray[np.uint8]:
    """Return the uniform block of a pass that writes depth only."""
    block = np.zeros(1, _BLOCK)
    block["clip"] = clip_from_world.T
    return _padded(block)


def frames_of(shots: Sequence[Shot], light: LightState, far_m: float = FAR_M) -> Frames:
    """Return the matrices of pictures.

    In the blocks they are stored by columns, as OpenGL reads them.

    Nothing is drawn beyond ``far_m``.
    """
    cameras = [shot.camera for shot in shots]
    projection = clip_from_cameras(cameras, far_m)
    eye_m, R_world_camera, clip = _looking([shot.T_world_camera for shot in shots], projection)
    was_m, R_was, prev_clip = _looking([shot.previous for shot in shots], projection)
    R_camera_world = R_world_camera.transpose(0, 2, 1)
    block = np.repeat(light.block, len(shots))
    block["eye"][:, :3] = eye_m
    block["clip"] = clip.transpose(0, 2, 1)
    block["clip_motion"] = (clip - prev_clip).transpose(0, 2, 1)
    block["camera"][:, :3, :3] = R_world_camera
    block["camera"][:, 3, :3] = -(R_camera_world @ eye_m[:, :, None])[..., 0]
    block["camera"][:, 3, 3] = 1.0
    block["up_view"][:, :3] = R_camera_world[:, :, 2]
    block["to_sun_view"][:, :3] = (R_camera_world @ block["to_sun"][:, :3, None])[..., 0]
    block["ray"][:, :3, :3] = world_from_ndc_rays(cameras, R_world_camera).transpose(0, 2, 1)
    _write_lamps(block, light, eye_m)
    block["exposure"][:, 0] = [shot.gain for shot in shots]
    block["exposure"][:, 1] = light.environment.exposure
    block["size_px"][:, 0] = [camera.width_px for camera in cameras]
    block["size_px"][:, 1] = [camera.height_px for camera in cameras]
    f_px = np.array([max(camera.intrinsics_px[:2]) for camera in cameras])
    if light.weather != FINE:
        _write_weather(block, light, eye_m, shots, f_px)
    return Frames(ViewPoints(eye_m, f_px, was_m - _BEHIND_M * R_was[:, :, 2], clip), _padded(block))


def _looking(
    poses: Sequence[Transform], projection: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return places (c, 3), rotations (c, 3, 3) and matrices from the world to clip space (c, 4,
    4) of cameras.
    """
    p_m = np.array([T.p_m for T in poses])
    R = q_to_matrix(np.array([T.q_xyzw for T in poses]))
    camera_from_world = np.zeros((len(poses), 4, 4))
    camera_from_world[:, :3, :3] = R.transpose(0, 2, 1)
    camera_from_world[:, :3, 3] = -(R.transpose(0, 2, 1) @ p_m[:, :, None])[..., 0]
    camera_from_world[:, 3, 3] = 1.0
    return p_m, R, projection @ camera_from_world


def _padded(block: npt.NDArray[np.void]) -> npt.NDArray[np.uint8]:
    padded = np.zeros((len(block), FRAME_BYTES), np.uint8)
    padded[:, : _BLOCK.itemsize] = block.view(np.uint8).reshape(len(block), -1)
    return padded


def _write_weather(
    block: npt.NDArray[np.void],
    light: LightState,
    eye_m: FloatArray,
    shots: Sequence[Shot],
    f_px: FloatArray,
) -> None:
    extinction, scattered = air_of(light.weather)
    glow = airlight(light.environment, light.lamps, eye_m, light.roofed(eye_m))
    block["air"][:, :3] = glow * scattered
    block["air"][:, 3] = extinction
    block["glow"][:, 3] = falling_share(light.weather)
    block["glow"][:, :3] = glow
    times = np.array(
        [(shot.t_ns % _SWAY_PERIOD_NS, shot.before_ns % _SWAY_PERIOD_NS) for shot in shots]
    )
    block["moment"][:, :2] = 2.0 * np.pi / _SWAY_PERIOD_NS * times
    block["moment"][:, 2] = [shot.open_s for shot in shots]
    block["moment"][:, 3] = 1.0 / f_px


def _write_lamps(block: npt.NDArray[np.void], light: LightState, eye_m: FloatArray) -> None:
    """Write the lamps nearest to each eye, the nearest first."""
    if not light.lamps:
        return
    away = eye_m[:, None] - np.array([lamp.p_m for lamp in light.lamps])
    nearest = np.argsort((away**2).sum(axis=2), axis=1, kind="stable")[:, :MAX_LAMPS]
    count = nearest.shape[1]
    for name in _LAMP.names or ():
        block[name][:, :count] = light.lamp_rows[name][nearest]
    block["size_px"][:, 3] = count


def _write_lamp(rows: npt.NDArray[np.void], i: int, lamp: Lamp, exposure: float) -> None:
    rows["lamp_place"][i] = *lamp.p_m, 0.0 if lamp.range_m <= 0.0 else lamp.range_m**-4
    if lamp.direction is None:
        scale = 1.0
        axis = np.zeros(3)
        edge = -1.0
    else:
        inner = np.cos(lamp.cone_rad[0])
        edge = float(np.cos(lamp.cone_rad[1]))
        scale = 1.0 / max(inner - edge, 1e-4)
        axis = lamp.direction
    rows["lamp_light"][i] = *(lamp.light * exposure), scale
    rows["lamp_axis"][i] = *axis, edge
