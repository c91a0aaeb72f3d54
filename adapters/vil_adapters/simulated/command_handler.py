"""Commands to the vehicles of a source, checked, and the newest states of the vehicles."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from vil_adapters.simulated.config import SimulatedConfig
from vil_adapters.simulated.ipc import ArmCommand, ContactReport, FlyCommand, Order, Reset, StatusUpdate, VehicleBatch
from vil_adapters.simulated.model_factory import ModelFactory
from vil_adapters.simulated.simulation import vehicles_of
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.near_surface import MOST_SURFACES, NearSurface
from vil_bridge.core.types import FloatArray
from vil_bridge.core.vehicle_commands import CommandField, VehicleCommand, VehicleState

_LARGEST: Final = 1e9
"""Of a command's numbers: larger ones overflow where they are squared."""
_AHEAD_NS: Final = 60 * NS_PER_S
"""Longest time that a command may lie ahead, so that none waits for ever."""


class CommandHandler:
    """Implements :class:`~vil_bridge.core.vehicle_commands.VehicleSimulator` for one source; any thread.

    Args:
        send: passes an order on; False = too many wait.

    Raises:
        ValueError: a model or its parameters are wrong; names the entry.
    """

    def __init__(self, source: str, config: SimulatedConfig, send: Callable[[Order], bool]) -> None:
        factories = {name: _factory_of(name, config) for name in config.vehicles}
        vehicles = vehicles_of(config)
        by_config = {id(config.vehicles[name]): factory for name, factory in factories.items()}
        self.subjects: Final = tuple(vehicle.name for vehicle in vehicles)
        self._source = source
        self._send = send
        self._factories = [by_config[id(vehicle.config)] for vehicle in vehicles]
        self._models = [vehicle.config.model for vehicle in vehicles]
        self._number = {name: i for i, name in enumerate(self.subjects)}
        self._lock = threading.Lock()
        self._start_ns = 0
        self._steps = 0
        self._t_ns = 0
        self._states: FloatArray | None = None
        self._notes: list[StatusUpdate] = []

    def begin(self, start_ns: int) -> None:
        """Count steps from this bridge time on."""
        with self._lock:
            self._start_ns = start_ns
            self._states = None

    def update(self, batch: VehicleBatch, states: FloatArray) -> None:
        """Store the newest states."""
        with self._lock:
            self._steps, self._t_ns, self._states = batch.steps, batch.t_ns, states
            if batch.notes is not None:
                self._notes = batch.notes

    # --- asked from outside ---------------------------------------------------------------------

    def command(self, command: VehicleCommand) -> None:
        """Check a command and pass it on.

        Raises:
            ValueRefused: the vehicle has no such mode or values.
            ValueError: it does not fly yet, or too many commands wait.
        """
        number = self._number[command.subject]
        if self._states is None:
            raise ValueError(f"{command.subject} does not fly yet: its source is starting")
        order: Order
        match command.action:
            case "arm" | "disarm":
                order = ArmCommand(number, command.action == "arm")
            case "reset":
                order = Reset(number)
            case _:
                order = self._fly(number, command)
        if not self._send(order):
            raise ValueError("too many commands wait already")

    def state(self, subject: str) -> VehicleState:
        """Return the current state of a vehicle."""
        number = self._number[subject]
        with self._lock:
            steps, t_ns, states, notes = self._steps, self._start_ns + self._t_ns, self._states, self._notes
        modes, model = self._factories[number].modes, self._models[number]
        if states is None or not notes:
            still = (0.0, 0.0, 0.0)
            q = (0.0, 0.0, 0.0, 1.0)
            return VehicleState(
                subject, self._source, model, t_ns, 0, "", "autopilot", False, still, still, q, still, modes=modes
            )
        row, note = states[number].tolist(), notes[number]
        return VehicleState(
            subject=subject,
            source=self._source,
            model=model,
            t_ns=t_ns,
            steps=steps,
            mode=note.mode,
            pilot=note.pilot,
            armed=note.armed,
            p_world_m=(row[0], row[1], row[2]),
            v_world_mps=(row[3], row[4], row[5]),
            q_world_body=(row[6], row[7], row[8], row[9]),
            w_body_radps=(row[10], row[11], row[12]),
            commands=note.commands,
            superseded=note.superseded,
            collisions=note.collisions,
            modes=modes,
        )

    def on_contact(self, subject: str, t_pose_ns: int, surfaces: Sequence[NearSurface] | None, *, hit: bool) -> None:
        """Pass on what a renderer reports of a camera."""
        if surfaces is None and not hit:
            return
        near = (surfaces or ())[:MOST_SURFACES]
        self._send(
            ContactReport(
                self._number[subject],
                t_pose_ns - self._start_ns,
                tuple((float(s.p_world_m[0]), float(s.p_world_m[1]), float(s.p_world_m[2])) for s in near),
                tuple((float(s.normal_world[0]), float(s.normal_world[1]), float(s.normal_world[2])) for s in near),
                hit,
                surfaces is not None,
            )
        )

    # --- within ---------------------------------------------------------------------------------

    def _fly(self, number: int, command: VehicleCommand) -> FlyCommand:
        modes = self._factories[number].modes
        mode = command.mode or self._mode(number)
        if mode not in modes:
            raise ValueRefused(f"{command.subject} has no mode {mode!r}; known: {', '.join(modes)}")
        values = _values(command.values, modes[mode], mode)
        t_ns = None if command.t_ns is None else max(0, command.t_ns - self._start_ns)
        if t_ns is not None and t_ns > self._t_ns + _AHEAD_NS:
            raise ValueRefused(f"t_ns is more than {_AHEAD_NS // NS_PER_S} s of bridge time ahead")
        return FlyCommand(number, mode, values, t_ns)

    def _mode(self, number: int) -> str:
        with self._lock:
            return self._notes[number].mode if self._notes else ""


def _factory_of(name: str, config: SimulatedConfig) -> ModelFactory:
    try:
        return ModelFactory(config.vehicles[name])
    except ValueError as exc:
        raise ValueError(f"vehicles.{name}: {exc}") from None


def _values(
    given: Sequence[float] | Mapping[str, float | Sequence[float]], fields: Sequence[CommandField], mode: str
) -> tuple[float, ...]:
    """Return values in the mode's order.

    Raises:
        ValueRefused: a field is unknown, absent or of another size, or a value is not finite.
    """
    wanted = ", ".join(f"{f.name} ({f.size}, {f.unit})" for f in fields)
    if isinstance(given, Mapping):
        if set(given) != {f.name for f in fields}:
            raise ValueRefused(f"mode {mode!r} takes {wanted}; got {', '.join(given) or 'nothing'}")
        parts = [given[f.name] for f in fields]
        rows = [[p] if isinstance(p, int | float) else list(p) for p in parts]
        for f, row in zip(fields, rows, strict=True):
            if len(row) != f.size:
                raise ValueRefused(f"{f.name} of mode {mode!r} has {f.size} numbers ({f.unit}), not {len(row)}")
        values = tuple(float(v) for row in rows for v in row)
    else:
        values = tuple(float(v) for v in given)
        if len(values) != sum(f.size for f in fields):
            raise ValueRefused(f"mode {mode!r} takes {wanted}; got {len(values)} numbers")
    if not all(abs(v) <= _LARGEST for v in values):
        raise ValueRefused(f"a command must be finite and at most {_LARGEST:g}")
    return values
