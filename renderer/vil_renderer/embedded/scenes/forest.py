"""The forest: 100 x 100 m with trees up to 15 m, in the manner of Flightmare's planning
experiment (30 m high).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.scene import Environment, Scene, SceneObject, Sun
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing
from vil_renderer.embedded.scenes.outdoors import bush, tree
from vil_renderer.embedded.scenes.shapes import terrain

HALF_M: Final = 50.0
HEIGHT_M: Final = 30.0
"""Of the volume to fly in, above the ground."""
_SECTION_M: Final = 20.0
_TREES: Final = 240
_BUSHES: Final = 60
_APART_M: Final = 3.0
_HEIGHTS_M: Final = (8.0, 9.5, 11.0, 12.0, 13.5, 15.0)
_RADII_M: Final = (0.6, 0.9, 1.2)


def build_forest() -> Scene:
    """Plant everything; the same at every call."""
    rng = np.random.default_rng(30)
    builder = SceneBuilder("forest")
    _ground(rng, builder)
    trees = [tree(rng, tall) for tall in _HEIGHTS_M for _ in range(2)]
    bushes = [bush(rng, radius) for radius in _RADII_M]
    places = _places(rng, _TREES + _BUSHES)
    _plant(rng, builder, "Tree", trees, places[:_TREES])
    _plant(rng, builder, "Bush", bushes, places[_TREES:])
    return builder.scene(
        Environment(
            sky=np.array([0.30, 0.36, 0.46]),
            ground=np.array([0.13, 0.15, 0.10]),
            sun=Sun.towards((-0.35, -0.45, 0.82), (0.62, 0.57, 0.48)),
        )
    )


def _ground(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Lay level ground in sections with one instance id."""
    section: SceneObject | None = None
    for x0 in np.arange(-HALF_M, HALF_M, _SECTION_M):
        for y0 in np.arange(-HALF_M, HALF_M, _SECTION_M):
            x, y = (np.linspace(float(a), float(a) + _SECTION_M, 6) for a in (x0, y0))
            shade = float(rng.uniform(0.8, 1.0))
            surface = ("grass", "grass_worn")[int(rng.integers(0, 2))]
            thing = Thing().add(
                terrain(x, y, np.zeros((6, 6)), 4.0), surface, (shade, shade, shade)
            )
            section = builder.put(
                "Ground", "terrain", thing, casts_shadow=False, section_of=section
            )


def _places(rng: np.random.Generator, count: int) -> FloatArray:
    """Draw places (count, 2), any two of them apart."""
    found = np.zeros((0, 2))
    while len(found) < count:
        place = rng.uniform(1.0 - HALF_M, HALF_M - 1.0, 2)
        if not len(found) or np.hypot(*(found - place).T).min() >= _APART_M:
            found = np.vstack((found, place))
    return found


def _plant(
    rng: np.random.Generator,
    builder: SceneBuilder,
    kind: str,
    models: list[Thing],
    places: FloatArray,
) -> None:
    """Place models in turn; those of one model share their meshes."""
    first: list[SceneObject] = []
    for number, (x, y) in enumerate(places.tolist()):
        at = (x, y, 0.0)
        yaw = float(rng.uniform(0.0, 6.28))
        if number < len(models):
            first.append(builder.put(kind, "vegetation", models[number], at, yaw))
        else:
            builder.put_again(first[number % len(models)], at, yaw)
