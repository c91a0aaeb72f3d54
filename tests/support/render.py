"""Scenes of which every pixel is known, cameras in them, and renderers of them, for the proofs of
the renderer.

The plain camera here is the world: its optical axes are the world's (x right, y down, z ahead).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tests.support.opengl import drawing
from vil_bridge.core.camera_model import NO_EFFECTS, Distortion, Effects
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    CameraModel,
    FloatArray,
    ImageArray,
    Modality,
    RenderedImage,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.assets.model import Asset, Material, Primitive, Texture, TextureUse
from vil_renderer.embedded.engine.profiles import Profile
from vil_renderer.embedded.scene import Environment, Lamp, Scene, SceneObject, Sun

LSB_PER_M = 655.35
AHEAD = Transform.identity()
NOBODY = WorldSnapshot(0, ())
WHITE = Material()
PERIOD_NS = 16_666_667


class Renderers:
    """Renderers by scene and profile, for one module; closed with it."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str | Profile], tuple[Scene, EmbeddedRenderer]] = {}

    def of(self, scene: Scene, profile: str | Profile = "low") -> EmbeddedRenderer:
        key = (id(scene), profile)
        if key not in self._made:
            self._made[key] = scene, drawing(scene, profile)
        return self._made[key][1]

    def close(self) -> None:
        for _, renderer in self._made.values():
            renderer.close()


# --- cameras -----------------------------------------------------------------------------------


def camera(
    name: str = "cam",
    size: tuple[int, int] = (320, 240),
    fov_deg: float = 70.0,
    pinhole_px: tuple[float, float, float, float] | None = None,
    distortion: Distortion | None = None,
    effects: Effects = NO_EFFECTS,
) -> CameraModel:
    return CameraModel(name, *size, math.radians(fov_deg), pinhole_px, distortion, effects)


def named(model: CameraModel, name: str) -> CameraModel:
    return replace(model, name=name)


def rays(model: CameraModel) -> FloatArray:
    """K^-1 (u, v, 1) of every pixel centre, shape (h, w, 3)."""
    fx, fy, cx, cy = model.intrinsics_px
    u, v = np.meshgrid(np.arange(model.width_px), np.arange(model.height_px))
    return np.stack(((u - cx) / fx, (v - cy) / fy, np.ones(u.shape)), axis=-1)


def pixels_of(model: CameraModel) -> FloatArray:
    """(u, v) of every pixel, shape (h, w, 2)."""
    u, v = np.meshgrid(
        np.arange(model.width_px, dtype=float), np.arange(model.height_px, dtype=float)
    )
    return np.stack((u, v), axis=-1)


def projected(model: CameraModel, p_camera_m: FloatArray) -> FloatArray:
    """Pixels (..., 2) of points (..., 3) in optical axes, of an ideal pinhole."""
    fx, fy, cx, cy = model.intrinsics_px
    seen: FloatArray = p_camera_m[..., :2] / p_camera_m[..., 2:] * (fx, fy) + (cx, cy)
    return seen


def turn(axis: npt.ArrayLike, angle_deg: float) -> FloatArray:
    """Rotation matrix by Rodrigues' formula."""
    k = np.array(axis, float) / np.linalg.norm(axis)
    K = np.array([[0, -k[2], k[1]], [k[2], 0, -k[0]], [-k[1], k[0], 0]])
    a = math.radians(angle_deg)
    turned: FloatArray = np.eye(3) + math.sin(a) * K + (1 - math.cos(a)) * K @ K
    return turned


def at(p_m: npt.ArrayLike = (0.0, 0.0, 0.0), R: FloatArray | None = None) -> Transform:
    return Transform.of(p_m, q_from_matrix(np.eye(3) if R is None else R))


def shots(
    renderer: EmbeddedRenderer,
    model: CameraModel,
    modalities: Sequence[Modality],
    T_world_camera: Transform = AHEAD,
    snapshot: WorldSnapshot = NOBODY,
    *,
    t_ns: int = 0,
    hide: tuple[str, ...] = (),
    layer: str = "",
) -> tuple[RenderedImage, ...]:
    views = [View(model, m, T_world_camera, t_ns, hide=hide, layer=layer) for m in modalities]
    return renderer.render(views, snapshot)


def shot(
    renderer: EmbeddedRenderer,
    model: CameraModel,
    modality: Modality = Modality.RGB,
    T_world_camera: Transform = AHEAD,
    snapshot: WorldSnapshot = NOBODY,
    *,
    t_ns: int = 0,
    hide: tuple[str, ...] = (),
    layer: str = "",
) -> ImageArray:
    return shots(
        renderer, model, (modality,), T_world_camera, snapshot, t_ns=t_ns, hide=hide, layer=layer
    )[0].pixels


def moved(
    name: str, p_m: npt.ArrayLike, R: FloatArray | None = None, prefab: str = ""
) -> ActorState:
    """Puts the scene's movable object of that name somewhere, or a model of the scene's."""
    return ActorState(name, ActorKind.PROP, TrackingState.TRACKED, 0, at(p_m, R), prefab=prefab)


def everybody(*actors: ActorState, t_ns: int = 0) -> WorldSnapshot:
    return WorldSnapshot(t_ns, actors)


# --- shapes ------------------------------------------------------------------------------------


def texture(pixels: npt.ArrayLike) -> TextureUse:
    return TextureUse(Texture(np.asarray(pixels, np.uint8), ("clamp", "clamp")))


def plate(
    centre: Sequence[float],
    right: Sequence[float],
    up: Sequence[float],
    material: Material = WHITE,
    cells: int = 1,
    colour: Sequence[int] | None = None,
) -> Primitive:
    """A parallelogram seen from ``right x up``, half sides given; its texture the right way up."""
    r, w = np.array(right, float), np.array(up, float)
    s, t = (a.ravel() / cells for a in np.meshgrid(np.arange(cells + 1), np.arange(cells + 1)))
    first = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).ravel()
    faces = np.stack(
        (first, first + 1, first + cells + 2, first, first + cells + 2, first + cells + 1), axis=-1
    )
    p = np.array(centre, float) + (2 * s - 1)[:, None] * r + (2 * t - 1)[:, None] * w
    normal = np.cross(r, w)
    return Primitive(
        p.astype(np.float32),
        np.tile(normal / np.linalg.norm(normal), (len(p), 1)).astype(np.float32),
        np.stack((s, 1 - t), axis=-1).astype(np.float32),
        faces.reshape(-1, 3).astype(np.uint32),
        material,
        colour=None if colour is None else np.tile(np.array(colour, np.uint8), (len(p), 1)),
    )


def facing(
    z_m: float,
    half_m: float,
    material: Material = WHITE,
    cells: int = 1,
    at_m: tuple[float, float] = (0.0, 0.0),
    colour: Sequence[int] | None = None,
) -> Primitive:
    """A square across the plain camera's axis that looks at it."""
    return plate((*at_m, z_m), (half_m, 0, 0), (0, -half_m, 0), material, cells, colour)


def thing(name: str, *parts: Primitive, instance: int = 1, **more: object) -> SceneObject:
    return SceneObject(
        name,
        Asset.of(name, parts),
        np.eye(4),
        **({"semantic": 6, "instance": instance} | more),  # type: ignore[arg-type]
    )


def scene_of(
    *objects: SceneObject,
    ambient: float = 1.0,
    sun: Sun | None = None,
    lamps: tuple[Lamp, ...] = (),
    **more: object,
) -> Scene:
    """Even light from everywhere, and what else is said."""
    return Scene(
        "proof",
        objects,
        Environment(np.full(3, ambient), np.full(3, ambient), sun),
        lamps,
        **more,  # type: ignore[arg-type]
    )


# --- light -------------------------------------------------------------------------------------


def srgb(light: npt.ArrayLike) -> FloatArray:
    """Display level 0..255 of linear light."""
    c = np.clip(np.asarray(light, float), 0.0, 1.0)
    shown: FloatArray = 255.0 * np.where(
        c <= 0.0031308, 12.92 * c, 1.055 * np.maximum(c, 1e-9) ** (1 / 2.4) - 0.055
    )
    return shown


def linear(level: npt.ArrayLike) -> FloatArray:
    """Linear light of a display level 0..255."""
    c = np.asarray(level, float) / 255.0
    light: FloatArray = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return light
