"""Solid parts of a scene, as a simulation asks for them; the world frame, metres."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

Place = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SweptContact:
    """First contact of a sphere on a straight way.

    Attributes:
        share: of the way until then, 0..1. point_world_m: on the surface, (3,).
        normal_world: from the surface to the sphere's centre, unit, (3,). other: whose surface, as
            the scene names it.
    """

    share: float
    point_world_m: Place
    normal_world: Place
    other: str


class SceneEdit(msgspec.Struct, array_like=True, frozen=True):
    """An object of a scene that a program moved, scaled, spawned or destroyed, in its newest state.

    Attributes:
        asset: what a spawned one is made of; empty = an object of the scene.
        p_m, q_xyzw: of its own axes in the scene. scale: of its asset along them. gone: it was
            destroyed.
    """

    name: str
    asset: str
    p_m: tuple[float, float, float]
    q_xyzw: tuple[float, float, float, float]
    scale: tuple[float, float, float]
    gone: bool = False


class BodyMass(msgspec.Struct, array_like=True, frozen=True):
    """Mass and motion of a body that another simulation moves, as a collision with it needs them.

    Attributes:
        p_m: its centre of mass in the vehicles' room. q_xyzw: attitude there. w_radps: body rates,
            its own axes.
        mass_kg: mass. inertia_kgm2: principal moments. restitution, friction: of its surface.
    """

    p_m: tuple[float, float, float]
    q_xyzw: tuple[float, float, float, float]
    w_radps: tuple[float, float, float]
    mass_kg: float
    inertia_kgm2: tuple[float, float, float]
    restitution: float
    friction: float


class MovingBody(msgspec.Struct, array_like=True, frozen=True):
    """Body that the simulation of some vehicles does not move.

    Spheres that these vehicles bounce off.

    Attributes:
        t_ns: bridge time of its place. middles_m: of its spheres, in the vehicles' room.
        v_mps: in that room, until it is seen again.
        mass: of a vehicle of another simulation; None = nothing moves the body, such as a tracked
            vehicle.
    """

    name: str
    t_ns: int
    radius_m: float
    middles_m: tuple[tuple[float, float, float], ...]
    v_mps: tuple[float, float, float]
    mass: BodyMass | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BodyShape:
    """Shape, mass and surface of a vehicle for contacts.

    Attributes:
        radius_m: of its spheres. offsets_m: their middles, body axes, (k, 3).
        mass_kg: mass. inertia_kgm2: principal moments. restitution, friction: of its surface.
    """

    radius_m: float
    offsets_m: Place
    mass_kg: float
    inertia_kgm2: tuple[float, float, float]
    restitution: float
    friction: float


@dataclass(frozen=True, slots=True, eq=False)
class VehicleBodies:
    """Vehicles of one source that collide, at one instant, in its room.

    Attributes:
        t_ns: bridge time. names, shapes: of the vehicles. reach_m: from the origin to the farthest
            point, (n,).
        p_m: (n, 3). v_mps: (n, 3). q_xyzw: (n, 4). w_radps: body axes, (n, 3).
    """

    t_ns: int
    names: tuple[str, ...]
    shapes: tuple[BodyShape, ...]
    reach_m: Place
    p_m: Place
    v_mps: Place
    q_xyzw: Place
    w_radps: Place


class SolidWorld(Protocol):
    """The surfaces of a scene, at rest between edits; one thread at a time."""

    def clearance_m(self, p_world_m: Place) -> float:
        """Return the distance from a point (3,) to the nearest surface.

        Infinity where there is none.
        """
        ...

    def first_contact(self, start_m: Place, goal_m: Place, radius_m: float) -> SweptContact | None:
        """Return the first surface that stops a sphere on its way from one point (3,) to another.

        Surfaces have two sides; the sphere cannot pass them, however far the way is. A surface that
        it overlaps or touches at the start stops it only if the way leads into it.
        """
        ...

    def overlap(self, p_world_m: Place, radius_m: float) -> SweptContact | None:
        """Return the nearest surface that a sphere at (3,) overlaps; None = it is free."""
        ...

    def edit(self, edit: SceneEdit) -> None:
        """Move, scale, add or remove an object.

        Raises:
            RendererError: there is no such object or asset.
        """
        ...
