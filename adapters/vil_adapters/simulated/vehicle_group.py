"""Vehicles of one model and the same parameters: one fleet for each mode in which some of them fly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from vil_adapters.simulated.autopilot import Autopilot, autopilot_of
from vil_adapters.simulated.contacts import ContactModel
from vil_adapters.simulated.disturbances import disturbances_of
from vil_adapters.simulated.ipc import BODY_COLUMNS, ContactReport, FlyCommand, StatusUpdate
from vil_adapters.simulated.model_factory import PERSISTENT_MODES, ModelFactory
from vil_adapters.simulated.vehicle_config import Vehicle
from vil_bridge.core.types import FloatArray
from vil_bridge.vehicles.contact import with_contacts
from vil_bridge.vehicles.fleet import Fleet
from vil_bridge.vehicles.layout import RIGID_BODY, StateLayout
from vil_bridge.vehicles.model import TrueState

Pilot = Literal["autopilot", "command", "timeout"]

_NEVER: Final = 1 << 62


@dataclass(slots=True)
class _PilotState:
    """Pilot of a vehicle: kind, mode and counters."""

    mode: str
    kind: Pilot = "autopilot"
    last_step: int = -1
    commands: int = 0
    superseded: int = 0


class _ModeFleet:
    """The fleet of one mode, and which rows of it are flown."""

    def __init__(self, fleet: Fleet, parked: FloatArray) -> None:
        self.fleet = fleet
        self.parked = parked
        self.active = np.zeros(fleet.n, dtype=np.bool_)


class VehicleGroup:
    """Some vehicles that share everything but their places and pilots.

    Args:
        vehicles: the vehicles. dt_s: a step. seed: of all noise. control_every: steps between two of the autopilot's.

    Attributes:
        members: the vehicles' numbers in the source, (n,). config: what they share.
        revision: grows whenever :meth:`notes` changes.

    Raises:
        ValueError: the model does not accept its parameters, or has no such mode.
    """

    def __init__(self, vehicles: Sequence[Vehicle], dt_s: Fraction, seed: int, control_every: int) -> None:
        self.members: Final = np.array([vehicle.index for vehicle in vehicles])
        self.step = 0
        self.revision = 0
        self._vehicles = tuple(vehicles)
        self._row = {vehicle.index: row for row, vehicle in enumerate(vehicles)}
        self._dt_s = dt_s
        self._seed = seed
        self.config: Final = vehicles[0].config
        self.factory: Final = ModelFactory(self.config)
        self._fleets: dict[str, _ModeFleet] = {}
        self._autopilot: Autopilot | None = autopilot_of(self.factory, vehicles, float(dt_s) * control_every)
        self._contacts = ContactModel(self.config.contact, self.factory.model, len(vehicles))
        self._pilots = [_PilotState(self._home_mode) for _ in vehicles]
        self._armed = np.zeros(len(vehicles), dtype=np.bool_)
        self._struck = np.zeros((len(vehicles), 6))
        self._since_reset = np.zeros(len(vehicles), dtype=np.int64)
        self._deadline = np.full(len(vehicles), _NEVER, dtype=np.int64)
        self._timeouts = [round(c.config.command_timeout_ms / 1e3 / dt_s) for c in vehicles]
        for row, vehicle in enumerate(vehicles):
            self.reset(row, armed=vehicle.config.armed)

    # --- orders ---------------------------------------------------------------------------------

    def row_of(self, vehicle: int) -> int:
        """Return row of one of the members."""
        return self._row[vehicle]

    def fly(self, row: int, order: FlyCommand) -> None:
        """Apply a pilot's values, which were checked before; a disarmed vehicle ignores them."""
        if not self._armed[row]:
            return
        pilot = self._pilots[row]
        pilot.superseded += pilot.last_step == self.step
        pilot.kind, pilot.last_step, pilot.commands = "command", self.step, pilot.commands + 1
        self._deadline[row] = _NEVER if order.mode in PERSISTENT_MODES else self.step + self._timeouts[row]
        self.revision += 1
        if self._autopilot is not None and order.mode in self.factory.autopilot_modes:
            self._autopilot.steer(row, order.mode, order.values, self._x(row))
            self._switch(row, self._autopilot.mode)
        else:
            self._release(row)
            self._switch(row, order.mode)
            self._command(row, np.array(order.values))
        pilot.mode = order.mode

    def arm(self, row: int, armed: bool) -> None:
        """Let the motors obey, or stop them; once armed, a vehicle without a command flies as configured."""
        if armed == self._armed[row]:
            return
        self._armed[row] = armed
        self.revision += 1
        if not armed:
            self._stop(row)
        elif self._autopilot is not None and self._pilots[row].kind == "autopilot":
            self._since_reset[row] = self.step
            self._autopilot.begin(row, self._vehicles[row].config.autopilot)
        elif self._autopilot is not None:
            self._autopilot.hold(row, self._x(row))

    def reset(self, row: int, *, armed: bool = True) -> None:
        """Put a vehicle back to its start, under the autopilot."""
        pilot, vehicle = self._pilots[row], self._vehicles[row]
        self.revision += 1
        self._release(row)
        self._switch(row, self._home_mode)
        mode_fleet = self._fleet_of(self._home_mode)
        mode_fleet.fleet.x[row] = mode_fleet.parked[row]
        pilot.mode, pilot.kind, self._armed[row] = self._home_mode, "autopilot", armed
        self._since_reset[row], self._deadline[row] = self.step, _NEVER
        self._contacts.reset(row, self.step)
        self._command(row, mode_fleet.fleet.model.neutral(1)[0])
        if not armed:
            self._stop(row)
        elif self._autopilot is not None:
            self._autopilot.begin(row, vehicle.config.autopilot)

    def on_contact(self, row: int, report: ContactReport, step_of_picture: int) -> None:
        """Apply what a renderer reports of a vehicle's camera."""
        if self._contacts.on_contact(row, report, step_of_picture, self._dt_s):
            self._contacts.collisions[row] += 1
            self.reset(row, armed=False)

    # --- time -----------------------------------------------------------------------------------

    @property
    def watched(self) -> bool:
        """True if every single step is checked for contacts."""
        return self._contacts.watches

    def control(self) -> None:
        """Time out silent pilots, and fly the autopilot's vehicles; called every few steps."""
        for row in np.flatnonzero(self._deadline < self.step).tolist():
            self._time_out(row)
        if self._autopilot is None:
            return
        rows = self._steered()
        if len(rows):
            fleet = self._fleet_of(self._autopilot.mode).fleet
            t_s: FloatArray = (self.step - self._since_reset[rows]).astype(np.float64) * float(self._dt_s)
            u = self._autopilot.commands(rows, fleet.x[rows], t_s)
            fleet.command(u, rows.tolist())

    def advance(self, steps: int) -> None:
        """Make steps."""
        for mode_fleet in self._fleets.values():
            if not mode_fleet.active.any():
                mode_fleet.fleet.steps += steps
                continue
            mode_fleet.fleet.advance(steps)
            if not mode_fleet.active.all():
                mode_fleet.fleet.x[~mode_fleet.active] = mode_fleet.parked[~mode_fleet.active]
        self.step += steps
        self._struck[:] = 0.0
        if self._contacts.watches:
            for mode_fleet in self._fleets.values():
                if mode_fleet.active.any():
                    x, state = mode_fleet.fleet.x, mode_fleet.fleet.model.state
                    before = _motion(x, state)
                    self.revision += self._contacts.respond(x, state, mode_fleet.active, self.step, float(self._dt_s))
                    self._struck[mode_fleet.active] = (_motion(x, state) - before)[mode_fleet.active]

    # --- what others see ------------------------------------------------------------------------

    def bodies(self) -> FloatArray:
        """Return first 13 columns of every vehicle, (n, 13)."""
        found = np.empty((len(self._vehicles), BODY_COLUMNS))
        for mode_fleet in self._fleets.values():
            if mode_fleet.active.any():
                state = mode_fleet.fleet.model.state
                rows = mode_fleet.fleet.x[mode_fleet.active]
                found[mode_fleet.active] = np.concatenate([rows[:, state[f.name]] for f in RIGID_BODY], axis=1)
        return found

    def notes(self) -> list[StatusUpdate]:
        """Return what changes seldom, of every vehicle."""
        return [
            StatusUpdate(
                pilot.mode,
                pilot.kind,
                bool(self._armed[row]),
                pilot.commands,
                pilot.superseded,
                int(self._contacts.collisions[row]),
            )
            for row, pilot in enumerate(self._pilots)
        ]

    def truth(self) -> TrueState:
        """Return what sensors measure on every vehicle."""
        flown = [mode_fleet for mode_fleet in self._fleets.values() if mode_fleet.active.any()]
        truth = flown[0].fleet.truth()
        for mode_fleet in flown[1:]:
            other = mode_fleet.fleet.truth()
            for mine, its in zip(truth[1:], other[1:], strict=True):
                mine[mode_fleet.active] = its[mode_fleet.active]
        return with_contacts(truth, self._struck, float(self._dt_s))

    # --- within ---------------------------------------------------------------------------------

    @property
    def _home_mode(self) -> str:
        return self.factory.model.mode if self._autopilot is None else self._autopilot.mode

    def _fleet_of(self, mode: str) -> _ModeFleet:
        if mode not in self._fleets:
            model = self.factory.make(mode)
            fleet = Fleet(
                model,
                len(self._vehicles),
                dt_s=self._dt_s,
                delay_s=self.config.command_delay_ms / 1e3,
                disturbances=disturbances_of(self.config, self.members, self._seed),
            )
            fleet.steps = self.step
            half = [math.radians(vehicle.config.yaw_deg) / 2.0 for vehicle in self._vehicles]
            fleet.place(
                p_world_m=[vehicle.p_m for vehicle in self._vehicles],
                q_world_body=[(0.0, 0.0, math.sin(a), math.cos(a)) for a in half],
            )
            self._fleets[mode] = _ModeFleet(fleet, fleet.x.copy())
        return self._fleets[mode]

    def _switch(self, row: int, mode: str) -> None:
        """Fly a vehicle in another mode: fields that both states have are copied, the rest starts again."""
        mode_fleet = self._fleet_of(mode)
        if mode_fleet.active[row]:
            return
        for other in self._fleets.values():
            if other.active[row]:
                here, there = other.fleet.model.state, mode_fleet.fleet.model.state
                mode_fleet.fleet.x[row] = mode_fleet.parked[row]
                for name in there:
                    if name in here and here[name].stop - here[name].start == there[name].stop - there[name].start:
                        mode_fleet.fleet.x[row, there[name]] = other.fleet.x[row, here[name]]
                other.active[row] = False
                other.fleet.x[row] = other.parked[row]
        mode_fleet.active[row] = True

    def _x(self, row: int) -> FloatArray:
        """Return first 13 columns of one vehicle."""
        mode_fleet = self._active(row)
        state = mode_fleet.fleet.model.state
        return np.concatenate([mode_fleet.fleet.x[row, state[f.name]] for f in RIGID_BODY])

    def _active(self, row: int) -> _ModeFleet:
        return next(mode_fleet for mode_fleet in self._fleets.values() if mode_fleet.active[row])

    def _command(self, row: int, u: FloatArray) -> None:
        if self._armed[row]:
            self._active(row).fleet.command(u, row)

    def _stop(self, row: int) -> None:
        """Command nothing at all: the motors run down."""
        self._release(row)
        self._switch(row, self._home_mode)
        self._pilots[row].mode = self._home_mode
        mode_fleet = self._fleet_of(self._home_mode)
        mode_fleet.fleet.command(np.zeros(mode_fleet.fleet.u.shape[1]), row)

    def _release(self, row: int) -> None:
        if self._autopilot is not None:
            self._autopilot.release(row)

    def _time_out(self, row: int) -> None:
        """Apply the configured response to a silent pilot."""
        pilot, response = self._pilots[row], self._vehicles[row].config.on_timeout
        self._deadline[row] = _NEVER
        if response == "hold":
            return
        pilot.kind = "timeout"
        self.revision += 1
        if response == "hover" and self._autopilot is not None:
            self._autopilot.hold(row, self._x(row))
            self._switch(row, self._autopilot.mode)
        else:
            self._release(row)
            self._command(row, self._active(row).fleet.model.neutral(1)[0])

    def _steered(self) -> npt.NDArray[np.int64]:
        """Return rows that the autopilot commands now."""
        assert self._autopilot is not None
        return np.flatnonzero(self._autopilot.steers & self._armed & self._fleet_of(self._autopilot.mode).active)


def _motion(x: FloatArray, state: StateLayout) -> FloatArray:
    """Return velocities and body rates, (n, 6)."""
    return np.hstack((x[:, state["v_world_mps"]], x[:, state["w_body_radps"]]))
