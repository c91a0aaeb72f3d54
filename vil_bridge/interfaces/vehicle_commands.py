"""Commands and contacts of simulated vehicles, from pilots and renderers to the source that
simulates them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from vil_bridge.core.errors import SourceUnavailable, ValueRefused
from vil_bridge.core.geometry import Transform
from vil_bridge.core.near_surface import NearSurface
from vil_bridge.core.sensor_readings import SensorKind, SensorReading
from vil_bridge.interfaces.solid_world import MovingBody, SceneEdit, VehicleBodies
from vil_bridge.interfaces.vehicle_moves import (
    Loop,
    LoopGains,
    Move,
    MoveEnd,
    Point,
    Quaternion,
    RotorOutput,
    StickPositions,
    VehicleCollision,
    VehicleDisturbance,
    VehiclePlacement,
)

Action = Literal["fly", "arm", "disarm", "reset"]


@dataclass(frozen=True, slots=True)
class VehicleCommand:
    """Command of a pilot.

    Attributes:
        action: ``fly`` = the values; ``reset`` = back to its start, armed.
        mode: of the values, one of :attr:`VehicleState.modes`; empty = the one in use.
        values: in the mode's order, or by its fields' names.
        t_ns: bridge time from which it holds; None = now.
    """

    action: Action = "fly"
    mode: str = ""
    values: Sequence[float] | Mapping[str, float | Sequence[float]] = ()
    t_ns: int | None = None


@dataclass(frozen=True, slots=True)
class MoveCommand:
    """Start of a move; the running one of that vehicle ends with ``reached`` False.

    It takes simulated time: a paused world stops it.

    Attributes:
        ended: called once, from the loop's thread: when the move ended, was refused, was overtaken
            by another order, or the source ended.
    """

    move: Move
    ended: Callable[[MoveEnd], None]


@dataclass(frozen=True, slots=True)
class CancelCommand:
    """End of the running move, if any: in flight the vehicle holds its position 60 ms later."""


@dataclass(frozen=True, slots=True)
class GainsCommand:
    """Other gains for a loop of the flight controller, for good: a reset leaves them."""

    loop: Loop
    gains: LoopGains


@dataclass(frozen=True, slots=True)
class SticksCommand:
    """Sticks of the remote control, which manual moves follow.

    Attributes:
        sticks: None = the remote control is off.
        until_ns: bridge time up to which they hold; None = for good.
    """

    sticks: StickPositions | None
    until_ns: int | None = None


AnyCommand = (
    VehicleCommand
    | MoveCommand
    | CancelCommand
    | VehiclePlacement
    | VehicleDisturbance
    | GainsCommand
    | SticksCommand
)
"""Command to one vehicle."""


@dataclass(frozen=True, slots=True)
class CommandField:
    """A part of a mode's values: name with frame and unit, how many numbers, unit."""

    name: str
    size: int
    unit: str


@dataclass(frozen=True, slots=True)
class VehicleState:
    """A simulated vehicle now; world ENU (its room's frame), body FLU.

    Attributes:
        t_ns: bridge time of the state. steps: made so far.
        pilot: who flies it: ``autopilot``, ``command``, ``move``, or ``timeout`` after a pilot fell
            silent.
        modes: what commands may hold, by mode. sensors: their kinds, by name.
        a_world_mps2, alpha_body_radps2: accelerations, linear and angular, contacts included.
        rotors: in the model's order; empty for models without AirSim's rotors.
        armed: its motors obey; one that an autopilot's program flies is armed by the program.
        landed: True until it takes off and again once it stands with slow rotors, by AirSim's rule;
            of models with AirSim's rotors, and of vehicles that an autopilot's program flies once
            they stand for 0.2 s.
        start_p_world_m, start_q_world_body: its start.
        placements: how often it was put elsewhere, resets included.
        ended: why it flies no more until a reset, since its state was no longer physical; empty =
            it flies.
        commands: taken so far. superseded: overtaken by a newer one before their step. collisions:
            contacts begun.
        clipped: readings of inertial sensors, an autopilot's included, beyond their range.
    """

    subject: str
    source: str
    model: str
    t_ns: int
    steps: int
    mode: str
    pilot: str
    armed: bool
    p_world_m: tuple[float, float, float]
    v_world_mps: tuple[float, float, float]
    q_world_body: tuple[float, float, float, float]
    w_body_radps: tuple[float, float, float]
    commands: int = 0
    superseded: int = 0
    collisions: int = 0
    modes: Mapping[str, tuple[CommandField, ...]] = field(default_factory=dict)
    sensors: Mapping[str, SensorKind] = field(default_factory=dict)
    a_world_mps2: Point = (0.0, 0.0, 0.0)
    alpha_body_radps2: Point = (0.0, 0.0, 0.0)
    rotors: tuple[RotorOutput, ...] = ()
    landed: bool = False
    start_p_world_m: Point = (0.0, 0.0, 0.0)
    start_q_world_body: Quaternion = (0.0, 0.0, 0.0, 1.0)
    placements: int = 0
    clipped: int = 0
    ended: str = ""


class VehicleSimulator(Protocol):
    """The source that simulates some vehicles; any thread may call it."""

    def add(self, subject: str, described: Mapping[str, Any]) -> None:
        """Add a vehicle; see :meth:`VehicleCommandBus.add`."""
        ...

    def handle(self, subject: str, command: AnyCommand) -> None:
        """Check a command and carry it out; see :meth:`VehicleCommandBus.send`."""
        ...

    def collision(self, subject: str, *, clear: bool) -> VehicleCollision | None:
        """Return a vehicle's newest contact since the last call with ``clear``.

        None = there was none.
        """
        ...

    def state(self, subject: str) -> VehicleState:
        """Return a vehicle's state now."""
        ...

    def pose_at(self, subject: str, t_ns: int, slack_ns: int = 0) -> Transform:
        """Return where a vehicle was at an instant of the last seconds, in its room.

        A vehicle that was put elsewhere is in its old place until then, and for ``slack_ns`` after
        it. 512 poses are retained; before the oldest of them a vehicle is in its place, after the
        newest one in that.
        """
        ...

    def readings(self, subject: str) -> Mapping[str, SensorReading]:
        """Return the newest reading of each sensor of a vehicle by name.

        One without a reading yet is absent.
        """
        ...

    def has_reached(self, subject: str, t_ns: int) -> bool:
        """Return True once the state of a vehicle is the last one up to an instant."""
        ...

    def edit_scene(self, scene: str, edit: SceneEdit) -> None:
        """Learn of an object that a program changed in a scene.

        Vehicles that fly in it meet the object there.
        """
        ...

    def set_bodies(self, bodies: Sequence[MovingBody]) -> None:
        """Learn where the bodies are that others move, all of them."""
        ...

    def bodies(self) -> VehicleBodies | None:
        """Return its vehicles that collide, as they are now; None = none of them flies."""
        ...

    def on_contact(
        self, subject: str, t_pose_ns: int, surfaces: Sequence[NearSurface] | None, *, hit: bool
    ) -> None:
        """Take a renderer's report on a camera that a vehicle carries.

        Args:
            subject: one of its vehicles.
            t_pose_ns: instant of the pose that was drawn.
            surfaces: near the camera, room frame, nearest first; None = unknown to the renderer.
            hit: the camera touches something.
        """
        ...


class VehicleCommandBus:
    """The simulated vehicles of a bridge by name; any thread.

    Commands go through :meth:`send`. A vehicle's state and sensors are asked of the simulator that
    :meth:`of` returns.
    """

    def __init__(self) -> None:
        # Guards changes of both tables and what is read of several entries, but for their names.
        # Simulators are called without it.
        self._lock = threading.Lock()
        self._simulators: dict[str, tuple[str, VehicleSimulator]] = {}
        self._edits: dict[tuple[str, str], SceneEdit] = {}

    @contextmanager
    def serving(
        self, source: str, subjects: Iterable[str], simulator: VehicleSimulator
    ) -> Iterator[None]:
        """Hand what concerns these vehicles to ``simulator`` for a while.

        Raises:
            SourceUnavailable: another source simulates a vehicle of that name.
        """
        mine = dict.fromkeys(subjects, (source, simulator))
        with self._lock:
            for name in mine.keys() & self._simulators.keys():
                raise SourceUnavailable(
                    f"source {self._simulators[name][0]!r} simulates a vehicle {name!r} already"
                )
            self._simulators |= mine
        try:
            yield
        finally:
            with self._lock:
                for name in [
                    name for name, (owner, _) in self._simulators.items() if owner == source
                ]:
                    del self._simulators[name]

    def add(self, source: str, subject: str, described: Mapping[str, Any]) -> None:
        """Add a vehicle to those that a source simulates, for as long as the bridge runs.

        It stands at its start, and takes commands, as soon as its state has a mode.

        Args:
            source: its name.
            subject: name of the vehicle.
            described: an entry of the source's configuration.

        Raises:
            ValueRefused: the name is taken, the entry is wrong, or the source cannot add such a
                vehicle.
            ValueError: the source does not simulate now.
        """
        with self._lock:
            simulator = dict(self._simulators.values()).get(source)
            if subject in self._simulators:
                raise ValueRefused(f"a vehicle is named {subject!r} already: take another name")
        if simulator is None:
            raise ValueError(f"source {source!r} does not simulate now: wait until it runs")
        simulator.add(subject, described)
        with self._lock:
            if source in dict(self._simulators.values()):
                self._simulators[subject] = source, simulator

    def edit_scene(self, scene: str, edit: SceneEdit) -> None:
        """Let vehicles that fly in a scene meet an object where a program put it, those of later
        sources too.
        """
        with self._lock:
            self._edits[scene, edit.name] = edit
            if edit.gone and edit.asset:
                del self._edits[scene, edit.name]
            simulators = dict(self._simulators.values())
        for simulator in simulators.values():
            simulator.edit_scene(scene, edit)

    def set_bodies(self, source: str, bodies: Sequence[MovingBody]) -> None:
        """Set the bodies that the vehicles of a source meet besides their own kind, all of them."""
        simulator = self._by_source().get(source)
        if simulator is not None:
            simulator.set_bodies(bodies)

    def bodies(self) -> dict[str, VehicleBodies]:
        """Return the vehicles that collide and fly now, by source."""
        found = {source: simulator.bodies() for source, simulator in self._by_source().items()}
        return {source: bodies for source, bodies in found.items() if bodies is not None}

    def scene_edits(self) -> list[tuple[str, SceneEdit]]:
        """Return the scenes with objects that programs have changed, and how those are now."""
        with self._lock:
            return [(scene, edit) for (scene, _), edit in self._edits.items()]

    def names(self) -> list[str]:
        """Return the names of all vehicles, sorted."""
        return sorted(self._simulators)

    def of(self, subject: str) -> VehicleSimulator:
        """Return the simulator of a vehicle. Raises KeyError: no such vehicle."""
        return self._simulators[subject][1]

    def send(self, subject: str, command: AnyCommand) -> None:
        """Send a command to a vehicle.

        Raises:
            KeyError: no such vehicle.
            ValueRefused: the vehicle can never do that: its model lacks it, or a number is not
                finite or absurd.
            ValueError: it cannot do that now.
        """
        self.of(subject).handle(subject, command)

    def on_contact(
        self,
        source: str,
        subject: str,
        t_pose_ns: int,
        surfaces: Sequence[NearSurface] | None,
        *,
        hit: bool,
    ) -> None:
        """Pass on a renderer's report on a subject's camera.

        Dropped if the source does not simulate the subject.
        """
        found = self._simulators.get(subject)
        if found is not None and found[0] == source:
            found[1].on_contact(subject, t_pose_ns, surfaces, hit=hit)

    def _by_source(self) -> dict[str, VehicleSimulator]:
        with self._lock:
            return dict(self._simulators.values())
