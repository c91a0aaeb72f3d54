"""Baked light as the engine draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.engine.light import ModelLight, StoredLight, as_levels
from vil_renderer.embedded.engine.materials import GAMMA
from vil_renderer.embedded.engine.vertices import StaticMesh
from vil_renderer.embedded.lighting.baked.baked_light import BakedLight
from vil_renderer.embedded.lighting.baked.receivers import sun_light
from vil_renderer.embedded.lighting.baked.solid_sides import SolidSides
from vil_renderer.embedded.scene import Environment, Lamp

_LEVEL: Final = 0.7
"""Vertical part of a normal from which a surface faces up or down."""


class BakedStaticLight:
    """Light on static surfaces over all bounces.

    Args:
        baked: the light of each source.
        mesh: split into its charts.
    """

    def __init__(self, baked: BakedLight, mesh: StaticMesh) -> None:
        self._baked = baked
        self._solid = SolidSides(mesh)
        self._lamps: Sequence[Lamp] = ()

    def bake(
        self, environment: Environment, lamps: Sequence[Lamp], *, display: bool
    ) -> StoredLight:
        """Return the light of charts and of vertices without one, as :meth:`StaticLight.bake`.

        Args:
            environment: its light, exposure included.
            lamps: the scene's; others are not baked.
            display: as display values, sunlight included; else linear, and the sun is added per
                pixel.
        """
        self._lamps = lamps
        baked = self._baked
        light = baked.mixed(environment, lamps)
        if display and environment.sun is not None:
            sun = sun_light(environment.sun.to_sun, baked.receivers, self._solid)
            light += sun[:, None] * np.asarray(environment.sun.light, np.float32)
        stored = self._stored(
            light * np.float32(environment.exposure * baked.gain), display=display
        )
        return StoredLight(as_levels(baked.of_vertices(stored)), as_levels(baked.atlas(stored)))

    def on_models(self, environment: Environment, *, display: bool) -> ModelLight:
        """Return the light on models that move: that of the probes around them.

        The environment's is what level surfaces get scattered, from above and from below.
        """
        baked = self._baked
        sun = environment.sun
        exposure = environment.exposure * self._baked.gain
        light = baked.scattered(environment, self._lamps)
        up = baked.receivers.normal[:, 2]
        level = up > _LEVEL, up < -_LEVEL
        sky, ground = (
            light[which].mean(axis=0) if which.any() else light.mean(axis=0) for which in level
        )
        mean = replace(
            environment,
            sky=sky.astype(np.float64),
            ground=ground.astype(np.float64),
            exposure=exposure,
        )
        share = (
            baked.probes.sun_share(sun.to_sun, self._solid)
            if display and sun is not None
            else np.float32(1.0)
        )
        colours = np.float32(exposure) * baked.colours(environment, self._lamps)
        return ModelLight(mean, baked.probes.field(colours, share))

    @staticmethod
    def _stored(light: Float32Array, *, display: bool) -> Float32Array:
        return np.asarray(
            light ** np.float32(1.0 / GAMMA) if display else np.sqrt(light), np.float32
        )
