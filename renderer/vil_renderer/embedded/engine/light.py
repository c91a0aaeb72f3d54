"""Light for the vertices of static objects.

Ambient occlusion once, lamps and sun whenever they change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.engine.materials import GAMMA
from vil_renderer.embedded.engine.model_light import LightField
from vil_renderer.embedded.engine.shader_frame import LIGHT_ONE
from vil_renderer.embedded.engine.vertices import StaticMesh
from vil_renderer.embedded.scene import Environment, Lamp

_LIFT_M: Final = 0.02
_FAINT: Final = 0.004
_SUN_FAR_M: Final = 200.0
_LUMINANCE: Final = np.array([0.2126, 0.7152, 0.0722])


class StoredLight(NamedTuple):
    """Light of static surfaces as the shaders read it.

    Attributes:
        vertices: uint8 (n, 4). atlas: that of charts, uint8 (h, w, 4), which is added; None = there
            are none.
    """

    vertices: npt.NDArray[np.uint8]
    atlas: npt.NDArray[np.uint8] | None = None


class ModelLight(NamedTuple):
    """Light on models that move.

    Attributes:
        environment: the same for all, exposure included. field: where its ambient light differs,
            that of each place.
    """

    environment: Environment
    field: LightField | None = None


class SurfaceLight(Protocol):
    """Light on static surfaces."""

    def bake(
        self, environment: Environment, lamps: Sequence[Lamp], *, display: bool
    ) -> StoredLight:
        """Return the light as display values with the sun, or linear without it."""
        ...

    def on_models(self, environment: Environment, *, display: bool) -> ModelLight:
        """Return the light on models that move, which have the shadows of the sun in it for
        display values.
        """
        ...


Occluded = Callable[[FloatArray, FloatArray], BoolArray]
"""Function that returns whether something stands between points (n, 3) and points (n, 3)."""


def lamp_light(lamp: Lamp, p_m: FloatArray, normal: FloatArray) -> npt.NDArray[np.float64]:
    """Return a lamp's strength on surface points (n, 3), shape (n,).

    The same sum as in the shaders.
    """
    to = lamp.p_m - p_m
    r2 = np.maximum(np.einsum("ni,ni->n", to, to), 1e-4)
    to /= np.sqrt(r2)[:, None]
    strength = np.maximum(np.einsum("ni,ni->n", normal, to), 0.0) / r2
    if lamp.range_m > 0.0:
        strength *= np.clip(1.0 - (r2 / lamp.range_m**2) ** 2, 0.0, 1.0) ** 2
    if lamp.direction is not None:
        inner = np.cos(lamp.cone_rad[0])
        outer = np.cos(lamp.cone_rad[1])
        cone = np.clip((-(to @ lamp.direction) - outer) / max(inner - outer, 1e-4), 0.0, 1.0)
        strength *= cone * cone
    return np.asarray(strength)


class StaticLight:
    """Light that each vertex receives.

    Attributes:
        ambient_share: share of the ambient light that the surroundings leave, (n,).
    """

    def __init__(
        self, mesh: StaticMesh, ambient_share: npt.NDArray[np.float32], occluded: Occluded | None
    ) -> None:
        self._p = mesh.vertices["p"].astype(np.float64)
        self._normal = mesh.vertices["normal"].astype(np.float64)
        self._colour = mesh.vertices["colour"][:, :3] / 255.0
        self._occluded = occluded
        self.ambient_share = ambient_share

    def bake(
        self, environment: Environment, lamps: Sequence[Lamp], *, display: bool
    ) -> StoredLight:
        """Return the light of each vertex.

        Args:
            environment: its light, exposure included.
            lamps: all of them; here their number is not bounded.
            display: sunlight and vertex colours included, as a factor on display values (profile
                low), with the luminance of the vertex colour as the fourth number; else linear
                light without the sun, which is added per pixel.
        """
        up = 0.5 + 0.5 * self._normal[:, 2:3]
        light = (
            environment.ground + up * (environment.sky - environment.ground)
        ) * self.ambient_share[:, None]
        for lamp in lamps:
            strength = lamp_light(lamp, self._p, self._normal)
            reach = strength * float(np.max(lamp.light, initial=0.0)) > _FAINT
            strength[reach] *= self._seen(reach, lamp.p_m)
            light += strength[:, None] * lamp.light
        if display and environment.sun is not None:
            sun = environment.sun
            strength = np.maximum(self._normal @ sun.to_sun, 0.0)
            lit = strength > _FAINT
            strength[lit] *= self._seen(lit, self._p[lit] + _SUN_FAR_M * sun.to_sun)
            light += strength[:, None] * sun.light
        light *= environment.exposure
        stored = (light * self._colour) ** (1.0 / GAMMA) if display else np.sqrt(light)
        rgba = as_levels(stored)
        if display:
            rgba[:, 3] = 255.0 * (self._colour @ _LUMINANCE) ** (1.0 / GAMMA)
        return StoredLight(rgba)

    def on_models(self, environment: Environment, *, display: bool) -> ModelLight:
        """Return the light on models that move: that of the whole scene."""
        del display
        return ModelLight(environment)

    def _seen(self, which: BoolArray, light_m: FloatArray) -> FloatArray:
        """Return 1 for vertices in sight of a light at (3,) or (n, 3), else 0."""
        p = self._p[which] + _LIFT_M * self._normal[which]
        if self._occluded is None or not len(p):
            return np.ones(len(p))
        return 1.0 - self._occluded(p, np.broadcast_to(light_m, p.shape)).astype(np.float64)


def as_levels(stored: FloatArray | npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Return light (..., 3), already a root or a display value, as the shaders read it, uint8.

    ..., 4.
    """
    rgba = np.full((*stored.shape[:-1], 4), 255, np.uint8)
    rgba[..., :3] = np.clip(LIGHT_ONE * stored + 0.5, 0, 255)
    return rgba
