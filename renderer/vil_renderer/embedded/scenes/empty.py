"""The empty scene: an open field, 200 x 200 m, for tests and for scenes made of props only."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_renderer.embedded.scene import Environment, Scene, SceneObject, Sun
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing
from vil_renderer.embedded.scenes.shapes import panel

_HALF_M: Final = 100.0
_SLAB_M: Final = 5.0
_SECTION_M: Final = 25.0
_SURFACES: Final = ("floor_plain", "floor_lane", "floor_marked")


def build_empty() -> Scene:
    """Build slabs of concrete in the sun; the same at every call."""
    builder = SceneBuilder("empty")
    lay_slabs(builder, "Floor")
    return builder.scene(
        Environment(
            sky=np.array([0.30, 0.33, 0.38]),
            ground=np.array([0.16, 0.15, 0.14]),
            sun=Sun(np.array([-0.48, 0.36, 0.80]), np.array([0.42, 0.39, 0.35])),
        )
    )


def lay_slabs(builder: SceneBuilder, kind: str, name: str = "") -> None:
    """Lay the field: 200 x 200 m around the origin, in sections with one instance id.

    The same at every call.

    Args:
        builder: gets the objects.
        kind: of their names.
        name: of the first one; empty = its kind with 1.
    """
    rng = np.random.default_rng(3)
    slab = panel((0.0, 0.0, 0.0), (_SLAB_M, 0.0, 0.0), (0.0, _SLAB_M, 0.0), cell_m=_SLAB_M)
    section: SceneObject | None = None
    for x0 in np.arange(-_HALF_M, _HALF_M, _SECTION_M):
        for y0 in np.arange(-_HALF_M, _HALF_M, _SECTION_M):
            thing = Thing()
            for x in np.arange(x0, x0 + _SECTION_M, _SLAB_M):
                for y in np.arange(y0, y0 + _SECTION_M, _SLAB_M):
                    thing.add(slab.at(x, y, 0.0), _SURFACES[int(rng.integers(0, 3))])
            own = name if section is None else ""
            section = builder.put(
                kind, "floor", thing, casts_shadow=False, section_of=section, name=own
            )
