"""All vehicles of a source, step by step.

No clock, no threads, the same orders give the same flight.
"""

from __future__ import annotations

import heapq
import json
import logging
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import count
from typing import Final

import numpy as np

from vil_bridge import registry
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns
from vil_bridge.core.errors import RendererError
from vil_bridge.interfaces.solid_world import SceneEdit
from vil_simulation.source.autopilot_programs import AutopilotPrograms
from vil_simulation.source.config import SimulatedConfig, names_of
from vil_simulation.source.ipc import (
    BODY_COLUMNS,
    AddOrder,
    ArmCommand,
    BodiesUpdate,
    CancelOrder,
    ContactReport,
    DisturbOrder,
    EditOrder,
    FlyCommand,
    GainsOrder,
    MoveOrder,
    PlaceOrder,
    Reset,
    StatusUpdate,
    SticksOrder,
    VehicleBatch,
    VehicleOrder,
)
from vil_simulation.source.move_runner import NEVER
from vil_simulation.source.scene_contacts import SceneContacts
from vil_simulation.source.sensor_parts import fitted_sensors
from vil_simulation.source.sphere_row import SphereRow
from vil_simulation.source.vehicle_config import AutopilotProgramConfig, Vehicle, VehicleConfig
from vil_simulation.source.vehicle_contacts import VehicleContacts
from vil_simulation.source.vehicle_group import VehicleGroup
from vil_simulation.source.vehicle_sensors import VehicleSensors, is_due, next_due, share_of
from vil_simulation.vehicles.environment.geodesy import GeoOrigin

logger = logging.getLogger(__name__)

_MOST_WAITING: Final = 10_000
PATIENCE_NS: Final = 5 * NS_PER_MS
"""Waited at a time for an autopilot's program, before orders are looked at again."""


class Simulation:
    """Vehicles of one configuration, advanced together.

    Attributes:
        subjects: the vehicles by number, added ones last. steps: made so far, by every vehicle.

    Raises:
        ValueError: an entry's model or parameters are wrong; names the entry.
    """

    def __init__(self, config: SimulatedConfig) -> None:
        vehicles = vehicles_of(config)
        self.subjects = tuple(vehicle.name for vehicle in vehicles)
        self.steps = 0
        self._config: Final = config
        self.dt_s: Final = Fraction(1, config.step_hz)
        self._ns_per_step = (self.dt_s * NS_PER_S).as_integer_ratio()
        self._every = math.ceil(config.step_hz / config.control_hz)
        self._poses = share_of(config.rate_hz, config.step_hz)
        parts = grouped(vehicles)
        self.groups: Final = [
            VehicleGroup(g, self.dt_s, config.seed, self._every, scene_of(config, g)) for g in parts
        ]
        self._group_of = {int(i): group for group in self.groups for i in group.members}
        at = config.origin
        origin = GeoOrigin(at.latitude_deg, at.longitude_deg, at.altitude_m)
        self._sensors = VehicleSensors(
            self.groups, fitted_sensors(parts), config.step_hz, origin, config.seed
        )
        self.programs: Final = AutopilotPrograms(
            self.groups, parts, config.step_hz, origin, config.seed
        )
        self._waiting: list[tuple[int, int, VehicleOrder]] = []
        self._number = count()
        self._edits: dict[str, SceneEdit] = {}
        self._revision = -1
        known = [group.dynamics() for group in self.groups]
        self._dynamics = max(0 if rows is None else rows.shape[1] for rows in known)
        self._between: Final = VehicleContacts(self.groups, self.subjects, float(self.dt_s))
        for group in self.groups:
            group.placed.clear()  # they stand at their starts

    @property
    def has_news(self) -> bool:
        """True if a move ended, or a vehicle was put elsewhere, since the last batch."""
        return any(group.moves.ends or group.placed for group in self.groups)

    @property
    def has_changed(self) -> bool:
        """True if anything that changes seldom did so since the last batch."""
        return self._revision != sum(group.revision for group in self.groups)

    def t_of(self, step: int) -> int:
        """Return simulation time at a step."""
        return (2 * step * self._ns_per_step[0] + self._ns_per_step[1]) // (
            2 * self._ns_per_step[1]
        )

    def step_at(self, t_ns: int) -> int:
        """Return how many steps are due at a simulation time."""
        return max(0, t_ns * self._ns_per_step[1] // self._ns_per_step[0])

    def order(self, order: VehicleOrder | AddOrder | BodiesUpdate | EditOrder) -> bool:
        """Take an order: now, or at its own time. False = too many wait for theirs."""
        if isinstance(order, AddOrder):
            self._add(order)
            return True
        if isinstance(order, BodiesUpdate):
            self._between.set_bodies(order.bodies, self.t_of(self.steps))
            return True
        if isinstance(order, EditOrder):
            self._edit_scene(order.edit)
            return True
        due = self.steps
        if isinstance(order, FlyCommand) and order.t_ns is not None:
            due = max(due, -(-order.t_ns * self._ns_per_step[1] // self._ns_per_step[0]))
        if due <= self.steps:
            self._apply(order)
        elif len(self._waiting) >= _MOST_WAITING:
            return False
        else:
            heapq.heappush(self._waiting, (due, next(self._number), order))
        return True

    def advance(
        self, until: int, due: int | None = None, until_ns: int | None = None
    ) -> list[VehicleBatch]:
        """Make the steps up to a number of them; return batches to report, oldest first.

        Fewer are made where an autopilot's program owes an answer, or once the machine's clock has
        reached ``until_ns``. Of ``due`` steps, those before the last are late.
        """
        batches: list[VehicleBatch] = []
        due = until if due is None else due
        while self.steps < until and self.programs.ready(PATIENCE_NS):
            while self._waiting and self._waiting[0][0] <= self.steps:
                self._apply(heapq.heappop(self._waiting)[2])
            if self.steps % self._every == 0:
                for group in self.groups:
                    group.control()
            for group in self.groups:
                group.moves.advance(self.steps)
            if self.has_news:
                batches.append(self.batch(pose=False))
            steps = self._quiet(until, due)
            for group in self.groups:
                group.advance(steps)
            self.steps += steps
            if any(group.placed for group in self.groups):
                self._between.forget()
            if self._between.watches:
                self._between.respond(self.steps, self.t_of(self.steps))
            for group in self.groups:
                if group.struck.any():
                    group.end_lost()
                group.feel()
            self.programs.exchange(self.steps, late=self.steps < due)
            readings = self._sensors.readings(self.steps, self.t_of(self.steps))
            if is_due(self.steps, self._poses):
                batches.append(self.batch())
            if readings:
                if not batches:
                    batches.append(self.batch(pose=False))
                batches[-1].sensors.extend(readings)
            if until_ns is not None and machine_ns() >= until_ns:
                break
        return batches

    def rehearse(self) -> None:
        """Make some steps and measure with every sensor, so that all code is compiled.

        Then it is of no use any more.

        A sensor that compiles in flight would stop the world for seconds, on a busy computer for
        half a minute.
        """
        self.advance(2 * self._every)
        self._sensors.rehearse()

    def batch(self, *, pose: bool = True) -> VehicleBatch:
        """Return the states of all vehicles now."""
        n = len(self.subjects)
        bodies = np.empty((n, BODY_COLUMNS))
        dynamics = np.zeros((n, self._dynamics))
        batch = VehicleBatch(
            self.steps, self.t_of(self.steps), b"", sensors=[], ends=[], collisions=[], placed=[]
        )
        for group in self.groups:
            bodies[group.members] = group.bodies()
            known = group.dynamics()
            if known is not None:
                dynamics[group.members, : known.shape[1]] = known
            batch.ends += group.moves.pop_ends()
            batch.collisions += group.pop_collisions()
            batch.placed += group.placed
            group.placed.clear()
        batch.notes = self._notes() if self.has_changed else None
        self._revision = sum(group.revision for group in self.groups)
        batch.pose = pose or bool(batch.placed)
        batch.strangers = self.programs.strangers
        batch.bodies, batch.dynamics = bodies.tobytes(), dynamics.tobytes()
        return batch

    def _notes(self) -> list[StatusUpdate]:
        notes = {
            int(i): note for g in self.groups for i, note in zip(g.members, g.notes(), strict=True)
        }
        return [notes[i] for i in range(len(self.subjects))]

    def next_event(self, due: int = 0) -> int:
        """Return the next step after which something is sampled, commanded or reported.

        Programs in real time leave samples before ``due`` out.
        """
        now = self.steps
        event = min(next_due(now, self._poses), now + self._every - now % self._every)
        for exchange in self.programs.next_exchanges(now, due):
            event = min(event, exchange)
        for group in self.groups:
            event = min(event, group.moves.due)
        measured = self._sensors.next_due(now)
        release_ns = self._sensors.release_ns
        if measured is not None:
            event = min(event, measured)
        if release_ns is not None:
            event = min(event, self._step_from(release_ns))
        if self._waiting:
            event = min(event, self._waiting[0][0])
        return max(event, now + 1)

    def _quiet(self, until: int, due: int) -> int:
        """Return how many steps can be made at once.

        To the next event, and while nothing meets anything.
        """
        now = self.steps
        steps = min(until, self.next_event(due)) - now
        for clear in (
            self._between.clear_steps(now),
            *(group.clear_steps() for group in self.groups),
        ):
            if clear is not None:
                steps = min(steps, clear)
        return max(steps, 1)

    def _step_from(self, t_ns: int) -> int:
        """Return the first step that ends at or after a simulation time."""
        step = self.step_at(t_ns)
        while self.t_of(step) < t_ns:
            step += 1
        return step

    def _add(self, order: AddOrder) -> None:
        """Add a vehicle: a group of its own, which begins at this step in the edited scene."""
        own = VehicleConfig.model_validate_json(order.config)
        vehicle = Vehicle(len(self.subjects), order.name, own, own.p_m)
        seed = self._config.seed
        scene = scene_of(self._config, [vehicle])
        group = VehicleGroup([vehicle], self.dt_s, seed, self._every, scene, self.steps)
        self.subjects += (order.name,)
        self.groups.append(group)
        self._group_of[vehicle.index] = group
        for edit in self._edits.values():
            self._edit_around(group, edit)
        self._sensors.add([group], fitted_sensors([[vehicle]]))
        self._between.add(group, self.subjects)
        known = group.dynamics()
        self._dynamics = max(self._dynamics, 0 if known is None else known.shape[1])

    def _edit_scene(self, edit: SceneEdit) -> None:
        self._edits[edit.name] = edit
        if edit.gone and edit.asset:
            del self._edits[edit.name]
        for group in self.groups:
            self._edit_around(group, edit)

    def _edit_around(self, group: VehicleGroup, edit: SceneEdit) -> None:
        try:
            group.edit_scene(edit)
        except RendererError as exc:  # the scene has changed since it was drawn
            logger.warning(
                "vehicles do not meet an edited object name=%r problem=%s", edit.name, exc
            )

    def _apply(self, order: VehicleOrder) -> None:
        group = self._group_of[order.vehicle]
        row = group.row_of(order.vehicle)
        if group.ended[row] and not isinstance(order, Reset | DisturbOrder | GainsOrder):
            group.refuse(row, order)
            return
        match order:
            case FlyCommand():
                group.fly(row, order)
            case ArmCommand():
                group.arm(row, order.armed)
            case Reset():
                group.reset(row)
                self._between.forget()
            case MoveOrder():
                group.move(row, order)
            case CancelOrder():
                group.moves.cancel(row)
            case PlaceOrder():
                group.place(row, order)
                self._between.forget()
            case DisturbOrder():
                group.fleets.disturb(row, order.disturbance)
            case GainsOrder():
                group.moves.set_flight(row, group.fleets.set_gains(row, order))
            case SticksOrder():
                until = NEVER if order.until_ns is None else self.step_at(order.until_ns)
                group.moves.set_sticks(row, order.sticks, until)
            case ContactReport():
                group.on_contact(row, order, self.step_at(order.t_ns))


def scene_of(config: SimulatedConfig, vehicles: Sequence[Vehicle]) -> SceneContacts | None:
    """Return the scene around vehicles that share everything, None where none is configured or
    wanted.

    Raises:
        RendererError, ConfigError: the scene or what it needs is not to be had.
    """
    own = vehicles[0].config.contact
    if config.contact is None or own.response == "none":
        return None
    world = registry.solid_world(config.contact.scene, own.floor_m)
    place = config.contact.T_room_scene.transform()
    return SceneContacts(world, place, SphereRow(own), len(vehicles), 1.0 / config.step_hz)


def vehicles_of(config: SimulatedConfig) -> list[Vehicle]:
    """Return all vehicles at their starts."""
    starts = config.starts()
    described = [
        (s, vehicle)
        for name, vehicle in config.vehicles.items()
        for s in names_of(name, vehicle.count)
    ]
    return [
        Vehicle(i, subject, vehicle, starts[subject][1])
        for i, (subject, vehicle) in enumerate(described)
    ]


def grouped(vehicles: Sequence[Vehicle]) -> list[list[Vehicle]]:
    """Return vehicles that may share a fleet."""
    groups: dict[str, list[Vehicle]] = {}
    for vehicle in vehicles:
        groups.setdefault(_shared(vehicle.config), []).append(vehicle)
    return list(groups.values())


def _shared(config: VehicleConfig) -> str:
    own = {
        "count",
        "spacing_m",
        "p_m",
        "yaw_deg",
        "armed",
        "command_timeout_ms",
        "on_timeout",
        "autopilot",
    }
    if isinstance(config.autopilot, AutopilotProgramConfig):
        own.remove("autopilot")
    return json.dumps(config.model_dump(mode="json", exclude=own), sort_keys=True)
