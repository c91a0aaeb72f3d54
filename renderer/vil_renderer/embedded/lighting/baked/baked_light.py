"""Baked light of a scene, and its mixture for the light of now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.engine.vertices import StaticMesh
from vil_renderer.embedded.lighting.baked.charts import ChartLayout, is_outside
from vil_renderer.embedded.lighting.baked.probes import Probes
from vil_renderer.embedded.lighting.baked.receivers import Receivers
from vil_renderer.embedded.scene import Environment, Lamp

_SAME: Final = 1e-6
_DARK: Final = np.zeros(3)


@dataclass(frozen=True, slots=True, eq=False)
class LightSource:
    """One source of white light 1.

    Attributes:
        lamp: it is this lamp. to_sun: it is a sun in this direction, (3,). Neither = half of the
            sky.
    """

    name: str
    lamp: Lamp | None = None
    to_sun: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BakedLight:
    """Light of each source on each receiver.

    Attributes:
        light: float16 (r, c, 3), over all bounces, for sources of white light 1; without what comes
            straight from lamps and suns.
        straight: float16 (r, l), what comes straight from the lamps.
        probes: the same light amid the scene.
        gain: factor on the exposure of the scene.
    """

    sources: tuple[LightSource, ...]
    layout: ChartLayout
    receivers: Receivers
    light: npt.NDArray[np.float16]
    straight: npt.NDArray[np.float16]
    probes: Probes
    gain: float = 1.0

    def mixed(self, environment: Environment, lamps: Sequence[Lamp]) -> Float32Array:
        """Return the light of receivers, linear RGB, float32 (r, 3), without the exposure.

        What comes straight from the sun is not in it.
        """
        total = self.scattered(environment, lamps)
        colours = {lamp.name: lamp.light for lamp in lamps}
        baked = [source.name for source in self.sources if source.lamp is not None]
        for index, name in enumerate(baked):
            if name in colours:
                total += self.straight[:, index, None].astype(np.float32) * np.asarray(
                    colours[name], np.float32
                )
        return total

    def scattered(self, environment: Environment, lamps: Sequence[Lamp]) -> Float32Array:
        """Return the light of receivers that comes from the sky and from other surfaces, float32.

        R, 3.
        """
        total = np.zeros((len(self.light), 3), np.float32)
        for index, colour in enumerate(self.colours(environment, lamps)):
            if colour.any():
                total += self.light[:, index].astype(np.float32) * colour
        return total

    def colours(self, environment: Environment, lamps: Sequence[Lamp]) -> Float32Array:
        """Return the light of each source now, linear RGB, float32 (c, 3)."""
        colours = {lamp.name: lamp.light for lamp in lamps} | _sky(environment)
        if environment.sun is not None:
            shares = self._suns(environment.sun.to_sun)
            colours |= {name: share * environment.sun.light for name, share in shares.items()}
        return np.array([colours.get(source.name, _DARK) for source in self.sources], np.float32)

    def _suns(self, to_sun: FloatArray) -> dict[str, float]:
        """Return the shares of baked suns that stand for one.

        The two nearest, by their angles to it.
        """
        suns = [
            (source.name, source.to_sun) for source in self.sources if source.to_sun is not None
        ]
        angles = {
            name: float(np.arccos(np.clip(direction @ to_sun, -1.0, 1.0)))
            for name, direction in suns
        }
        nearest = sorted(angles, key=angles.__getitem__)[:2]
        if len(nearest) < 2 or angles[nearest[0]] < _SAME:
            return dict.fromkeys(nearest[:1], 1.0)
        a, b = (angles[name] for name in nearest)
        return {nearest[0]: b / (a + b), nearest[1]: a / (a + b)}

    def atlas(self, light: Float32Array) -> Float32Array:
        """Return the light (r, 3) of receivers as a picture, float32 (h + 1, w, 3).

        0 where no chart is near.

        The last row is 0: vertices without a chart look there.
        """
        dark = np.full((1, self.receivers.of_texel.shape[1]), -1, np.int32)
        of_texel = np.concatenate((self.receivers.of_texel, dark))
        return np.concatenate((light, np.zeros((1, 3), np.float32)))[of_texel]

    def of_vertices(self, light: Float32Array) -> Float32Array:
        """Return the light (r, 3) of vertices that are in no chart, float32 (v, 3).

        0 for the others.
        """
        return np.concatenate((light, np.zeros((1, 3), np.float32)))[self.receivers.of_vertex]


def _sky(environment: Environment) -> dict[str, FloatArray]:
    return {"upper sky": environment.sky, "lower sky": environment.ground}


def split(mesh: StaticMesh, baked: BakedLight) -> StaticMesh:
    """Return a mesh with one vertex for each chart that it belongs to, and places in the atlas."""
    layout = baked.layout
    height, width = baked.receivers.of_texel.shape
    place = np.where(is_outside(layout.place)[:, None], (0.5, height + 0.5), layout.place)
    return replace(
        mesh,
        vertices=mesh.vertices[layout.vertex],
        triangles=layout.triangles.astype(np.uint32),
        atlas_uv=(place / (width, height + 1)).astype(np.float32),
        uv1=None if mesh.uv1 is None else mesh.uv1[layout.vertex],
    )
