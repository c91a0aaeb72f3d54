"""Contacts of the vehicles of a source with one another, and with bodies that others move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_adapters.simulated.contacts import RESTING_MPS
from vil_adapters.simulated.scene_contacts import HARDEST_MPS2
from vil_adapters.simulated.vehicle_group import VehicleGroup
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.solid_world import MovingBody
from vil_bridge.core.types import FloatArray
from vil_bridge.vehicles.contact import Collider, CollidingBody, WorldContact, exchange
from vil_bridge.vehicles.layout import RIGID_BODY, StateLayout

_HORIZON_S: Final = 0.05
"""Pairs are looked for this often, among all that can meet in this time."""
_VALID_NS: Final = NS_PER_S // 2
"""A body is forgotten this long after it was last seen."""
_LAYOUT: Final = StateLayout(*RIGID_BODY)

_Indices = npt.NDArray[np.intp]


class _Member(NamedTuple):
    """A vehicle: its name, group and row."""

    name: str
    group: VehicleGroup
    row: int


class _Spheres(NamedTuple):
    """Spheres of all vehicles, then of all bodies, at one step.

    Attributes:
        middle_m: (s, 3). speed: at most, (s,). radius_m: (s,). owner: vehicle or body, (s,).
    """

    middle_m: FloatArray
    speed: FloatArray
    radius_m: FloatArray
    owner: _Indices


class _Meeting(NamedTuple):
    """Two spheres that met in a step.

    Attributes:
        first, second: which. point_m: where, (3,). normal: from the second to the first, unit, (3,).
        inside_m: depth to which they may stay in each other, since they began so.
    """

    first: int
    second: int
    point_m: FloatArray
    normal: FloatArray
    inside_m: float


class VehicleContacts:
    """Spheres of vehicles that bounce off each other at every step, each with its own mass.

    Args:
        groups: the vehicles; those whose contacts do nothing are left out.
        names: of all vehicles of the source, by number. dt_s: a step.
    """

    def __init__(self, groups: Sequence[VehicleGroup], names: Sequence[str], dt_s: float) -> None:
        self._groups: Final = [g for g in groups if g.config.contact.response != "none"]
        self._members: Final = [
            _Member(names[int(i)], g, row) for g in self._groups for row, i in enumerate(g.members.tolist())
        ]
        self._dt_s: Final = dt_s
        self._bodies: tuple[MovingBody, ...] = ()
        self._pairs: tuple[_Indices, _Indices] = (np.zeros(0, np.intp), np.zeros(0, np.intp))
        self._last_m: FloatArray | None = None
        self._due = 0

    def forget(self) -> None:
        """Begin again where the vehicles are next: one of them was put elsewhere."""
        self._last_m, self._due = None, 0

    def set_bodies(self, bodies: Sequence[MovingBody]) -> None:
        """Set the bodies that others move, all of them."""
        shapes = [(body.name, len(body.middles_m)) for body in bodies]
        if shapes != [(body.name, len(body.middles_m)) for body in self._bodies]:
            self._last_m = None
        self._bodies, self._due = tuple(bodies), 0

    @property
    def watches(self) -> bool:
        """True if :meth:`respond` has anything to do."""
        return bool(self._members) and len(self._members) + len(self._bodies) > 1

    def clear_steps(self, step: int) -> int | None:
        """Return how many steps may be made before :meth:`respond` is next called, at least 1; None = any number."""
        if not self.watches:
            return None
        return 1 if len(self._pairs[0]) else max(1, self._due - step)

    def respond(self, step: int, t_ns: int) -> None:
        """Let all that met in a step bounce; called after each one in which something may have met."""
        if step < self._due and not len(self._pairs[0]):
            return
        if any(t_ns - body.t_ns > _VALID_NS for body in self._bodies):
            self.set_bodies([body for body in self._bodies if t_ns - body.t_ns <= _VALID_NS])
        spheres = self._spheres(t_ns)
        if self._last_m is not None and len(self._pairs[0]):
            self._sweep(self._last_m, spheres, step)
        if step >= self._due:
            self._pairs = self._near(spheres)
            self._due = step + max(1, int(_HORIZON_S / self._dt_s))
        self._last_m = spheres.middle_m
        for group in self._groups:
            if group.contacts.to_reset:
                group.send_back()
                self.forget()

    def _spheres(self, t_ns: int) -> _Spheres:
        middles, speeds, radii, counts = [], [], [], []
        for group in self._groups:
            rows, shape = group.bodies(), group.contacts.shape
            speed = np.linalg.norm(rows[:, 3:6], axis=1) + shape.reach_m * np.linalg.norm(rows[:, 10:13], axis=1)
            middles.append(shape.middles(rows[:, :3], rows[:, 6:10]).reshape(-1, 3))
            speeds.append(speed)
            radii += [shape.radius_m] * len(rows)
            counts += [len(shape.offsets_m)] * len(rows)
        for body in self._bodies:
            v_mps = np.array(body.v_mps)
            middles.append(np.array(body.middles_m) + (t_ns - body.t_ns) / NS_PER_S * v_mps)
            speeds.append(np.linalg.norm(v_mps[None], axis=1))
            radii.append(body.radius_m)
            counts.append(len(body.middles_m))
        owner = np.repeat(np.arange(len(counts)), counts)
        return _Spheres(np.concatenate(middles), np.concatenate(speeds)[owner], np.array(radii)[owner], owner)

    def _near(self, spheres: _Spheres) -> tuple[_Indices, _Indices]:
        """Return the pairs of spheres of different owners that can meet within the horizon; one is a vehicle's."""
        p, horizon_s = spheres.middle_m, max(_HORIZON_S, self._dt_s)
        reach = spheres.radius_m + horizon_s * (spheres.speed + 0.5 * HARDEST_MPS2 * horizon_s)
        square = (p * p).sum(axis=1)
        near = square[:, None] + square - 2.0 * (p @ p.T) <= (reach[:, None] + reach) ** 2
        first, second = np.nonzero(np.triu(near, 1))
        apart = (spheres.owner[first] != spheres.owner[second]) & (spheres.owner[first] < len(self._members))
        return first[apart], second[apart]

    def _sweep(self, last_m: FloatArray, spheres: _Spheres, step: int) -> None:
        """Let the pairs that met on their ways since the last step bounce, the earliest first."""
        i, j = self._pairs
        gap = last_m[i] - last_m[j]
        way = spheres.middle_m[i] - spheres.middle_m[j] - gap
        reach = spheres.radius_m[i] + spheres.radius_m[j]
        a, b = (way * way).sum(axis=1), (gap * way).sum(axis=1)
        c = (gap * gap).sum(axis=1) - reach * reach
        h = b * b - a * c
        meets = (b < 0.0) & ((c <= 0.0) | (h > 0.0))
        share = np.where(meets & (c > 0.0), c / np.where(meets, np.sqrt(np.maximum(h, 0.0)) - b, 1.0), 0.0)
        for k in np.flatnonzero(meets & (share <= 1.0))[np.argsort(share[meets & (share <= 1.0)])].tolist():
            at = gap[k] + share[k] * way[k]
            length = float(np.linalg.norm(at))
            normal = at / length if length > 0.0 else -way[k] / np.sqrt(a[k])
            inside_m = max(float(reach[k]) - length, 0.0)
            middle_m = last_m[j[k]] + share[k] * (spheres.middle_m[j[k]] - last_m[j[k]])
            point_m = middle_m + spheres.radius_m[j[k]] * normal
            self._bounce(_Meeting(int(i[k]), int(j[k]), point_m, normal, inside_m), spheres, step)

    def _bounce(self, met: _Meeting, spheres: _Spheres, step: int) -> None:
        """Let two spheres bounce."""
        middles, radii, normal = spheres.middle_m, spheres.radius_m, met.normal
        i, j = met.first, met.second
        owners = int(spheres.owner[i]), int(spheres.owner[j])
        depth_m = max(float(radii[i] + radii[j] - (middles[i] - middles[j]) @ normal), 0.0)
        # Both are touched where they were when they met, whatever way they went in the rest of the step.
        one = self._colliding(owners[0], middles[i] - radii[i] * normal)
        at_m = middles[j] + radii[j] * normal
        other = (
            self._colliding(owners[1], at_m)
            if owners[1] < len(self._members)
            else self._immovable(owners[1], at_m, one.body)
        )
        approach = float((one.x[0, one.layout["v_world_mps"]] - other.x[0, other.layout["v_world_mps"]]) @ normal)
        if -approach < RESTING_MPS:
            one, other = (part._replace(body=part.body._replace(restitution=0.0)) for part in (one, other))
        before = one.x.copy(), other.x.copy()
        exchange(one, other, normal)
        per_kg = 1.0 / one.body.mass_kg + 1.0 / other.body.mass_kg
        out_m = max(depth_m - met.inside_m, 0.0) / per_kg * normal
        for k, (part, sign) in enumerate(((one, 1.0), (other, -1.0))):
            part.x[0, part.layout["p_world_m"]] += sign / part.body.mass_kg * out_m
            if owners[k] < len(self._members):
                contact = WorldContact(met.point_m[None], sign * normal[None], np.array([depth_m]))
                self._struck(self._members[owners[k]], part, before[k], contact, self._name(owners[1 - k]), step)
                middles[spheres.owner == owners[k]] += (part.x - before[k])[0, part.layout["p_world_m"]]

    def _struck(
        self, who: _Member, part: CollidingBody, was: FloatArray, contact: WorldContact, other: str, step: int
    ) -> None:
        """Write a vehicle's new state back, and record its contact."""
        group, row, layout = who.group, who.row, part.layout
        x = group.fleets.of_row(row).x
        x[row] = part.x[0]
        rows = np.zeros(len(x), np.bool_)
        rows[row] = True
        group.contacts.roll(x, layout, rows)
        for k, name in enumerate(("v_world_mps", "w_body_radps")):
            group.struck[row, 3 * k : 3 * k + 3] += x[row, layout[name]] - was[0, layout[name]]
        begun = int(group.contacts.collisions[row])
        group.contacts.record(np.array([row]), was[:, layout["p_world_m"]], contact, step, self._dt_s, other)
        group.revision += int(group.contacts.collisions[row]) - begun
        if group.config.contact.response == "reset":
            group.contacts.to_reset.append(row)

    def _colliding(self, owner: int, point_m: FloatArray) -> CollidingBody:
        """Return a copy of a vehicle's state."""
        _, group, row = self._members[owner]
        fleet = group.fleets.of_row(row)
        return CollidingBody(fleet.x[row : row + 1].copy(), fleet.model.state, group.contacts.body, point_m)

    def _immovable(self, owner: int, point_m: FloatArray, like: Collider) -> CollidingBody:
        """Return a body that nothing moves, with the surface of the vehicle that meets it."""
        body = self._bodies[owner - len(self._members)]
        x = _LAYOUT.pack({"p_world_m": body.middles_m[0], "v_world_mps": body.v_mps, "q_world_body": (0, 0, 0, 1)})
        return CollidingBody(x, _LAYOUT, like._replace(mass_kg=np.inf, inertia_kgm2=np.full(3, np.inf)), point_m)

    def _name(self, owner: int) -> str:
        count = len(self._members)
        return self._members[owner].name if owner < count else self._bodies[owner - count].name
