"""Commands to the vehicles of a source, checked, and the newest states of the vehicles."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.geometry import Transform
from vil_bridge.core.near_surface import MOST_SURFACES, NearSurface
from vil_bridge.core.sensor_readings import SensorReading
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import MovingBody, SceneEdit, VehicleBodies
from vil_bridge.interfaces.vehicle_commands import (
    AnyCommand,
    CancelCommand,
    GainsCommand,
    MoveCommand,
    SticksCommand,
    VehicleCommand,
    VehicleState,
)
from vil_bridge.interfaces.vehicle_moves import (
    RotorOutput,
    VehicleCollision,
    VehicleDisturbance,
    VehiclePlacement,
)
from vil_simulation.source.command_values import command_values
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import (
    ArmCommand,
    BodiesUpdate,
    CancelOrder,
    ContactReport,
    DisturbOrder,
    EditOrder,
    FlyCommand,
    GainsOrder,
    MoveOrder,
    Order,
    PlaceOrder,
    Reset,
    StatusUpdate,
    SticksOrder,
    VehicleBatch,
)
from vil_simulation.source.move_limits import (
    check_disturbance,
    check_gains,
    check_move,
    check_placement,
    check_sticks,
)
from vil_simulation.source.past_poses import PastPoses
from vil_simulation.source.pending_moves import PendingMoves
from vil_simulation.source.vehicle_sensors import share_of
from vil_simulation.source.vehicle_table import VehicleTable
from vil_simulation.vehicles.airsim.model import AirsimMultirotor

logger = logging.getLogger(__name__)

_AHEAD_NS: Final = 60 * NS_PER_S
"""Longest time that a command may lie ahead, so that none waits for ever."""


class CommandHandler:
    """Implements :class:`~vil_bridge.interfaces.vehicle_commands.VehicleSimulator` for one source.

    Any thread.

    Args:
        send: passes an order on; False = too many wait.

    Raises:
        ValueError: a model or its parameters are wrong; names the entry.
    """

    def __init__(self, source: str, config: SimulatedConfig, send: Callable[[Order], bool]) -> None:
        self._table: Final = VehicleTable(source, config)
        self._scene = None if config.contact is None else config.contact.scene
        self._send = send
        self._handlers: Final[Mapping[type, Callable[[str, Any], None]]] = {
            VehicleCommand: self._command,
            MoveCommand: self._move,
            CancelCommand: self._cancel,
            VehiclePlacement: self._place,
            VehicleDisturbance: self._disturb,
            GainsCommand: self._set_gains,
            SticksCommand: self._set_sticks,
        }
        # Guards what batches bring, from here to the past poses. Orders are sent without it.
        self._lock = threading.Lock()
        self._start_ns = 0
        self._steps = 0
        self._t_ns = 0
        self._states: FloatArray | None = None
        self._batch = self._before = VehicleBatch(0, 0, b"")
        self._notes: list[StatusUpdate] = []
        self._collisions: dict[int, VehicleCollision] = {}
        self._placements: Counter[int] = Counter()
        self._past: Final = PastPoses()
        self._moves: Final = PendingMoves()
        self.newest_readings: Final = self._table.readings
        # Guards additions to the table, and the number of those that were sent.
        self._adding: Final = threading.Lock()
        self._sent = 0
        self._step_hz: Final = config.step_hz
        self._poses: Final = share_of(config.rate_hz, config.step_hz)

    def begin(self, start_ns: int) -> None:
        """Count steps from this bridge time on; in the loop's thread."""
        self._moves.begin()
        self.newest_readings.begin(start_ns)
        self._sent = 0
        with self._lock:
            self._start_ns = start_ns
            self._states = None
            self._collisions.clear()
            self._past.clear()

    def end(self) -> None:
        """End all moves: the vehicles fly no more; in the loop's thread."""
        self._moves.end()

    def update(self, batch: VehicleBatch, states: FloatArray) -> None:
        """Store the newest states and readings, and report ends of moves; in the loop's thread."""
        with self._lock:
            # So that a paused world shows one state, whatever sensors follow.
            if batch.pose or self._states is None:
                if batch.t_ns > self._t_ns or batch.placed:
                    self._before = batch if batch.placed else self._batch
                self._steps = batch.steps
                self._t_ns = batch.t_ns
                self._states = states
                self._batch = batch
                self._past.add(batch.t_ns, states, batch.placed)
            if batch.notes is not None:
                self._notes = batch.notes
            self._placements.update(batch.placed)
            for report in batch.collisions:
                t_ns = self._start_ns + report.collision.t_ns
                self._collisions[report.vehicle] = msgspec.structs.replace(
                    report.collision, t_ns=t_ns
                )
        self.newest_readings.update(batch.sensors)
        self._moves.report(batch.ends)

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of the vehicles by number, added ones last."""
        return self._table.subjects

    def send_added(self) -> None:
        """Pass on the added vehicles that the steps lack.

        What does not fit into the queue waits for the next call.
        """
        with self._adding:
            self._send_added()

    # --- asked from outside ---------------------------------------------------------------------

    def add(self, subject: str, described: Mapping[str, Any]) -> None:
        """Add a vehicle and pass it on.

        Raises:
            ValueRefused: the entry is wrong, or vehicles cannot be added as it describes.
            ValueError: the source is starting.
        """
        with self._adding:
            if self._states is None:
                raise ValueError(f"{subject} cannot be added yet: its source is starting")
            self._table.add(subject, described)
            self._send_added()

    def handle(self, subject: str, command: AnyCommand) -> None:
        """Check a command and pass it on as an order.

        Raises:
            KeyError: no such vehicle.
            ValueRefused: the vehicle can never do that: its model lacks it, or a number is not
                finite or absurd.
            ValueError: it does not fly yet or no more, or too many commands wait.
        """
        self._handlers[type(command)](subject, command)

    def collision(self, subject: str, *, clear: bool) -> VehicleCollision | None:
        """Return a vehicle's newest contact since the last call with ``clear``."""
        with self._lock:
            found = self._collisions.get(self._table.number(subject))
            if clear:
                self._collisions.pop(self._table.number(subject), None)
        return found

    def state(self, subject: str) -> VehicleState:
        """Return the current state of a vehicle."""
        number = self._table.number(subject)
        with self._lock:
            steps = self._steps
            t_ns = self._start_ns + self._t_ns
            states = self._states
            notes = self._notes
            batch = self._batch
            before = self._before
            placements = self._placements[number]
        factory = self._table.factories[number]
        if states is None or number >= min(len(states), len(notes)):
            return self._table.start_of(number, t_ns)
        row = states[number].tolist()
        note = notes[number]
        rotors: tuple[RotorOutput, ...] = ()
        if factory.airsim is None:
            accelerations = batch.change_per_second(before, number)
        else:
            accelerations, air, controls = batch.dynamics_of(
                number, len(factory.airsim.airframe.rotors)
            )
            rotors = tuple(
                RotorOutput(*rotor)
                for rotor in factory.airsim.rotor_states(controls, *air).tolist()
            )
        ax, ay, az, bx, by, bz = accelerations.tolist()
        return VehicleState(
            **self._table.unchanging(number),
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
            landed=note.landed,
            clipped=note.clipped,
            a_world_mps2=(ax, ay, az),
            alpha_body_radps2=(bx, by, bz),
            rotors=rotors,
            placements=placements,
            ended=note.ended,
        )

    def pose_at(self, subject: str, t_ns: int, slack_ns: int = 0) -> Transform:
        """Return where a vehicle was at an instant of the last seconds."""
        number = self._table.number(subject)
        with self._lock:
            found = self._past.at(number, t_ns - self._start_ns, slack_ns)
        if found is not None:
            return found
        state = self.state(subject)
        return Transform.of(state.p_world_m, state.q_world_body)

    # All vehicles of a source step together.
    def has_reached(self, subject: str, t_ns: int) -> bool:  # noqa: ARG002
        """Return True once the newest state is the last one up to an instant.

        States come with the poses.
        """
        times, steps = self._poses
        poses = (t_ns - self._start_ns) * self._step_hz // NS_PER_S * times // steps
        return self._steps >= -(-poses * steps // times)

    def readings(self, subject: str) -> Mapping[str, SensorReading]:
        """Return the newest reading of each sensor of a vehicle by name.

        A sensor without one yet is absent.
        """
        return self.newest_readings.of(subject)

    def set_bodies(self, bodies: Sequence[MovingBody]) -> None:
        """Pass on where the bodies are that others move.

        One that is lost is followed by the next.
        """
        start_ns = self._start_ns
        self._send(
            BodiesUpdate(
                tuple(msgspec.structs.replace(body, t_ns=body.t_ns - start_ns) for body in bodies)
            )
        )

    def bodies(self) -> VehicleBodies | None:
        """Return the vehicles that collide, as they are now; None = none of them flies."""
        with self._lock:
            states = self._states
            if states is None:
                return None
            return self._table.colliding(len(states)).at(self._start_ns + self._t_ns, states)

    def edit_scene(self, scene: str, edit: SceneEdit) -> None:
        """Pass on how an object of a scene is now, if the vehicles fly in it."""
        if scene == self._scene and not self._send(EditOrder(edit)):
            logger.warning(
                "vehicles do not meet an edited object name=%r: too many orders wait", edit.name
            )

    def on_contact(
        self, subject: str, t_pose_ns: int, surfaces: Sequence[NearSurface] | None, *, hit: bool
    ) -> None:
        """Pass on what a renderer reports of a camera."""
        if surfaces is None and not hit:
            return
        near = (surfaces or ())[:MOST_SURFACES]
        self._send(
            ContactReport(
                self._table.number(subject),
                t_pose_ns - self._start_ns,
                tuple(
                    (float(s.p_world_m[0]), float(s.p_world_m[1]), float(s.p_world_m[2]))
                    for s in near
                ),
                tuple(
                    (float(s.normal_world[0]), float(s.normal_world[1]), float(s.normal_world[2]))
                    for s in near
                ),
                hit,
                surfaces is not None,
            )
        )

    # --- the commands ---------------------------------------------------------------------------

    def _command(self, subject: str, command: VehicleCommand) -> None:
        match command.action:
            case "reset":
                self._pass_on(Reset(self._started(subject)))
            case "arm" | "disarm":
                self._pass_on(ArmCommand(self._flying(subject), command.action == "arm"))
            case _:
                self._fly(subject, command)

    def _fly(self, subject: str, command: VehicleCommand) -> None:
        vehicle = self._flying(subject)
        modes = self._table.factories[vehicle].modes
        mode = command.mode or self._mode(vehicle)
        if mode not in modes:
            raise ValueRefused(f"{subject} has no mode {mode!r}; known: {', '.join(modes)}")
        values = command_values(command.values, modes[mode], mode)
        t_ns = None if command.t_ns is None else max(0, command.t_ns - self._start_ns)
        if t_ns is not None and t_ns > self._t_ns + _AHEAD_NS:
            raise ValueRefused(f"t_ns is more than {_AHEAD_NS // NS_PER_S} s of bridge time ahead")
        self._pass_on(FlyCommand(vehicle, mode, values, t_ns))

    def _move(self, subject: str, command: MoveCommand) -> None:
        vehicle = self._flying(subject)
        airsim = self._airsim_of(vehicle, "cannot fly moves")
        check_move(command.move, len(airsim.airframe.rotors))
        number = self._moves.add(command.ended)
        try:
            self._pass_on(MoveOrder(vehicle, number, command.move))
        except ValueError:
            self._moves.discard(number)
            raise

    def _cancel(self, subject: str, _command: CancelCommand) -> None:
        self._pass_on(CancelOrder(self._flying(subject)))

    def _place(self, subject: str, placement: VehiclePlacement) -> None:
        vehicle = self._flying(subject)
        check_placement(placement)
        pose = placement.p_world_m, placement.q_world_body
        twist = placement.v_world_mps, placement.w_body_radps
        self._pass_on(PlaceOrder(vehicle, *pose, *twist, placement.sweep))

    def _disturb(self, subject: str, disturbance: VehicleDisturbance) -> None:
        vehicle = self._started(subject)
        check_disturbance(disturbance, len(self._table.factories[vehicle].model.rotor_places()[0]))
        self._pass_on(DisturbOrder(vehicle, disturbance))

    def _set_gains(self, subject: str, command: GainsCommand) -> None:
        vehicle = self._started(subject)
        self._airsim_of(vehicle, "has no gains")
        check_gains(command.gains)
        self._pass_on(GainsOrder(vehicle, command.loop, command.gains))

    def _set_sticks(self, subject: str, command: SticksCommand) -> None:
        vehicle = self._flying(subject)
        self._airsim_of(vehicle, "has no remote control")
        check_sticks(command.sticks)
        until_ns = command.until_ns
        if until_ns is not None:
            until_ns -= self._start_ns
        self._pass_on(SticksOrder(vehicle, command.sticks, until_ns))

    # --- within ---------------------------------------------------------------------------------

    def _send_added(self) -> None:
        for order in self._table.added[self._sent :]:
            if not self._send(order):
                return
            self._sent += 1

    def _started(self, subject: str) -> int:
        """Return the number of a vehicle that has started. Raises ValueError: not yet."""
        number = self._table.number(subject)
        states = self._states
        if states is None or number >= len(states):
            raise ValueError(f"{subject} does not fly yet: its source is starting")
        return number

    def _flying(self, subject: str) -> int:
        """Return the number of a vehicle that flies. Raises ValueError: not yet, or no more."""
        number = self._started(subject)
        notes = self._notes
        if number < len(notes) and notes[number].ended:
            raise ValueError(notes[number].ended)
        return number

    def _airsim_of(self, number: int, refusal: str) -> AirsimMultirotor:
        """Return the model of a vehicle with AirSim's flight controller.

        Raises ValueRefused: it has another one.
        """
        airsim = self._table.factories[number].airsim
        if airsim is None:
            name = self.subjects[number]
            model = self._table.model_of(number)
            raise ValueRefused(
                f"{name} {refusal}: model {model!r} lacks AirSim's modes. Use model airsim"
            )
        return airsim

    def _pass_on(self, order: Order) -> None:
        if not self._send(order):
            raise ValueError("too many commands wait already")

    def _mode(self, number: int) -> str:
        with self._lock:
            return self._notes[number].mode if number < len(self._notes) else ""
