"""Builders of objects from shapes, and of a scene from objects."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final, Self

import numpy as np

from vil_bridge.core.geometry import yaw_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset, Primitive
from vil_renderer.embedded.scene import CLASSES, Beacon, Environment, Gate, Lamp, Scene, SceneObject
from vil_renderer.embedded.scenes.shapes import MeshBuilder, join
from vil_renderer.embedded.scenes.surfaces import material

Tint = tuple[float, float, float]
"""Factor on the displayed colour of a texture, 0..1."""

WHITE: Final[Tint] = (1.0, 1.0, 1.0)
_DISPLAY_GAMMA: Final = 2.2
_GRID_M: Final = 1e-4


class Thing:
    """An object in its own axes.

    Attributes:
        parts: meshes with their tints by surface.
    """

    def __init__(self) -> None:
        self.parts: dict[str, list[tuple[MeshBuilder, Tint]]] = {}

    def add(self, mesh: MeshBuilder, surface: str, tint: Tint = WHITE) -> Self:
        """Add a mesh of one surface, a name of :data:`surfaces.SURFACES`."""
        self.parts.setdefault(surface, []).append((mesh, tint))
        return self

    def asset(self, name: str) -> Asset:
        """Return an asset with one primitive for each surface."""
        parts = [_primitive(surface, parts) for surface, parts in self.parts.items()]
        return Asset.of(name, parts, origin="procedural")


def _primitive(surface: str, parts: list[tuple[MeshBuilder, Tint]]) -> Primitive:
    mesh = join([part for part, _ in parts])
    tints = np.repeat([tint for _, tint in parts], [len(part.p_m) for part, _ in parts], axis=0)
    colour = np.full((len(mesh.p_m), 4), 255, np.uint8)
    colour[:, :3] = np.rint(255.0 * np.minimum(tints, 1.0) ** _DISPLAY_GAMMA)
    # Neighbours that meet must meet exactly, however their corners were computed.
    rounded = replace(mesh, p_m=np.rint(mesh.p_m / _GRID_M) * _GRID_M)
    return rounded.primitive(material(surface), colour=colour)


class SceneBuilder:
    """Builder of a scene: it numbers the objects and assigns their ids."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: list[SceneObject] = []
        self.lamps: list[Lamp] = []
        self.beacons: list[Beacon] = []
        self.gates: list[Gate] = []
        self._count: Counter[str] = Counter()
        self._instances = 0

    def put(
        self,
        kind: str,
        semantic: str,
        thing: Thing,
        at: tuple[float, float, float] = (0.0, 0.0, 0.0),
        yaw_rad: float = 0.0,
        *,
        casts_shadow: bool = True,
        section_of: SceneObject | None = None,
        name: str = "",
    ) -> SceneObject:
        """Place an object; its name is its kind with a running number, unless one is given.

        Sections of one surface, such as a floor, have one instance id: that of ``section_of``, the
        first of them.
        """
        self._instances += section_of is None
        self._count[kind] += 1
        name = name or f"{kind}{self._count[kind]}"
        placed = SceneObject(
            name,
            thing.asset(name),
            pose_matrix(at, yaw_rad),
            semantic=CLASSES[semantic],
            instance=self._instances if section_of is None else section_of.instance,
            casts_shadow=casts_shadow,
        )
        self.objects.append(placed)
        return placed

    def put_again(
        self, placed: SceneObject, at: tuple[float, float, float], yaw_rad: float = 0.0
    ) -> SceneObject:
        """Place the asset of an object once more, under the next name of its kind.

        They share their meshes.
        """
        kind = placed.name.rstrip("0123456789")
        self._instances += 1
        self._count[kind] += 1
        name = f"{kind}{self._count[kind]}"
        another = replace(
            placed, name=name, world_from_asset=pose_matrix(at, yaw_rad), instance=self._instances
        )
        self.objects.append(another)
        return another

    def add_lamp(
        self,
        panel: Thing,
        at: tuple[float, float, float],
        light: tuple[float, float, float],
        cone_rad: tuple[float, float],
        range_m: float,
    ) -> None:
        """Hang a lamp panel whose light shines down from 5 cm below it."""
        name = self.put("Lamp", "lamp", panel, at, casts_shadow=False).name
        p_m = np.array([at[0], at[1], at[2] - 0.05])
        down = np.array([0.0, 0.0, -1.0])
        self.lamps.append(Lamp(name, p_m, np.array(light), down, cone_rad, range_m))

    def scene(self, environment: Environment) -> Scene:
        """Return the scene built so far."""
        return Scene(
            self.name,
            tuple(self.objects),
            environment,
            tuple(self.lamps),
            tuple(self.beacons),
            tuple(self.gates),
        )


def pose_matrix(at: tuple[float, float, float], yaw_rad: float) -> FloatArray:
    """Place and yaw as a matrix (4, 4)."""
    matrix = np.eye(4)
    matrix[:3, :3] = yaw_matrix(yaw_rad)
    matrix[:3, 3] = at
    return matrix
