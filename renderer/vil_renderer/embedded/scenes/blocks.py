"""Blocks: a field of 200 x 200 m with cubes, cylinders, a cone and a ball, named as in AirSim's
environment Blocks.

North is y. The line along it from the origin is free above 4 m, and so is everything within 15 m of
the origin.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_renderer.embedded.scene import Environment, Scene, Sun
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing, Tint
from vil_renderer.embedded.scenes.empty import lay_slabs
from vil_renderer.embedded.scenes.shapes import MeshBuilder, box, lathe

_CUBE_M: Final = 3.0
_BALL_M: Final = 1.5
_ORANGE: Final[Tint] = (1.0, 0.45, 0.1)
_FACES: Final = ("wall_block", "wall_brick", "plaster_worn", "crate")


def build_blocks() -> Scene:
    """Place everything; the same at every call."""
    rng = np.random.default_rng(41)
    builder = SceneBuilder("blocks")
    lay_slabs(builder, "Ground", "Ground")
    _cubes(rng, builder)
    _pillars(builder)
    ball = Thing().add(_ball(_BALL_M), "plain", _ORANGE)
    builder.put("OrangeBall", "structure", ball, (12.0, 30.0, 0.0), name="OrangeBall")
    cone = Thing().add(lathe(((0.0, 0.0), (2.0, 0.0), (0.0, 5.0)), 24), "plain", (0.9, 0.25, 0.2))
    builder.put("PulsingCone", "structure", cone, (-12.0, 30.0, 0.0), name="PulsingCone")
    return builder.scene(
        Environment(
            sky=np.array([0.30, 0.36, 0.46]),
            ground=np.array([0.16, 0.15, 0.14]),
            sun=Sun.towards((-0.42, -0.52, 0.74), (0.62, 0.57, 0.48)),
        )
    )


def _cubes(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Stack cubes left and right of the line to the north, and behind the start."""
    for x0, y0, columns, rows in (
        (-40.0, 35.0, 6, 4),
        (20.0, 40.0, 6, 4),
        (-30.0, -50.0, 4, 3),
        (25.0, -45.0, 4, 3),
    ):
        for column in range(columns):
            for row in range(rows):
                for level in range(int(rng.integers(1, 4))):
                    at = (x0 + 1.6 * _CUBE_M * column, y0 + 1.6 * _CUBE_M * row, _CUBE_M * level)
                    cube = Thing().add(
                        box((_CUBE_M, _CUBE_M, _CUBE_M), cell_m=_CUBE_M), str(rng.choice(_FACES))
                    )
                    builder.put("TemplateCube_Rounded_", "structure", cube, at)


def _pillars(builder: SceneBuilder) -> None:
    """Set cylinders along a circle around the start."""
    profile = ((0.0, 0.0), (0.75, 0.0), (0.75, 8.0), (0.0, 8.0))
    for turn in np.linspace(0.0, 2.0 * np.pi, 8, endpoint=False) + np.pi / 8.0:
        pillar = Thing().add(lathe(profile, 24, uv=(0.0, 0.0, 4.0, 4.0)), "wall_block")
        builder.put(
            "Cylinder",
            "structure",
            pillar,
            (25.0 * float(np.cos(turn)), 25.0 * float(np.sin(turn)), 0.0),
        )


def _ball(radius_m: float) -> MeshBuilder:
    """Build a sphere that stands on the floor."""
    angle = np.linspace(-np.pi / 2.0, np.pi / 2.0, 17)
    profile = np.column_stack((radius_m * np.cos(angle), radius_m * (1.0 + np.sin(angle))))
    profile[[0, -1], 0] = 0.0
    return lathe([(float(r), float(z)) for r, z in profile], 32, smooth=True)
