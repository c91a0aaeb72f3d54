"""Contacts of vehicles with the floor, a scene, and surfaces that a renderer reports, at every
step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_rotate
from vil_bridge.core.matrices import dot, length
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.interfaces.solid_world import SceneEdit, SweptContact
from vil_bridge.interfaces.vehicle_moves import VehicleCollision
from vil_simulation.source.ipc import ContactReport
from vil_simulation.source.mode_fleets import ModeFleet
from vil_simulation.source.scene_contacts import HARDEST_MPS2, SceneContacts
from vil_simulation.source.sphere_row import SphereRow
from vil_simulation.source.vehicle_config import ContactConfig
from vil_simulation.vehicles.contact import (
    Collider,
    WorldContact,
    collide,
    lies_flat,
    load_kernel,
    velocity_changes,
)
from vil_simulation.vehicles.contact_kernel import note
from vil_simulation.vehicles.ground import Ground
from vil_simulation.vehicles.layout import StateLayout
from vil_simulation.vehicles.model import Model

_VALID_S: Final = 2.0
"""Surfaces are forgotten this long after the picture that showed them."""
_APART_S: Final = 0.1
"""Contacts closer in time than this are one collision."""
RESTING_MPS: Final = 0.1
"""Slower than this nothing bounces."""
LEVELLING_RADPS: Final = 1.0
"""A vehicle that lands aslant turns level so fast.

Gyroscopes feel it, and it hardly turns during the impact.
"""
_MOST_BOUNCES: Final = 4
"""Surfaces that stop a vehicle in one step: a corner has three."""
_MOST_NAMES: Final = 256
"""Things touched of which the times are remembered."""
_SKIN_M: Final = 2e-6
"""A sphere leaves a surface by this much.

More than where it counts as touching, or its way would lead in again.
"""
_HOLD_M: Final = 1e-3
"""A surface bears a vehicle that moved less than this along it since it was found there."""
_LEVEL: Final = 0.97
"""Upward part of a surface's normal from which a vehicle may land on it."""

_UP: Final = np.array((0.0, 0.0, 1.0))
_AHEAD: Final = np.array((1.0, 0.0, 0.0))
_NONE: Final = np.zeros(0, np.int64)


@dataclass(slots=True, eq=False)
class _Around:
    """Tangent planes near a vehicle.

    Points and normals (m, 3), and the step after which they are old.
    """

    points_m: FloatArray
    normals: FloatArray
    until: int


class _Support(NamedTuple):
    """Surface that bears a vehicle: where it was touched, by which of the vehicle's spheres."""

    hit: SweptContact
    sphere: int


class ContactModel:
    """Floor and surfaces that the vehicles of a group collide with.

    Args:
        config: what they share. model: theirs. rows: how many.
        scene: knows the surfaces, so that no renderer is listened to; None = renderers report them.

    Attributes:
        collisions: begun so far, by row.
        newest: contact of each row that touched something since the last batch, its time in
            simulation time; one that lasts comes every tenth of a second.
        shape: of each vehicle. body: its mass and surface. resting_body: the same without a bounce.
        to_reset: rows that a contact sends back to their start; the reader clears it.
    """

    def __init__(
        self, config: ContactConfig, model: Model, rows: int, scene: SceneContacts | None = None
    ) -> None:
        self._model: Final = model if "speed_mps" in model.state else None
        self.body: Final = collider_of(model, config)
        self.resting_body: Final = self.body._replace(restitution=0.0)
        self.collisions = np.zeros(rows, dtype=np.int64)
        self._config = config
        floor_m = config.floor_m
        self._ground: Final = (
            None if floor_m is None else Ground(floor_m, self.resting_body, model.state)
        )
        self._scene = scene
        self.to_reset: list[int] = []
        self.shape: Final = SphereRow(config)
        self._bounces = config.response == "bounce"
        self._around: dict[int, _Around] = {}
        self._supports: dict[int, _Support] = {}
        self._standing = False
        self._ups: Final = np.tile(_UP, (rows, 1))
        self._reset_at = np.zeros(rows, dtype=np.int64)
        self._never: Final = np.full(rows, -(1 << 60), dtype=np.int64)
        self._touched_at = self._never.copy()
        self._times: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}
        self.newest: dict[int, VehicleCollision] = {}
        load_kernel(model.state)

    @property
    def watches(self) -> bool:
        """True if :meth:`respond` has anything to do."""
        return self._config.floor_m is not None or self._scene is not None or bool(self._around)

    def clear_steps(self, flown: Iterable[ModeFleet], step: int, dt_s: float) -> int | None:
        """Return how many steps may be made before :meth:`respond` is next called, at least 1.

        None = any number.

        No vehicle meets anything before the last of them, unless it accelerates towards the floor
        harder than ``HARDEST_MPS2``: then it is lifted onto the floor at the last one.
        """
        if not self.watches:
            return None
        if self._around or self._supports or self._standing:
            return 1
        steps = [] if self._scene is None else [self._scene.next_due - step]
        if self._ground is not None:
            falls_s = (self._ground.fall_s(one.fleet.x, one.active, HARDEST_MPS2) for one in flown)
            steps += [math.floor(fall_s / dt_s) for fall_s in falls_s]
        return max(1, min(steps))

    def reset(self, row: int, step: int) -> None:
        """Discard surfaces of pictures taken before the vehicle was moved."""
        self._around.pop(row, None)
        self._supports.pop(row, None)
        self._reset_at[row] = step
        if self._scene is not None:
            self._scene.forget(row)

    def on_contact(
        self, row: int, report: ContactReport, step_of_picture: int, dt_s: Fraction
    ) -> bool:
        """Apply what a renderer reports.

        Return True if the vehicle returns to its start, disarmed.
        """
        if (
            self._scene is not None
            or self._config.response == "none"
            or step_of_picture <= self._reset_at[row]
        ):
            return False
        if self._bounces and report.has_surfaces:
            self._around.pop(row, None)
            if report.points_m:
                until = step_of_picture + round(_VALID_S / dt_s)
                self._around[row] = _Around(
                    np.array(report.points_m), np.array(report.normals), until
                )
            return False
        return report.hit

    def respond(
        self,
        x: FloatArray,
        state: StateLayout,
        active: BoolArray,
        step: int,
        dt_s: float,
        struck: FloatArray,
    ) -> int:
        """Keep vehicles out of what is solid; changes x (n, dx). Returns how many collisions began.

        ``struck`` (n, 6): set to the changes of velocities and body rates of those that touched
        something.
        """
        before = x.copy()
        lifted: npt.NDArray[np.int64] = (
            _NONE if self._ground is None else self._ground.lift(x, active, LEVELLING_RADPS * dt_s)
        )
        self._standing = len(lifted) > 0
        near = self._standing or self._around or self._supports
        if not near and (self._scene is None or step < self._scene.next_due):
            return 0
        counted = int(self.collisions.sum())
        if self._ground is not None and self._standing:
            p = before[lifted, state["p_world_m"]]
            self.record(
                lifted,
                p,
                WorldContact(p, self._ups[: len(p)], self._ground.height_m - p[:, 2]),
                step,
                dt_s,
            )
        for row, around in list(self._around.items()):
            if step > around.until:
                del self._around[row]
            elif active[row]:
                self._among(row, around, x, state, step, dt_s)
        if self._scene is not None:
            for row in [row for row in self._supports if active[row]]:
                self._rest(row, x, state, step, dt_s)
            for row in self._scene.due(step, active):
                self._in_scene(row, self._scene, x, state, step, dt_s)
        touched = active & (self._touched_at == step)
        self.roll(x, state, touched)
        velocity_changes(before, x, state, touched, struck)
        return int(self.collisions.sum()) - counted

    def roll(self, x: FloatArray, state: StateLayout, rows: BoolArray) -> None:
        """Let cars that touched something roll on with the part of their velocity that their
        wheels allow.
        """
        if self._model is not None and rows.any():
            ahead = q_rotate(
                x[rows, state["q_world_body"]], np.broadcast_to(_AHEAD, (int(rows.sum()), 3))
            )
            x[rows, state["speed_mps"]] = (x[rows, state["v_world_mps"]] * ahead).sum(
                axis=1, keepdims=True
            )
            x[rows] = self._model.constrain(x[rows])

    def _among(
        self, row: int, around: _Around, x: FloatArray, state: StateLayout, step: int, dt_s: float
    ) -> None:
        """Collide one vehicle with the surfaces near it."""
        radius_m = self._config.radius_m
        for point_m, normal in zip(around.points_m, around.normals, strict=True):
            p = x[row, state["p_world_m"]]
            away = p - point_m
            height = dot(away, normal)
            if height >= radius_m or length(away - height * normal) > self._config.reach_m:
                continue
            if height < 0.0:
                self._reset_at[row] = step  # pictures from behind the surface would push it through
            slow = -dot(x[row, state["v_world_mps"]], normal) < RESTING_MPS
            touched = (p - radius_m * normal)[None]
            contact = WorldContact(touched, normal[None], np.array([radius_m - height]))
            self.record(np.array([row]), p[None], contact, step, dt_s)
            x[row] = collide(
                x[row : row + 1], state, self.resting_body if slow else self.body, contact
            )[0]

    def _in_scene(
        self,
        row: int,
        scene: SceneContacts,
        x: FloatArray,
        state: StateLayout,
        step: int,
        dt_s: float,
    ) -> None:
        """Collide one vehicle with all that stops its sphere on its way."""
        place = state["p_world_m"]
        goals_m = self._middles(x, state, row)
        starts_m = scene.settle(row, goals_m, self._speed(x, state, row), step)
        if starts_m is None:
            return
        for _ in range(_MOST_BOUNCES):
            found = scene.first_contact(starts_m, goals_m)
            if found is None:
                break
            sphere, hit = found
            self._off_surface(row, _Support(hit, sphere), goals_m[sphere], x, state, step, dt_s)
            starts_m = starts_m + hit.share * (goals_m - starts_m)
            goals_m = self._middles(x, state, row)
        else:
            x[row, place] += starts_m[0] - goals_m[0]  # wedged in
            goals_m = self._middles(x, state, row)
        scene.settle(row, goals_m, self._speed(x, state, row), step)

    def _rest(self, row: int, x: FloatArray, state: StateLayout, step: int, dt_s: float) -> None:
        """Let the surface that bears a vehicle bear it in this step too, where something presses it
        there.

        A sphere that left a surface by :data:`_SKIN_M` takes some steps to fall back: an
        accelerometer must not see it.
        """
        support = self._supports.pop(row)
        middle_m = self._middles(x, state, row)[support.sphere]
        away = middle_m - support.hit.point_world_m
        normal = support.hit.normal_world
        height_m = dot(away, normal)
        near = (
            height_m <= self._config.radius_m + _SKIN_M
            and length(away - height_m * normal) <= _HOLD_M
        )
        if near and dot(x[row, state["v_world_mps"]], normal) < 0.0:
            self._off_surface(row, support, middle_m, x, state, step, dt_s)

    def edit_scene(self, edit: SceneEdit) -> None:
        """Change an object of the scene. Raises RendererError: there is no such object or asset."""
        if self._scene is not None:
            self._supports.clear()
            self._scene.edit(edit)

    def push_out(
        self, x: FloatArray, state: StateLayout, active: BoolArray, step: int, dt_s: float
    ) -> int:
        """Move vehicles out of objects that were put onto them.

        Returns how many collisions began.
        """
        before = int(self.collisions.sum())
        if self._scene is None:
            return 0
        for row in np.flatnonzero(active).tolist():
            middles_m = self._middles(x, state, row)
            found = self._scene.overlap(middles_m)
            if found is not None:
                sphere, hit = found
                self._off_surface(
                    row, _Support(hit, sphere), middles_m[sphere], x, state, step, dt_s
                )
                self._scene.forget(row)
        self.roll(x, state, active & (self._touched_at == step))
        return int(self.collisions.sum()) - before

    def _middles(self, x: FloatArray, state: StateLayout, row: int) -> FloatArray:
        """Return the middles of a vehicle's spheres, (k, 3)."""
        rows = x[row : row + 1]
        found: FloatArray = self.shape.middles(
            rows[:, state["p_world_m"]], rows[:, state["q_world_body"]]
        )[0].copy()
        return found

    def _speed(self, x: FloatArray, state: StateLayout, row: int) -> float:
        """Return the highest speed of a vehicle's spheres, at most."""
        v = x[row, state["v_world_mps"]].tolist()
        w = x[row, state["w_body_radps"]].tolist()
        return math.hypot(*v) + self.shape.reach_m * math.hypot(*w)

    def _off_surface(
        self,
        row: int,
        support: _Support,
        middle_m: FloatArray,
        x: FloatArray,
        state: StateLayout,
        step: int,
        dt_s: float,
    ) -> None:
        """Let a vehicle bounce off a surface that its sphere at (3,) met in this step.

        It lands on level ones.
        """
        hit = support.hit
        place = state["p_world_m"]
        normal = hit.normal_world
        p = x[row, place].copy()
        inside_m = self._config.radius_m - dot(middle_m - hit.point_world_m, normal)
        depth_m = max(inside_m, 0.0)
        contact = WorldContact(hit.point_world_m[None], normal[None], np.array([depth_m]))
        self.record(np.array([row]), p[None], contact, step, dt_s, hit.other)
        if not self._bounces:
            self.to_reset.append(row)
        slow = -dot(x[row, state["v_world_mps"]], normal) < RESTING_MPS
        body = self.resting_body if slow else self.body
        level = bool(normal[2] > _LEVEL)
        below = contact._replace(
            point_world_m=self._foot(middle_m, p, x[row, state["q_world_body"]], normal, depth_m)[
                None
            ]
        )
        levels_rad = LEVELLING_RADPS * dt_s
        x[row] = collide(
            x[row : row + 1], state, body, below, ground_lock=level, levels_rad=levels_rad
        )[0]
        # A point that spins away from the surface gets no impulse; the sphere must not stay inside
        # either.
        x[row, place] += (
            max(max(inside_m, -_SKIN_M) + _SKIN_M - dot(x[row, place] - p, normal), 0.0) * normal
        )
        if slow:
            self._supports[row] = support

    def _foot(
        self,
        middle_m: FloatArray,
        p_m: FloatArray,
        q_xyzw: FloatArray,
        normal: FloatArray,
        depth_m: float,
    ) -> FloatArray:
        """Return where a surface's impulse acts on a vehicle's sphere, (3,).

        That is below the sphere's middle, whatever way the vehicle went along the surface in the
        rest of the step. An upright vehicle on a level surface stands on feet: friction does not
        roll it, so it acts at the height of the vehicle's origin.
        """
        if normal[2] > _LEVEL and lies_flat(q_xyzw, normal):
            foot: FloatArray = middle_m - dot(middle_m - p_m, normal) * normal
            return foot
        return middle_m - (self._config.radius_m - depth_m) * normal

    def sweep(
        self,
        row: int,
        start_m: FloatArray,
        goal_m: FloatArray,
        q_xyzw: FloatArray,
        step: int,
        dt_s: float,
    ) -> FloatArray:
        """Return how far a vehicle of an attitude gets on a straight way, (3,).

        Up to the first contact.

        The contact is recorded.
        """
        for touched_at, _ in self._times.values():
            touched_at[row] = self._never[row]  # what it meets is a collision of its own
        first = 1.0
        hit = None
        for point_m, normal, radius_m, reach_m in self._planes(row):
            above, below = (dot(p - point_m, normal) - radius_m for p in (start_m, goal_m))
            share = float(above / (above - below)) if below < 0.0 <= above else 1.0
            touched = start_m + share * (goal_m - start_m) - radius_m * normal
            if share < first and length(touched - point_m) <= reach_m:
                first = share
                hit = WorldContact(touched[None], normal[None], np.array([0.0]))
        end: FloatArray = start_m + first * (goal_m - start_m)
        ends = (self.shape.middles(p[None], q_xyzw[None])[0] for p in (start_m, end))
        found = None if self._scene is None else self._scene.first_contact(*ends)
        if found is not None:
            _, met = found
            end = start_m + met.share * (end - start_m)
            contact = WorldContact(met.point_world_m[None], met.normal_world[None], np.array([0.0]))
            self.record(np.array([row]), end[None], contact, step, dt_s, met.other)
            return end
        if hit is not None:
            self.record(np.array([row]), end[None], hit, step, dt_s)
        return end

    def _planes(self, row: int) -> Iterator[tuple[FloatArray, FloatArray, float, float]]:
        """Yield point, normal, the vehicle's radius and the reach of everything near a vehicle."""
        if self._config.floor_m is not None:
            yield np.array((0.0, 0.0, self._config.floor_m)), _UP, 0.0, math.inf
        around = self._around.get(row)
        if around is not None:
            for point_m, normal in zip(around.points_m, around.normals, strict=True):
                yield point_m, normal, self._config.radius_m, self._config.reach_m

    def record(
        self,
        rows: npt.NDArray[np.int64],
        p_m: FloatArray,
        contact: WorldContact,
        step: int,
        dt_s: float,
        other: str = "",
    ) -> None:
        """Record contacts of vehicles at (n, 3).

        Those that do not continue one with the same thing are collisions.
        """
        for i in self._note(rows, step, dt_s, other):
            row = int(rows[i])
            where = (
                contact.normal_world[i].tolist(),
                contact.point_world_m[i].tolist(),
                p_m[i].tolist(),
            )
            normal, point_m, vehicle_m = ((x, y, z) for x, y, z in where)
            depth_m = float(contact.depth_m[i])
            t_ns = round(step * dt_s * NS_PER_S)
            self.newest[row] = VehicleCollision(t_ns, normal, point_m, vehicle_m, depth_m, other)

    def _note(
        self, rows: npt.NDArray[np.int64], step: int, dt_s: float, other: str = ""
    ) -> list[int]:
        """Count contacts of vehicles with something.

        Return the places in ``rows`` of those to be recorded.
        """
        if other not in self._times:
            if len(self._times) >= _MOST_NAMES:
                self._times.clear()
            self._times[other] = self._never.copy(), self._never.copy()
        self._touched_at[rows] = step
        places = np.empty(len(rows), np.int64)
        count = note(rows, step, dt_s, _APART_S, *self._times[other], self.collisions, places)
        found: list[int] = places[:count].tolist()
        return found


def collider_of(model: Model, config: ContactConfig) -> Collider:
    """Return mass and surface of a model's vehicles.

    Mass and principal moments are ``mass_kg`` and ``inertia_kgm2`` of the model or of its
    parameters: a solid ball of 1 kg where neither has them.

    Wheels that never slip hold a car's heading.
    """
    parameters = getattr(model, "parameters", getattr(model, "airframe", None))
    mass_kg = float(getattr(model, "mass_kg", getattr(parameters, "mass_kg", 1.0)))
    known = getattr(model, "inertia_kgm2", getattr(parameters, "inertia_kgm2", None))
    ball = np.full(3, 0.4 * mass_kg * config.radius_m**2)
    if "speed_mps" in model.state:
        known = np.full(3, np.inf)
    inertia = ball if known is None else np.asarray(known, dtype=np.float64)
    principal = np.diag(inertia) if inertia.ndim == 2 else inertia
    return Collider(mass_kg, principal, config.restitution, config.friction)
