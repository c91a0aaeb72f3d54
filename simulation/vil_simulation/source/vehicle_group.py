"""Vehicles of one model and the same parameters.

One fleet for each mode in which some of them fly.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.elementary import sin_cos
from vil_bridge.core.geometry import q_normalize
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.interfaces.solid_world import SceneEdit
from vil_simulation.source.airsim_state import (
    climb_goal_of,
    expect_command,
    flight_state,
    forget_climb,
    give_command,
    hold_here,
    holds,
    landed_after,
)
from vil_simulation.source.autopilot import Autopilot, autopilot_of, yaw_of
from vil_simulation.source.contacts import ContactModel
from vil_simulation.source.impacts import Impacts
from vil_simulation.source.ipc import (
    CollisionReport,
    ContactReport,
    FlyCommand,
    MoveOrder,
    MoveReport,
    PlaceOrder,
    StatusUpdate,
    VehicleOrder,
)
from vil_simulation.source.mode_fleets import ModeFleets
from vil_simulation.source.model_factory import PERSISTENT_MODES, RC_MODE, ModelFactory
from vil_simulation.source.move_runner import NEVER, MoveRunner
from vil_simulation.source.pilot_state import Pilot, PilotState
from vil_simulation.source.program_pilot import program_pilot_of
from vil_simulation.source.scene_contacts import SceneContacts
from vil_simulation.source.vehicle_config import Vehicle
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.airsim.moves import FlightCommand, FlightState, flight_of
from vil_simulation.vehicles.contact import velocity_changes, with_contacts
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.imu import ImuSensor


class VehicleGroup:
    """Some vehicles that share everything but their places and pilots.

    Args:
        vehicles: the vehicles. dt_s: a step. seed: of all noise. control_every: steps between two
            of the autopilot's.
        scene: surfaces around them, also an attribute; None = renderers report them. step: at which
            they begin.

    Attributes:
        members: the vehicles' numbers in the source, (n,). config: what they share.
        revision: grows whenever :meth:`notes` changes. moves: of the vehicles. placed: members that
            were put elsewhere; the reader clears it. fleets, contacts: theirs. struck: change of
            velocities and body rates by contacts in the newest step, (n, 6). imus: that its
            vehicles have. ended: which stand where they were until a reset, since their states were
            no longer physical, (n,).

    Raises:
        ValueError: the model does not accept its parameters, or has no such mode.
    """

    def __init__(
        self,
        vehicles: Sequence[Vehicle],
        dt_s: Fraction,
        seed: int,
        control_every: int,
        scene: SceneContacts | None = None,
        step: int = 0,
    ) -> None:
        self.members: Final = np.array([vehicle.index for vehicle in vehicles])
        self.revision = 0
        self._vehicles = tuple(vehicles)
        self._row = {vehicle.index: row for row, vehicle in enumerate(vehicles)}
        self._dt_s = dt_s
        self._step_s: Final = float(dt_s)
        self.config: Final = vehicles[0].config
        self.scene: Final = scene
        self.factory: Final = ModelFactory(self.config)
        self.fleets: Final = ModeFleets(vehicles, self.factory, dt_s, seed, step)
        self._autopilot: Autopilot | None = autopilot_of(
            self.factory, vehicles, float(dt_s) * control_every
        )
        self.program: Final = program_pilot_of(self.factory, self.fleets, vehicles)
        self.contacts: Final = ContactModel(
            self.config.contact, self.factory.model, len(vehicles), scene
        )
        self._pilots = [PilotState(self._home_mode) for _ in vehicles]
        self._armed = np.zeros(len(vehicles), dtype=np.bool_)
        self.struck: Final = np.zeros((len(vehicles), 6))
        self.imus: Final[list[ImuSensor]] = []
        self._impacts: Final = Impacts(len(vehicles), self._step_s)
        self._landed = np.zeros(len(vehicles), dtype=np.bool_)
        self.ended: Final = np.zeros(len(vehicles), dtype=np.bool_)
        self._ends: dict[int, str] = {}
        self.moves: Final = MoveRunner(dt_s, self._flight_state, self._fly_on)
        self.placed: list[int] = []
        self._since_reset = np.zeros(len(vehicles), dtype=np.int64)
        self._deadline = np.full(len(vehicles), NEVER, dtype=np.int64)
        self._timeouts = [round(c.config.command_timeout_ms / 1e3 / dt_s) for c in vehicles]
        for row, vehicle in enumerate(vehicles):
            self.reset(row, armed=vehicle.config.armed)

    # --- orders ---------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Steps made so far."""
        return self.fleets.step

    def row_of(self, vehicle: int) -> int:
        """Return row of one of the members."""
        return self._row[vehicle]

    def fly(self, row: int, order: FlyCommand) -> None:
        """Apply a pilot's values, which were checked before; a disarmed vehicle ignores them."""
        if not self._armed[row]:
            return
        self._take_over(row, "command")
        if order.mode in PERSISTENT_MODES:
            self._deadline[row] = NEVER
        else:
            self._deadline[row] = self.step + self._timeouts[row]
        if self.program is not None:
            self.program.steer(row, order.values)
            return
        if self._autopilot is not None and order.mode in self.factory.autopilot_modes:
            self._autopilot.steer(row, order.mode, order.values, self.fleets.body(row))
            self.fleets.switch(row, self._autopilot.mode)
        else:
            self._release(row)
            self.fleets.switch(row, order.mode)
            self._command(row, np.array(order.values))
        self._pilots[row].mode = order.mode
        expect_command(self.fleets.of_row(row), row)

    def move(self, row: int, order: MoveOrder) -> None:
        """Start a move, which was checked before; disarmed motors do not obey it."""
        airsim = self.factory.airsim
        assert airsim is not None
        self._take_over(row, "move")
        self._deadline[row] = NEVER
        self._release(row)
        self._hold_soon(row, airsim)
        state = self._flight_state(row)
        hover = airsim.airframe.hover_control(airsim.gravity_mps2)
        home_m = self._vehicles[row].p_m
        compat = airsim.compat is not None
        flight = flight_of(
            order.move, self.fleets.flight_of(row), state, home_m, hover, compat=compat
        )
        self.moves.begin(row, order.number, flight, self.step)

    def place(self, row: int, order: PlaceOrder) -> None:
        """Put a vehicle into a pose and twist; one that held its position holds the new one."""
        self.moves.cancel(row)
        fleet = self.fleets.of_row(row)
        state = fleet.model.state
        p_m = np.array(order.p_m)
        if "speed_mps" in state and self.config.contact.floor_m is not None:
            p_m[2] = self.config.contact.floor_m  # cars stand
        if order.sweep:
            start_m = fleet.x[row, state["p_world_m"]]
            q_xyzw = q_normalize(np.array(order.q_xyzw))
            p_m = self.contacts.sweep(row, start_m, p_m, q_xyzw, self.step, self._step_s)
        fields: dict[str, object] = dict.fromkeys(
            ("a_world_mps2", "alpha_body_radps2", "grounded", "steering_rad"), 0.0
        )
        fields |= {"p_world_m": p_m, "q_world_body": order.q_xyzw}
        fields |= {"v_world_mps": order.v_mps, "w_body_radps": order.w_radps}
        fleet.place(row, **{name: value for name, value in fields.items() if name in state})
        body = self.fleets.body(row)
        if "speed_mps" in state:
            sine, cosine = sin_cos(yaw_of(body[6:10]))
            fleet.place(row, speed_mps=body[3] * cosine + body[4] * sine)
        self._put_elsewhere(row)
        hold_here(fleet, row)
        if self._autopilot is not None:
            self._autopilot.stay(row, body)

    def arm(self, row: int, armed: bool) -> None:
        """Let the motors obey, or stop them.

        Once armed, a vehicle without a command flies as configured.
        """
        if armed == self._armed[row]:
            return
        self._armed[row] = armed
        self.revision += 1
        config = self._vehicles[row].config.autopilot
        if not armed:
            self._stop(row)
        elif self.moves.runs(row):
            return
        elif self._autopilot is not None and (
            self._pilots[row].kind == "autopilot" or config.kind == "none"
        ):
            self._since_reset[row] = self.step
            self._autopilot.begin(row)
        elif self._autopilot is not None:
            self._autopilot.hold(row, self.fleets.body(row))

    def drive(self, row: int, motors: Sequence[float], state: str, *, armed: bool) -> None:
        """Let the motors follow a program's outputs, 0 to 1; ``state``: of its link, in words.

        ``armed``: by itself.
        """
        assert self.program is not None
        self.program.drive(row, motors, armed=bool(self._armed[row]))
        if (self.program.states[row], self.program.armed[row]) != (state, armed):
            self.program.states[row] = state
            self.program.armed[row] = armed
            self.revision += 1

    def reset(self, row: int, *, armed: bool = True) -> None:
        """Put a vehicle back to its start, under the autopilot; one that has ended flies again."""
        pilot = self._pilots[row]
        self.ended[row] = False
        self._ends.pop(row, None)
        self.revision += 1
        self.moves.cancel(row)
        self._release(row)
        self.fleets.switch(row, self._home_mode)
        mode_fleet = self.fleets.of(self._home_mode, row)
        mode_fleet.fleet.x[row] = mode_fleet.parked[row]
        pilot.mode = self._home_mode
        pilot.kind = "autopilot"
        self._armed[row] = armed
        self._since_reset[row] = self.step
        self._deadline[row] = NEVER
        self._landed[row] = self.factory.airsim is not None or self.program is not None
        self._put_elsewhere(row)
        self._command(row, mode_fleet.fleet.model.neutral(1)[0])
        if not armed or self.program is not None:
            self._stop(row)
        elif self._autopilot is not None:
            self._autopilot.begin(row)

    def on_contact(self, row: int, report: ContactReport, step_of_picture: int) -> None:
        """Apply what a renderer reports of a vehicle's camera."""
        if self.contacts.on_contact(row, report, step_of_picture, self._dt_s):
            self.contacts.collisions[row] += 1
            self.reset(row, armed=False)

    # --- time -----------------------------------------------------------------------------------

    def clear_steps(self) -> int | None:
        """Return how many steps may be made at once, as no vehicle meets anything before the last.

        None = any.
        """
        return self.contacts.clear_steps(self.fleets.flown(), self.step, self._step_s)

    def control(self) -> None:
        """Time out silent pilots, and fly the autopilot's vehicles; called every few steps."""
        for row in np.flatnonzero(self._deadline < self.step).tolist():
            self._time_out(row)
        if self.factory.airsim is not None:
            self._check_landed(self.factory.airsim)
        elif self.program is not None:
            self._note_landed(
                self.program.landed_after(
                    self._landed, self.fleets.bodies(), self.step * self._step_s
                )
            )
        if self._autopilot is None:
            return
        for fleet, rows in self.fleets.in_mode(
            self._autopilot.mode, self._autopilot.steers & self._armed
        ):
            t_s: FloatArray = (self.step - self._since_reset[rows]).astype(
                np.float64
            ) * self._step_s
            u = self._autopilot.commands(rows, fleet.x[rows], t_s)
            fleet.command(u, rows.tolist())

    def advance(self, steps: int) -> None:
        """Make steps."""
        self.fleets.advance(steps)
        self.struck.fill(0.0)
        self.end_lost()
        if self.contacts.watches:
            for mode_fleet in self.fleets.flown():
                x = mode_fleet.fleet.x
                state = mode_fleet.fleet.model.state
                active = mode_fleet.active & ~self.ended
                step = self.step
                self.revision += self.contacts.respond(
                    x, state, active, step, self._step_s, self.struck
                )
            self.send_back()

    def feel(self) -> None:
        """Let inertial sensors feel the contacts of the newest step, those with other vehicles
        included.
        """
        self._impacts.add(self.struck, self.step)

    def end_lost(self) -> None:
        """End the vehicles whose states are no longer physical, whatever the cause.

        The others fly on.
        """
        for row, problem in self.fleets.keep_sound(self.ended):
            self._end(row, problem)

    def refuse(self, row: int, order: VehicleOrder) -> None:
        """Answer an order to a vehicle that has ended, and do nothing."""
        if isinstance(order, MoveOrder):
            self.moves.ends.append(MoveReport(order.number, reached=False, problem=self._ends[row]))
        elif isinstance(order, PlaceOrder):
            self.placed.append(int(self.members[row]))  # who waits for it sees the state

    def edit_scene(self, edit: SceneEdit) -> None:
        """Change an object, and push vehicles out of it.

        Raises RendererError: there is no such object or asset.
        """
        self.contacts.edit_scene(edit)
        pushed = np.zeros_like(self.struck)
        for mode_fleet in self.fleets.flown():
            x = mode_fleet.fleet.x
            state = mode_fleet.fleet.model.state
            before = x.copy()
            flies = mode_fleet.active & ~self.ended
            self.revision += self.contacts.push_out(x, state, flies, self.step, self._step_s)
            velocity_changes(before, x, state, flies, pushed)
        self._impacts.add(pushed, self.step)
        self.send_back()

    def send_back(self) -> None:
        """Put vehicles that a contact sends back to their start there."""
        for row in self.contacts.to_reset:
            self.reset(row, armed=False)
        self.contacts.to_reset.clear()

    # --- what others see ------------------------------------------------------------------------

    def bodies(self) -> FloatArray:
        """Return first 13 columns of every vehicle, (n, 13)."""
        return self.fleets.bodies()

    def notes(self) -> list[StatusUpdate]:
        """Return what changes seldom, of every vehicle."""
        return [self._note(row, pilot) for row, pilot in enumerate(self._pilots)]

    def _note(self, row: int, pilot: PilotState) -> StatusUpdate:
        mode = pilot.mode
        state = ""
        if self.program is not None:
            mode = RC_MODE
            state = self.program.states[row]
        return StatusUpdate(
            mode,
            pilot.kind,
            self._is_armed(row),
            pilot.commands,
            pilot.superseded,
            int(self.contacts.collisions[row]),
            bool(self._landed[row]),
            state,
            sum(int(imu.clipped[row]) for imu in self.imus),
            self._ends.get(row, ""),
        )

    def dynamics(self) -> FloatArray | None:
        """Return accelerations, contacts included, and rotors of every vehicle, as a batch has
        them; None = unknown.
        """
        airsim = self.factory.airsim
        if airsim is None:
            return None
        found = self.fleets.dynamics(len(airsim.airframe.rotors))
        found[:, :6] += self.struck / self._step_s
        return found

    def pop_collisions(self) -> list[CollisionReport]:
        """Return the newest contacts once."""
        found = [
            CollisionReport(int(self.members[row]), hit)
            for row, hit in self.contacts.newest.items()
        ]
        self.contacts.newest.clear()
        return found

    def truth(self) -> TrueState:
        """Return what sensors measure on every vehicle."""
        return with_contacts(self.fleets.truth(), self.struck, self._step_s)

    def felt(self, truth: TrueState) -> TrueState:
        """Return what inertial sensors feel, from :meth:`truth`: impacts take their time."""
        return self._impacts.felt(truth, self.step)

    # --- within ---------------------------------------------------------------------------------

    def _is_armed(self, row: int) -> bool:
        """Return True where motors obey; a program's vehicle is armed by the program."""
        return bool(self._armed[row]) and (self.program is None or self.program.armed[row])

    def _end(self, row: int, problem: str) -> None:
        """Let a vehicle stand where its state was physical, disarmed, until a reset."""
        name = self._vehicles[row].name
        self.ended[row] = True
        self._ends[row] = (
            f"{name} has ended, since its state is no longer physical ({problem}); reset it"
        )
        self.moves.cancel(row, self._ends[row])
        self._armed[row] = False
        self._deadline[row] = NEVER
        self._stop(row)
        self.fleets.stand(row)
        self._put_elsewhere(row)
        self.revision += 1

    @property
    def _home_mode(self) -> str:
        if self.program is not None:
            return self.program.mode
        return self.factory.model.mode if self._autopilot is None else self._autopilot.mode

    def _put_elsewhere(self, row: int) -> None:
        """Forget what happened to a vehicle before it was put elsewhere."""
        self.contacts.reset(row, self.step)
        self.struck[row] = 0.0
        self._impacts.forget(row)
        t_ns = round(self.step * self._dt_s * NS_PER_S)
        body = self.fleets.body(row)
        for imu in self.imus:
            imu.restart(row, t_ns, body[3:6], body[6:10], body[10:13])
        self.placed.append(int(self.members[row]))

    def _take_over(self, row: int, kind: Pilot) -> None:
        """Count a new command; the running move ends."""
        self.moves.cancel(row)
        pilot = self._pilots[row]
        pilot.superseded += pilot.last_step == self.step
        if kind != "move":
            pilot.climb_goal = ""
        pilot.kind, pilot.last_step, pilot.commands = kind, self.step, pilot.commands + 1
        self.revision += 1

    def _flight_state(self, row: int) -> FlightState:
        return flight_state(self.fleets.of_row(row), row)

    def _fly_on(self, row: int, command: FlightCommand) -> None:
        """Give a vehicle the next command of its move."""
        airsim = self.factory.airsim
        pilot = self._pilots[row]
        if airsim is None or not self._armed[row]:
            return
        goes_on = climb_goal_of(command) == (
            "position" if holds(self.fleets.of_row(row), row) else pilot.climb_goal
        )
        self.fleets.switch(row, command.mode)
        fleet = self.fleets.of_row(row)
        if airsim.compat is not None and not goes_on:
            forget_climb(fleet, row)
        give_command(fleet, row, command)
        expect_command(fleet, row)
        self._hold_soon(row, airsim)
        pilot.climb_goal = climb_goal_of(command)
        self.revision += pilot.mode != command.mode
        pilot.mode = command.mode

    def _hold_soon(self, row: int, airsim: AirsimMultirotor) -> None:
        """Let a vehicle in flight hold its position unless a command comes in time."""
        if self._armed[row] and not self._landed[row]:
            expect_command(self.fleets.of_row(row), row, airsim.flight.timeout_s)

    def _check_landed(self, airsim: AirsimMultirotor) -> None:
        """Update who stands on the ground.

        A vehicle that took off after its move ended holds its position.
        """
        landed = self._landed.copy()
        for mode_fleet in self.fleets.flown():
            after = landed_after(landed, mode_fleet.fleet.x, mode_fleet.fleet.model.state)
            landed[mode_fleet.active] = after[mode_fleet.active]
        for row in self._note_landed(landed):
            if self._pilots[row].kind == "move":
                self._hold_soon(row, airsim)

    def _note_landed(self, landed: BoolArray) -> list[int]:
        """Take who stands on the ground, (n,); return the rows that changed."""
        changed: list[int] = np.flatnonzero(landed != self._landed).tolist()
        self._landed = landed
        self.revision += len(changed)
        return changed

    def _command(self, row: int, u: FloatArray) -> None:
        if self._armed[row]:
            self.fleets.of_row(row).command(u, row)

    def _stop(self, row: int) -> None:
        """Command nothing at all: the motors run down."""
        self._release(row)
        self.fleets.switch(row, self._home_mode)
        self._pilots[row].mode = self._home_mode
        mode_fleet = self.fleets.of(self._home_mode, row)
        mode_fleet.fleet.command(np.zeros(mode_fleet.fleet.u.shape[1]), row)
        expect_command(mode_fleet.fleet, row)

    def _release(self, row: int) -> None:
        if self._autopilot is not None:
            self._autopilot.release(row)

    def _time_out(self, row: int) -> None:
        """Apply the configured response to a silent pilot."""
        pilot = self._pilots[row]
        response = self._vehicles[row].config.on_timeout
        self._deadline[row] = NEVER
        if self.program is not None:
            self.program.rc_us[row] = None
            return
        if response == "hold":
            return
        pilot.kind = "timeout"
        self.revision += 1
        if response == "hover" and self._autopilot is not None:
            self._autopilot.hold(row, self.fleets.body(row))
            self.fleets.switch(row, self._autopilot.mode)
        else:
            self._release(row)
            self._command(row, self.fleets.of_row(row).model.neutral(1)[0])
