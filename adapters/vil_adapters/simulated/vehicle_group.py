"""Vehicles of one model and the same parameters: one fleet for each mode in which some of them fly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from vil_adapters.simulated.autopilot import Autopilot, navigator_of
from vil_adapters.simulated.contacts import ContactModel
from vil_adapters.simulated.disturbances import influences_of
from vil_adapters.simulated.ipc import BODY_COLUMNS, ContactReport, FlyCommand, StatusUpdate
from vil_adapters.simulated.model_factory import PERSISTENT_MODES, ModelFactory
from vil_adapters.simulated.vehicle_config import Vehicle
from vil_bridge.core.types import FloatArray
from vil_bridge.vehicles.contact import felt
from vil_bridge.vehicles.fleet import Fleet
from vil_bridge.vehicles.layout import RIGID_BODY, StateLayout
from vil_bridge.vehicles.model import TrueState

__all__ = ["VehicleGroup"]

Pilot = Literal["autopilot", "command", "timeout"]

_NEVER: Final = 1 << 62


@dataclass(slots=True)
class _Seat:
    """Who flies a vehicle, and how."""

    mode: str
    pilot: Pilot = "autopilot"
    heard: int = -1
    commands: int = 0
    superseded: int = 0


class _Wing:
    """The fleet of one mode, and which rows of it are flown."""

    def __init__(self, fleet: Fleet, parked: FloatArray) -> None:
        self.fleet = fleet
        self.parked = parked
        self.active = np.zeros(fleet.n, dtype=np.bool_)


class VehicleGroup:
    """Some vehicles that share everything but their places and pilots.

    Args:
        crafts: the vehicles. dt_s: a step. seed: of all noise. control_every: steps between two of the autopilot's.

    Attributes:
        members: the vehicles' numbers in the source, (n,). config: what they share.
        revision: grows whenever :meth:`notes` changes.

    Raises:
        ValueError: the model does not accept its parameters, or has no such mode.
    """

    def __init__(self, crafts: Sequence[Vehicle], dt_s: Fraction, seed: int, control_every: int) -> None:
        self.members: Final = np.array([craft.index for craft in crafts])
        self.step = 0
        self.revision = 0
        self._crafts = tuple(crafts)
        self._row = {craft.index: row for row, craft in enumerate(crafts)}
        self._dt_s = dt_s
        self._seed = seed
        self.config: Final = crafts[0].config
        self.hangar: Final = ModelFactory(self.config)
        self._wings: dict[str, _Wing] = {}
        self._navigator: Autopilot | None = navigator_of(self.hangar, crafts, float(dt_s) * control_every)
        self._touch = ContactModel(self.config.contact, self.hangar.model, len(crafts))
        self._seats = [_Seat(self._home_mode) for _ in crafts]
        self._armed = np.zeros(len(crafts), dtype=np.bool_)
        self._struck = np.zeros((len(crafts), 6))
        self._since_reset = np.zeros(len(crafts), dtype=np.int64)
        self._deadline = np.full(len(crafts), _NEVER, dtype=np.int64)
        self._timeouts = [round(c.config.command_timeout_ms / 1e3 / dt_s) for c in crafts]
        for row, craft in enumerate(crafts):
            self.reset(row, armed=craft.config.armed)

    # --- orders ---------------------------------------------------------------------------------

    def row_of(self, vehicle: int) -> int:
        """Row of one of the members."""
        return self._row[vehicle]

    def fly(self, row: int, order: FlyCommand) -> None:
        """Values from a pilot, valid for the model (checked by whoever took them); a disarmed vehicle ignores them."""
        if not self._armed[row]:
            return
        seat = self._seats[row]
        seat.superseded += seat.heard == self.step
        seat.pilot, seat.heard, seat.commands = "command", self.step, seat.commands + 1
        self._deadline[row] = _NEVER if order.mode in PERSISTENT_MODES else self.step + self._timeouts[row]
        self.revision += 1
        if self._navigator is not None and order.mode in self.hangar.navigated:
            self._navigator.steer(row, order.mode, order.values, self._x(row))
            self._switch(row, self._navigator.mode)
        else:
            self._release(row)
            self._switch(row, order.mode)
            self._command(row, np.array(order.values))
        seat.mode = order.mode

    def arm(self, row: int, armed: bool) -> None:
        """Let the motors obey, or stop them; armed, a vehicle that nobody has commanded flies as configured."""
        if armed == self._armed[row]:
            return
        self._armed[row] = armed
        self.revision += 1
        if not armed:
            self._stop(row)
        elif self._navigator is not None and self._seats[row].pilot == "autopilot":
            self._since_reset[row] = self.step
            self._navigator.begin(row, self._crafts[row].config.autopilot)
        elif self._navigator is not None:
            self._navigator.hold(row, self._x(row))

    def reset(self, row: int, *, armed: bool = True) -> None:
        """Back to the start, to the autopilot."""
        seat, craft = self._seats[row], self._crafts[row]
        self.revision += 1
        self._release(row)
        self._switch(row, self._home_mode)
        wing = self._wing(self._home_mode)
        wing.fleet.x[row] = wing.parked[row]
        seat.mode, seat.pilot, self._armed[row] = self._home_mode, "autopilot", armed
        self._since_reset[row], self._deadline[row] = self.step, _NEVER
        self._touch.forget(row, self.step)
        self._command(row, wing.fleet.model.neutral(1)[0])
        if not armed:
            self._stop(row)
        elif self._navigator is not None:
            self._navigator.begin(row, craft.config.autopilot)

    def felt(self, row: int, told: ContactReport, step_of_picture: int) -> None:
        """What a renderer says of a vehicle's camera."""
        if self._touch.felt(row, told, step_of_picture, self._dt_s):
            self._touch.collisions[row] += 1
            self.reset(row, armed=False)

    # --- time -----------------------------------------------------------------------------------

    @property
    def watched(self) -> bool:
        """Whether every single step has to be looked at for contacts."""
        return self._touch.watches

    def control(self) -> None:
        """Take over from pilots who fell silent, and fly the autopilot's vehicles; called every few steps."""
        for row in np.flatnonzero(self._deadline < self.step).tolist():
            self._take_over(row)
        if self._navigator is None:
            return
        rows = self._steered()
        if len(rows):
            fleet = self._wing(self._navigator.mode).fleet
            t_s: FloatArray = (self.step - self._since_reset[rows]).astype(np.float64) * float(self._dt_s)
            u = self._navigator.commands(rows, fleet.x[rows], t_s)
            fleet.command(u, rows.tolist())

    def advance(self, steps: int) -> None:
        """Make steps."""
        for wing in self._wings.values():
            if not wing.active.any():
                wing.fleet.steps += steps
                continue
            wing.fleet.advance(steps)
            if not wing.active.all():
                wing.fleet.x[~wing.active] = wing.parked[~wing.active]
        self.step += steps
        self._struck[:] = 0.0
        if self._touch.watches:
            for wing in self._wings.values():
                if wing.active.any():
                    x, state = wing.fleet.x, wing.fleet.model.state
                    before = _motion(x, state)
                    self.revision += self._touch.respond(x, state, wing.active, self.step, float(self._dt_s))
                    self._struck[wing.active] = (_motion(x, state) - before)[wing.active]

    # --- what others see ------------------------------------------------------------------------

    def bodies(self) -> FloatArray:
        """First 13 columns of every vehicle, (n, 13)."""
        found = np.empty((len(self._crafts), BODY_COLUMNS))
        for wing in self._wings.values():
            if wing.active.any():
                state = wing.fleet.model.state
                rows = wing.fleet.x[wing.active]
                found[wing.active] = np.concatenate([rows[:, state[f.name]] for f in RIGID_BODY], axis=1)
        return found

    def notes(self) -> list[StatusUpdate]:
        """What changes seldom, of every vehicle."""
        return [
            StatusUpdate(
                seat.mode,
                seat.pilot,
                bool(self._armed[row]),
                seat.commands,
                seat.superseded,
                int(self._touch.collisions[row]),
            )
            for row, seat in enumerate(self._seats)
        ]

    def truth(self) -> TrueState:
        """What sensors measure on every vehicle."""
        flown = [wing for wing in self._wings.values() if wing.active.any()]
        truth = flown[0].fleet.truth()
        for wing in flown[1:]:
            other = wing.fleet.truth()
            for mine, its in zip(truth[1:], other[1:], strict=True):
                mine[wing.active] = its[wing.active]
        return felt(truth, self._struck, float(self._dt_s))

    # --- within ---------------------------------------------------------------------------------

    @property
    def _home_mode(self) -> str:
        return self.hangar.model.mode if self._navigator is None else self._navigator.mode

    def _wing(self, mode: str) -> _Wing:
        if mode not in self._wings:
            model = self.hangar.make(mode)
            fleet = Fleet(
                model,
                len(self._crafts),
                dt_s=self._dt_s,
                delay_s=self.config.command_delay_ms / 1e3,
                influences=influences_of(self.config, self.members, self._seed),
            )
            fleet.steps = self.step
            half = [math.radians(craft.config.yaw_deg) / 2.0 for craft in self._crafts]
            fleet.place(
                p_world_m=[craft.p_m for craft in self._crafts],
                q_world_body=[(0.0, 0.0, math.sin(a), math.cos(a)) for a in half],
            )
            self._wings[mode] = _Wing(fleet, fleet.x.copy())
        return self._wings[mode]

    def _switch(self, row: int, mode: str) -> None:
        """Fly a vehicle in another mode: what both states have goes on, the rest starts anew."""
        wing = self._wing(mode)
        if wing.active[row]:
            return
        for other in self._wings.values():
            if other.active[row]:
                here, there = other.fleet.model.state, wing.fleet.model.state
                wing.fleet.x[row] = wing.parked[row]
                for name in there:
                    if name in here and here[name].stop - here[name].start == there[name].stop - there[name].start:
                        wing.fleet.x[row, there[name]] = other.fleet.x[row, here[name]]
                other.active[row] = False
                other.fleet.x[row] = other.parked[row]
        wing.active[row] = True

    def _x(self, row: int) -> FloatArray:
        """First 13 columns of one vehicle."""
        wing = self._active(row)
        state = wing.fleet.model.state
        return np.concatenate([wing.fleet.x[row, state[f.name]] for f in RIGID_BODY])

    def _active(self, row: int) -> _Wing:
        return next(wing for wing in self._wings.values() if wing.active[row])

    def _command(self, row: int, u: FloatArray) -> None:
        if self._armed[row]:
            self._active(row).fleet.command(u, row)

    def _stop(self, row: int) -> None:
        """No command at all: the motors run down."""
        self._release(row)
        self._switch(row, self._home_mode)
        self._seats[row].mode = self._home_mode
        wing = self._wing(self._home_mode)
        wing.fleet.command(np.zeros(wing.fleet.u.shape[1]), row)

    def _release(self, row: int) -> None:
        if self._navigator is not None:
            self._navigator.release(row)

    def _take_over(self, row: int) -> None:
        """A pilot fell silent."""
        seat, wish = self._seats[row], self._crafts[row].config.on_timeout
        self._deadline[row] = _NEVER
        if wish == "hold":
            return
        seat.pilot = "timeout"
        self.revision += 1
        if wish == "hover" and self._navigator is not None:
            self._navigator.hold(row, self._x(row))
            self._switch(row, self._navigator.mode)
        else:
            self._release(row)
            self._command(row, self._active(row).fleet.model.neutral(1)[0])

    def _steered(self) -> npt.NDArray[np.int64]:
        """Rows that the navigator commands now."""
        assert self._navigator is not None
        return np.flatnonzero(self._navigator.steers & self._armed & self._wing(self._navigator.mode).active)


def _motion(x: FloatArray, state: StateLayout) -> FloatArray:
    """Velocities and body rates, (n, 6)."""
    return np.hstack((x[:, state["v_world_mps"]], x[:, state["w_body_radps"]]))
