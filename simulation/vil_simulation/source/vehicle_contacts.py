"""Contacts of the vehicles of a source with one another, and with bodies that others move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.matrices import dot, length, product
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import MovingBody
from vil_simulation.source.contacts import RESTING_MPS
from vil_simulation.source.moving_bodies import MovingBodies
from vil_simulation.source.scene_contacts import HARDEST_MPS2
from vil_simulation.source.vehicle_group import VehicleGroup
from vil_simulation.vehicles.contact import CollidingBody, WorldContact, exchange

_HORIZON_S: Final = 0.05
"""Pairs are looked for this often, among all that can meet in this time."""
_DRIFT: Final = 0.9
"""Part of the depth in a body of others that stays at a bounce.

Places from two simulations drift into each other.
"""

_Indices = npt.NDArray[np.intp]


class _Member(NamedTuple):
    """A vehicle: its name, group and row."""

    name: str
    group: VehicleGroup
    row: int


class _Spheres(NamedTuple):
    """Spheres of all vehicles, then of all bodies, at one step.

    Attributes:
        step, t_ns: number and end of the step.
        middle_m: (s, 3). speed: at most, (s,). radius_m: (s,). owner: vehicle or body, (s,).
    """

    step: int
    t_ns: int
    middle_m: FloatArray
    speed: FloatArray
    radius_m: FloatArray
    owner: _Indices


class _Meeting(NamedTuple):
    """Two spheres that met in a step.

    Attributes:
        first, second: which. point_m: where, (3,). normal: from the second to the first, unit,
            (3,).
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
        self._groups: Final[list[VehicleGroup]] = []
        self._members: Final[list[_Member]] = []
        self._dt_s: Final = dt_s
        self._bodies: Final = MovingBodies()
        self._other_bodies = False
        self._pairs: tuple[_Indices, _Indices] = (np.zeros(0, np.intp), np.zeros(0, np.intp))
        self._last_m: FloatArray | None = None
        self._last = 0, 0
        self._vehicle_spheres = 0
        self._due = 0
        for group in groups:
            self.add(group, names)

    def add(self, group: VehicleGroup, names: Sequence[str]) -> None:
        """Let the vehicles of a further group meet the others.

        ``names``: of all vehicles, by number.
        """
        if group.config.contact.response != "none":
            self._groups.append(group)
            self._members.extend(
                _Member(names[int(i)], group, row) for row, i in enumerate(group.members.tolist())
            )
            self._vehicle_spheres += len(group.members) * len(group.contacts.shape.offsets_m)
            self.forget()

    def forget(self) -> None:
        """Begin again where the vehicles are next: one of them was put elsewhere."""
        self._last_m = None
        self._due = 0

    def set_bodies(self, bodies: Sequence[MovingBody], t_ns: int) -> None:
        """Set the bodies that others move, all of them, at an instant."""
        self._other_bodies |= self._bodies.set(bodies, t_ns)

    @property
    def watches(self) -> bool:
        """True if :meth:`respond` has anything to do."""
        return bool(self._members) and (
            len(self._members) + len(self._bodies.now) > 1 or self._bodies.waits
        )

    def clear_steps(self, step: int) -> int | None:
        """Return how many steps may be made before :meth:`respond` is next called, at least 1.

        None = any number.
        """
        if not self.watches:
            return None
        if len(self._pairs[0]) or self._other_bodies or self._bodies.waits:
            return 1
        return max(1, self._due - step)

    def respond(self, step: int, t_ns: int) -> None:
        """Let all that met in a step bounce.

        Called after each one in which something may have met.
        """
        if self._other_bodies or len(self._pairs[0]) or step >= self._due:
            spheres = self._spheres(step, t_ns)
            if self._other_bodies:
                self._look(spheres)
            if self._last_m is not None and self._last[0] == step - 1 and len(self._pairs[0]):
                self._sweep(self._before(self._last_m), spheres)
            if step >= self._due:
                self._look(spheres)
            self._last_m = spheres.middle_m[: self._vehicle_spheres]
            self._last = (step, t_ns)
        self._other_bodies = self._bodies.reach(t_ns)
        for group in self._groups:
            if group.contacts.to_reset:
                group.send_back()
                self.forget()

    def _look(self, spheres: _Spheres) -> None:
        """Look for the pairs that can meet within the horizon."""
        self._pairs = self._near(spheres)
        self._due = spheres.step + max(1, int(_HORIZON_S / self._dt_s))

    def _before(self, last_m: FloatArray) -> FloatArray:
        """Return where all spheres were after the step before.

        A body that is seen elsewhere has not flown there.
        """
        bodies = [self._bodies.middles_m(k, self._last[1]) for k in range(len(self._bodies.now))]
        return np.concatenate((last_m, *bodies))

    def _spheres(self, step: int, t_ns: int) -> _Spheres:
        middles = []
        speeds = []
        radii = []
        counts = []
        for group in self._groups:
            rows = group.bodies()
            shape = group.contacts.shape
            speed = np.linalg.norm(rows[:, 3:6], axis=1) + shape.reach_m * np.linalg.norm(
                rows[:, 10:13], axis=1
            )
            middles.append(shape.middles(rows[:, :3], rows[:, 6:10]).reshape(-1, 3))
            speeds.append(speed)
            radii += [shape.radius_m] * len(rows)
            counts += [len(shape.offsets_m)] * len(rows)
        for k, body in enumerate(self._bodies.now):
            middles.append(self._bodies.middles_m(k, t_ns))
            speeds.append(np.array([self._bodies.speed_mps(k)]))
            radii.append(body.radius_m)
            counts.append(len(body.middles_m))
        owner = np.repeat(np.arange(len(counts)), counts)
        where = np.concatenate(middles), np.concatenate(speeds)[owner]
        return _Spheres(step, t_ns, *where, np.array(radii)[owner], owner)

    def _near(self, spheres: _Spheres) -> tuple[_Indices, _Indices]:
        """Return the pairs of spheres of different owners that can meet within the horizon.

        One is a vehicle's.
        """
        p = spheres.middle_m
        horizon_s = max(_HORIZON_S, self._dt_s)
        reach = spheres.radius_m + horizon_s * (spheres.speed + 0.5 * HARDEST_MPS2 * horizon_s)
        square = (p * p).sum(axis=1)
        near = square[:, None] + square - 2.0 * product(p, p.T) <= (reach[:, None] + reach) ** 2
        first, second = np.nonzero(np.triu(near, 1))
        apart = (spheres.owner[first] != spheres.owner[second]) & (
            spheres.owner[first] < len(self._members)
        )
        ended = [group.ended for group in self._groups] + [
            np.zeros(len(self._bodies.now), np.bool_)
        ]
        stands = np.concatenate(ended)[spheres.owner]
        apart &= ~(stands[first] | stands[second])
        return first[apart], second[apart]

    def _sweep(self, last_m: FloatArray, spheres: _Spheres) -> None:
        """Let the pairs that met on their ways since the last step bounce, the earliest first."""
        i, j = self._pairs
        gap = last_m[i] - last_m[j]
        way = spheres.middle_m[i] - spheres.middle_m[j] - gap
        reach = spheres.radius_m[i] + spheres.radius_m[j]
        a = (way * way).sum(axis=1)
        b = (gap * way).sum(axis=1)
        c = (gap * gap).sum(axis=1) - reach * reach
        h = b * b - a * c
        meets = (b < 0.0) & ((c <= 0.0) | (h > 0.0))
        share = np.where(
            meets & (c > 0.0), c / np.where(meets, np.sqrt(np.maximum(h, 0.0)) - b, 1.0), 0.0
        )
        for k in np.flatnonzero(meets & (share <= 1.0))[
            np.argsort(share[meets & (share <= 1.0)])
        ].tolist():
            at = gap[k] + share[k] * way[k]
            away_m = length(at)
            normal = at / away_m if away_m > 0.0 else -way[k] / np.sqrt(a[k])
            inside_m = max(float(reach[k]) - away_m, 0.0)
            middle_m = last_m[j[k]] + share[k] * (spheres.middle_m[j[k]] - last_m[j[k]])
            point_m = middle_m + spheres.radius_m[j[k]] * normal
            self._bounce(_Meeting(int(i[k]), int(j[k]), point_m, normal, inside_m), spheres)

    def _bounce(self, met: _Meeting, spheres: _Spheres) -> None:
        """Let two spheres bounce."""
        middles = spheres.middle_m
        radii = spheres.radius_m
        normal = met.normal
        i = met.first
        j = met.second
        owners = int(spheres.owner[i]), int(spheres.owner[j])
        depth_m = max(float(radii[i] + radii[j]) - dot(middles[i] - middles[j], normal), 0.0)
        # Both are touched where they were when they met, whatever way they went in the rest of the
        # step.
        one = self._colliding(owners[0], middles[i] - radii[i] * normal)
        at_m = middles[j] + radii[j] * normal
        if owners[1] < len(self._members):
            other = self._colliding(owners[1], at_m)
        else:
            other = self._bodies.colliding(
                owners[1] - len(self._members), at_m, one.body, spheres.t_ns
            )
        approach = dot(
            one.x[0, one.layout["v_world_mps"]] - other.x[0, other.layout["v_world_mps"]], normal
        )
        if -approach < RESTING_MPS:
            one, other = (
                part._replace(body=part.body._replace(restitution=0.0)) for part in (one, other)
            )
        before = one.x.copy(), other.x.copy()
        exchange(one, other, normal)
        per_kg = 1.0 / one.body.mass_kg + 1.0 / other.body.mass_kg
        stays = 1.0 if owners[1] < len(self._members) else _DRIFT
        out_m = max(depth_m - stays * met.inside_m, 0.0) / per_kg * normal
        for k, (part, sign) in enumerate(((one, 1.0), (other, -1.0))):
            part.x[0, part.layout["p_world_m"]] += sign / part.body.mass_kg * out_m
            moved_m = (part.x - before[k])[0, part.layout["p_world_m"]]
            middles[spheres.owner == owners[k]] += moved_m
            if owners[k] < len(self._members):
                contact = WorldContact(met.point_m[None], sign * normal[None], np.array([depth_m]))
                self._struck(
                    self._members[owners[k]],
                    part,
                    before[k],
                    contact,
                    self._name(owners[1 - k]),
                    spheres.step,
                )
            else:
                self._bodies.struck(owners[k] - len(self._members), part.x, moved_m, spheres.t_ns)

    def _struck(
        self,
        who: _Member,
        part: CollidingBody,
        was: FloatArray,
        contact: WorldContact,
        other: str,
        step: int,
    ) -> None:
        """Write a vehicle's new state back, and record its contact."""
        group = who.group
        row = who.row
        layout = part.layout
        x = group.fleets.of_row(row).x
        x[row] = part.x[0]
        rows = np.zeros(len(x), np.bool_)
        rows[row] = True
        group.contacts.roll(x, layout, rows)
        for k, name in enumerate(("v_world_mps", "w_body_radps")):
            group.struck[row, 3 * k : 3 * k + 3] += x[row, layout[name]] - was[0, layout[name]]
        begun = int(group.contacts.collisions[row])
        group.contacts.record(
            np.array([row]), was[:, layout["p_world_m"]], contact, step, self._dt_s, other
        )
        group.revision += int(group.contacts.collisions[row]) - begun
        if group.config.contact.response == "reset":
            group.contacts.to_reset.append(row)

    def _colliding(self, owner: int, point_m: FloatArray) -> CollidingBody:
        """Return a copy of a vehicle's state."""
        _, group, row = self._members[owner]
        fleet = group.fleets.of_row(row)
        return CollidingBody(
            fleet.x[row : row + 1].copy(), fleet.model.state, group.contacts.body, point_m
        )

    def _name(self, owner: int) -> str:
        count = len(self._members)
        return self._members[owner].name if owner < count else self._bodies.now[owner - count].name
