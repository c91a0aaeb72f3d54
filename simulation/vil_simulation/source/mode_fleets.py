"""Fleets of the vehicles of a group: one for each mode in which some of them fly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from vil_bridge.core.elementary import sin_cos
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.interfaces.vehicle_moves import VehicleDisturbance
from vil_simulation.source.airsim_state import DYNAMICS_COLUMNS, dynamics
from vil_simulation.source.disturbances import ImposedAir, disturbances_of
from vil_simulation.source.ipc import BODY_COLUMNS, GainsOrder
from vil_simulation.source.model_factory import ModelFactory
from vil_simulation.source.vehicle_config import Vehicle
from vil_simulation.vehicles.airsim.simple_flight import SimpleFlight
from vil_simulation.vehicles.broken_rotors import BrokenRotors
from vil_simulation.vehicles.disturbances import Disturbance
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.layout import RIGID_BODY, StateLayout
from vil_simulation.vehicles.model import Model, TrueState
from vil_simulation.vehicles.physical_ranges import STATE_OTHER, STATE_RANGES

_MOTION: Final = ("v_world_mps", "w_body_radps", "a_world_mps2", "alpha_body_radps2", "speed_mps")


def _limits_of(state: StateLayout) -> FloatArray:
    """Return the largest magnitude of each column, (dx,)."""
    limits = np.full(state.size, STATE_OTHER.most)
    for name, permitted in STATE_RANGES.items():
        if name in state:
            limits[state[name]] = permitted.most
    return limits


class ModeFleet:
    """The fleet of one mode.

    Attributes:
        parked: states of rows that are not flown, (n, dx). active: which rows are, (n,). flying:
            how many are.
        sound: newest states that were physical, (n, dx).
    """

    def __init__(self, fleet: Fleet, parked: FloatArray) -> None:
        self.fleet: Final = fleet
        self.parked: Final = parked
        self.sound: Final = parked.copy()
        self._limits: Final = _limits_of(fleet.model.state)
        self.active: Final = np.zeros(fleet.n, dtype=np.bool_)
        self.flying = 0
        columns = np.concatenate([np.r_[fleet.model.state[f.name]] for f in RIGID_BODY])
        self._columns: Final = slice(0, BODY_COLUMNS) if fleet.model.state.begins_rigid else columns

    @property
    def bodies(self) -> FloatArray:
        """First 13 columns of all rows, (n, 13)."""
        bodies: FloatArray = self.fleet.x[:, self._columns]
        return bodies

    def fly(self, row: int, *, flown: bool) -> None:
        """Let a row be flown, or parked."""
        self.active[row] = flown
        self.flying = int(np.count_nonzero(self.active))
        self.sound[row] = self.fleet.x[row]

    def keep_sound(self, ended: BoolArray) -> list[tuple[int, str]]:
        """Hold rows that have ended where they are.

        Put those that are no longer physical back to where they were.

        Returns the flown rows of the latter, and the field of the state that is not physical.
        """
        x = self.fleet.x
        sound = self.sound
        if ended.any():
            x[ended] = sound[ended]
        inside = np.abs(x) <= self._limits
        if inside.all():
            np.copyto(sound, x)
            return []
        bad = ~inside.all(axis=1)
        found = [
            (row, self._first_outside(row, inside[row]))
            for row in np.flatnonzero(bad & self.active).tolist()
        ]
        x[bad] = sound[bad]
        np.copyto(sound, x)
        return found

    def stand(self, row: int) -> None:
        """Take the motion out of a row that has ended."""
        state = self.fleet.model.state
        for name in _MOTION:
            if name in state:
                self.fleet.x[row, state[name]] = 0.0
        self.sound[row] = self.fleet.x[row]

    def _first_outside(self, row: int, inside: BoolArray) -> str:
        state = self.fleet.model.state
        column = int(np.argmin(inside))
        name = next(name for name in state if state[name].start <= column < state[name].stop)
        return f"{name} is {self.fleet.x[row, column]:g}"


class ModeFleets:
    """Fleets by mode; each row is flown in one of them and parked at its start in the others.

    Args:
        vehicles: the vehicles. factory: of their models. dt_s: a step. seed: of all noise.
        step: at which they begin.

    Attributes:
        step: made so far.
    """

    def __init__(
        self,
        vehicles: Sequence[Vehicle],
        factory: ModelFactory,
        dt_s: Fraction,
        seed: int,
        step: int = 0,
    ) -> None:
        self.step = step
        self._vehicles = tuple(vehicles)
        self._factory = factory
        self._dt_s = dt_s
        self._seed = seed
        self._fleets: dict[tuple[str, SimpleFlight | None], ModeFleet] = {}
        self._flights: dict[int, SimpleFlight] = {}
        self._imposed: ImposedAir | None = None
        self._lost_shares = np.zeros((len(vehicles), factory.rotors))

    def of(self, mode: str, row: int | None = None) -> ModeFleet:
        """Return the fleet of a mode; that of a row's own gains, where it has such."""
        own = None if row is None else self._flights.get(row)
        if (mode, own) not in self._fleets:
            config = self._vehicles[0].config
            model = self._factory.make(mode, own)
            fleet = Fleet(
                model,
                len(self._vehicles),
                dt_s=self._dt_s,
                delay_s=config.command_delay_ms / 1e3,
                disturbances=self._disturbances(model),
            )
            fleet.steps = self.step
            half_rad = [math.radians(vehicle.config.yaw_deg) / 2.0 for vehicle in self._vehicles]
            sines, cosines = sin_cos(np.array(half_rad))
            fleet.place(
                p_world_m=[vehicle.p_m for vehicle in self._vehicles],
                q_world_body=[
                    (0.0, 0.0, sine, cosine) for sine, cosine in zip(sines, cosines, strict=True)
                ],
            )
            self._fleets[mode, own] = ModeFleet(fleet, fleet.x.copy())
        return self._fleets[mode, own]

    def flight_of(self, row: int) -> SimpleFlight:
        """Return the gains and limits of a vehicle's flight controller, which is AirSim's."""
        assert self._factory.airsim is not None
        return self._flights.get(row, self._factory.airsim.flight)

    def set_gains(self, row: int, order: GainsOrder) -> SimpleFlight:
        """Give the flight controller of a vehicle other gains of a loop; return all of them.

        Its command goes on.
        """
        before = self.of_row(row)
        gains = dict[str, Any]([(order.loop, order.gains)])
        flight = self._flights[row] = replace(self.flight_of(row), **gains)
        if self._factory.airsim is not None and flight == self._factory.airsim.flight:
            del self._flights[row]
        self.switch(row, before.model.mode)
        self.of_row(row).command(before.u[row], row)
        for mode, own in list(self._fleets):
            if own is not None and own not in self._flights.values():
                del self._fleets[mode, own]
        return flight

    def disturb(self, row: int, disturbance: VehicleDisturbance) -> None:
        """Let wind, a force and broken rotors act on a vehicle from now on."""
        wind, force, lost = msgspec.structs.astuple(disturbance)
        if self._imposed is None and (wind is not None or force is not None):
            self._imposed = ImposedAir(self._vehicles[0].config.wind.mean_mps, len(self._vehicles))
        if self._imposed is not None:
            if wind is not None:
                self._imposed.wind_mps[row] = wind
            if force is not None:
                self._imposed.force_n[row] = force
        if lost is not None:
            self._lost_shares[row] = lost
        for mode_fleet in self._fleets.values():
            fleet = mode_fleet.fleet
            fleet.disturbances[:] = self._disturbances(fleet.model)
            fleet.around[:] = fleet.model.calm(fleet.n)  # where none is left

    def _disturbances(self, model: Model) -> list[Disturbance]:
        numbers = np.array([vehicle.index for vehicle in self._vehicles])
        found = disturbances_of(self._vehicles[0].config, numbers, self._seed, self._imposed)
        if self._lost_shares.any():
            return [*found, BrokenRotors(model, self._lost_shares)]
        return found

    def keep_sound(self, ended: BoolArray) -> list[tuple[int, str]]:
        """Return the rows whose states are no longer physical, and why.

        See :meth:`ModeFleet.keep_sound`.
        """
        found = [mode_fleet.keep_sound(ended) for mode_fleet in self.flown()]
        return [row for rows in found for row in rows]

    def stand(self, row: int) -> None:
        """Take the motion out of a vehicle that has ended."""
        next(mode_fleet for mode_fleet in self._fleets.values() if mode_fleet.active[row]).stand(
            row
        )

    def flown(self) -> Iterator[ModeFleet]:
        """Yield the fleets in which a vehicle flies."""
        return (mode_fleet for mode_fleet in self._fleets.values() if mode_fleet.flying)

    def in_mode(
        self, mode: str, wanted: BoolArray
    ) -> Iterator[tuple[Fleet, npt.NDArray[np.int64]]]:
        """Yield the fleets of a mode, and which of the wanted rows fly in each."""
        for mode_fleet in self.flown():
            rows = np.flatnonzero(mode_fleet.active & wanted)
            if mode_fleet.fleet.model.mode == mode and len(rows):
                yield mode_fleet.fleet, rows

    def of_row(self, row: int) -> Fleet:
        """Return the fleet in which a vehicle flies."""
        return next(
            mode_fleet.fleet for mode_fleet in self._fleets.values() if mode_fleet.active[row]
        )

    def body(self, row: int) -> FloatArray:
        """Return first 13 columns of one vehicle."""
        fleet = self.of_row(row)
        return np.concatenate([fleet.x[row, fleet.model.state[f.name]] for f in RIGID_BODY])

    def switch(self, row: int, mode: str) -> None:
        """Fly a vehicle in another mode.

        Fields that both states have are copied, the rest starts again.
        """
        mode_fleet = self.of(mode, row)
        if mode_fleet.active[row]:
            return
        for other in self._fleets.values():
            if other.active[row]:
                here = other.fleet.model.state
                there = mode_fleet.fleet.model.state
                mode_fleet.fleet.x[row] = mode_fleet.parked[row]
                for name in there:
                    if (
                        name in here
                        and here[name].stop - here[name].start
                        == there[name].stop - there[name].start
                    ):
                        mode_fleet.fleet.x[row, there[name]] = other.fleet.x[row, here[name]]
                other.fly(row, flown=False)
                other.fleet.x[row] = other.parked[row]
        mode_fleet.fly(row, flown=True)

    def advance(self, steps: int) -> None:
        """Make steps."""
        for mode_fleet in self._fleets.values():
            fleet = mode_fleet.fleet
            active = mode_fleet.active
            if not mode_fleet.flying:
                fleet.steps += steps
            elif mode_fleet.flying == fleet.n:
                fleet.advance(steps)
            else:
                # Gusts follow where a parked vehicle is, too.
                at_once = 1 if fleet.disturbances else steps
                for _ in range(0, steps, at_once):
                    fleet.advance(at_once)
                    fleet.x[~active] = mode_fleet.parked[~active]
        self.step += steps

    def bodies(self) -> FloatArray:
        """Return first 13 columns of every vehicle, (n, 13)."""
        found = np.empty((len(self._vehicles), BODY_COLUMNS))
        for mode_fleet in self.flown():
            if mode_fleet.flying == len(found):
                found[:] = mode_fleet.bodies
            else:
                found[mode_fleet.active] = mode_fleet.bodies[mode_fleet.active]
        return found

    def dynamics(self, rotors: int) -> FloatArray:
        """Return accelerations without contacts, and rotors, of AirSim's multirotors,.

        N, 8 + rotors.
        """
        found = np.empty((len(self._vehicles), DYNAMICS_COLUMNS + rotors))
        for mode_fleet in self.flown():
            found[mode_fleet.active] = dynamics(mode_fleet.fleet)[mode_fleet.active]
        return found

    def rotor_outputs(self) -> FloatArray:
        """Return thrust, torque and speed of each rotor of every vehicle, broken ones too,.

        N, rotors, 3.
        """
        first, *others = self.flown()
        found = first.fleet.model.rotor_outputs(first.fleet.x, first.fleet.around)
        for mode_fleet in others:
            fleet = mode_fleet.fleet
            found[mode_fleet.active] = fleet.model.rotor_outputs(fleet.x, fleet.around)[
                mode_fleet.active
            ]
        found[:, :, :2] *= 1.0 - self._lost_shares[:, :, None]
        return found

    def around(self) -> FloatArray:
        """Return the environment of every vehicle in the newest step, (n, 12)."""
        first, *others = self.flown()
        found = first.fleet.around.copy()
        for mode_fleet in others:
            found[mode_fleet.active] = mode_fleet.fleet.around[mode_fleet.active]
        return found

    def commands(self) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the commands in effect, (n, most fields), NaN after the last one of a vehicle,
        and their modes.
        """
        flown = list(self.flown())
        found = np.full((len(self._vehicles), max(m.fleet.u.shape[1] for m in flown)), np.nan)
        modes = np.empty(len(self._vehicles), dtype=object)
        for mode_fleet in flown:
            fleet = mode_fleet.fleet
            active = mode_fleet.active
            found[active, : fleet.u.shape[1]] = fleet.u[active]
            modes[active] = fleet.model.mode
        return found, tuple(modes.tolist())

    def truth(self) -> TrueState:
        """Return what sensors measure on every vehicle, without contacts."""
        first, *others = self.flown()
        truth = first.fleet.truth()
        for mode_fleet in others:
            other = mode_fleet.fleet.truth()
            for mine, its in zip(truth[1:], other[1:], strict=True):
                mine[mode_fleet.active] = its[mode_fleet.active]
        return truth
