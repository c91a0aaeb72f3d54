"""The block of uniforms that all programs share: camera, light, size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray
from vil_renderer.embedded.engine.shader_vertex import MAX_LAMPS
from vil_renderer.embedded.optics.camera import clip_from_world, world_from_ndc_ray
from vil_renderer.embedded.scene import Environment, Lamp

_BLOCK: Final = np.dtype(
    [
        *((name, "(4,4)f4") for name in ("clip", "prev_clip", "shadow", "camera", "ray")),
        *((name, "4f4") for name in ("sky", "ground", "to_sun", "to_sun_view", "up_view", "sun")),
        *((name, "4f4") for name in ("zenith", "horizon", "size_px", "exposure")),
        *((name, f"({MAX_LAMPS},4)f4") for name in ("lamp_place", "lamp_light", "lamp_axis")),
    ]
)
FRAME_BYTES: Final = _BLOCK.itemsize


@dataclass(frozen=True, slots=True, eq=False)
class LightState:
    """The light of one moment.

    Attributes:
        shadow_from_world: (4, 4), into the sun's shadow map, 0..1. texel: one of its texels, lift_m: how far a
            surface is lifted towards the light before it is looked up; 0 = no map.
    """

    environment: Environment
    lamps: Sequence[Lamp]
    shadow_from_world: FloatArray
    texel: float = 0.0
    lift_m: float = 0.0


def depth_block(clip_from_world: FloatArray) -> npt.NDArray[np.void]:
    """Return the uniform block of a pass that writes depth only."""
    block = np.zeros((), _BLOCK)
    block["clip"] = clip_from_world.T
    return block


def frame_block(
    camera: CameraModel, T_world_camera: Transform, prev_clip: FloatArray, light: LightState, exposure: float
) -> npt.NDArray[np.void]:
    """Return the block's bytes for one camera; matrices are stored by columns, as OpenGL reads them."""
    block = np.zeros((), _BLOCK)
    eye = T_world_camera.p_m
    T_camera_world = T_world_camera.inverse()
    _write_environment(block, light)
    block["clip"] = clip_from_world(camera, T_world_camera).T
    block["prev_clip"] = prev_clip.T
    block["shadow"] = light.shadow_from_world.T
    R_camera_world = T_camera_world.rotation()
    block["camera"][:3, :3] = R_camera_world.T
    block["camera"][3, :3] = T_camera_world.p_m
    block["camera"][3, 3] = 1.0
    block["up_view"][:3] = R_camera_world[:, 2]
    block["to_sun_view"][:3] = R_camera_world @ block["to_sun"][:3]
    block["ray"][:3, :3] = world_from_ndc_ray(camera, T_world_camera).T
    nearest = sorted(light.lamps, key=lambda lamp: float(np.sum((lamp.p_m - eye) ** 2)))[:MAX_LAMPS]
    for i, lamp in enumerate(nearest):
        _write_lamp(block, i, lamp, light.environment.exposure)
    block["exposure"][0] = exposure
    block["size_px"] = camera.width_px, camera.height_px, light.texel, len(nearest)
    return block


def _write_environment(block: npt.NDArray[np.void], light: LightState) -> None:
    environment = light.environment
    for name in ("sky", "ground", "zenith", "horizon"):
        block[name][:3] = np.asarray(getattr(environment, name)) * environment.exposure
    if environment.sun is not None:
        block["sun"][:3] = environment.sun.light * environment.exposure
        block["to_sun"] = *environment.sun.to_sun, light.lift_m


def _write_lamp(block: npt.NDArray[np.void], i: int, lamp: Lamp, exposure: float) -> None:
    block["lamp_place"][i] = *lamp.p_m, 0.0 if lamp.range_m <= 0.0 else lamp.range_m**-4
    if lamp.direction is None:
        scale, axis, edge = 1.0, np.zeros(3), -1.0
    else:
        inner, edge = np.cos(lamp.cone_rad[0]), float(np.cos(lamp.cone_rad[1]))
        scale, axis = 1.0 / max(inner - edge, 1e-4), lamp.direction
    block["lamp_light"][i] = *(lamp.light * exposure), scale
    block["lamp_axis"][i] = *axis, edge
