"""Scenes by name, meshed and lit, ready to be drawn and asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.boxes import Boxes
from vil_renderer.embedded.cull import Culler
from vil_renderer.embedded.hall import Blueprint, design_hall
from vil_renderer.embedded.lighting import Lights, bake
from vil_renderer.embedded.mesh import Mesh, Panel, Solids, panel_mesh
from vil_renderer.embedded.textures import Layer

__all__ = ["SCENES", "Scene", "load_scene"]


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What stands still.

    Attributes:
        colour: baked light of each vertex, uint8 (n, 4).
        solid: everything that stops rays and spheres.
        beacon_names, beacons_m: IR beacons, length k and shape (k, 3).
    """

    name: str
    mesh: Mesh
    culler: Culler
    colour: npt.NDArray[np.uint8]
    solid: Boxes
    lights: Lights
    beacon_names: tuple[str, ...]
    beacons_m: FloatArray
    zenith: tuple[float, float, float]
    horizon: tuple[float, float, float]


def _design_empty() -> Blueprint:
    """An open field, 200 x 200 m, with nothing on it: for tests, and for scenes made of props only."""
    rng = np.random.default_rng(3)
    shell = Solids()
    size = 5.0
    for x in np.arange(-100.0, 100.0, size):
        for y in np.arange(-100.0, 100.0, size):
            layer = (Layer.FLOOR_PLAIN, Layer.FLOOR_LANE, Layer.FLOOR_MARKED)[int(rng.integers(0, 3))]
            edges = np.eye(3) * size
            shell.panels.append(Panel(np.array([x, y, 0.0]), edges[0], edges[1], layer, cell_m=size))
    shell.boxes.append(Boxes(np.array([[0.0, 0.0, -1.0]]), np.eye(3)[None], np.array([[100.0, 100.0, 1.0]])))
    lights = Lights(
        sky=np.array([0.55, 0.60, 0.68]),
        ground=np.array([0.30, 0.29, 0.27]),
        to_sun=np.array([-0.48, 0.36, 0.80]),
        sun=np.array([0.75, 0.70, 0.62]),
        lamps_m=np.zeros((0, 3)),
        lamp=np.zeros(3),
    )
    return Blueprint(Solids(), shell, lights)


SCENES: Final[dict[str, Callable[[], Blueprint]]] = {"hall": design_hall, "empty": _design_empty}


def load_scene(name: str) -> Scene:
    """Build a scene.

    Raises:
        RendererError: no scene has that name.
    """
    try:
        plan = SCENES[name]()
    except KeyError:
        raise RendererError(f"no scene named {name!r}; known: {', '.join(sorted(SCENES))}") from None
    # Furniture first: what stands in front hides most of the walls before they are shaded.
    panels = plan.furniture.panels + plan.shell.panels
    mesh = panel_mesh(panels)
    furniture, shell = Boxes.join(plan.furniture.boxes), Boxes.join(plan.shell.boxes)
    return Scene(
        name,
        mesh,
        Culler(panels, mesh),
        bake(mesh, plan.lights, shell, furniture),
        Boxes.join((furniture, shell)),
        plan.lights,
        tuple(beacon for beacon, _ in plan.beacons),
        np.array([p_m for _, p_m in plan.beacons]).reshape(-1, 3),
        plan.zenith,
        plan.horizon,
    )
