"""Messages between the loop and the steps: orders one way, batches of states the other.

Encodable for a pipe.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np

from vil_bridge.core.bridge_time import TimeMapping
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import MovingBody, SceneEdit
from vil_bridge.interfaces.vehicle_moves import (
    Loop,
    LoopGains,
    Move,
    Point,
    Quaternion,
    StickPositions,
    VehicleCollision,
    VehicleDisturbance,
)

BODY_COLUMNS: Final = 13
"""Position, velocity, attitude, rates: columns sent of every vehicle."""


class FlyCommand(msgspec.Struct, tag="fly", frozen=True):
    """Values in a mode for a vehicle; ``t_ns`` in simulation time, None = now."""

    vehicle: int
    mode: str
    values: tuple[float, ...]
    t_ns: int | None = None


class ArmCommand(msgspec.Struct, tag="arm", frozen=True):
    """Let a vehicle's motors obey, or stop them."""

    vehicle: int
    armed: bool


class Reset(msgspec.Struct, tag="reset", frozen=True):
    """Put a vehicle back to its start."""

    vehicle: int


class AddOrder(msgspec.Struct, tag="add", frozen=True):
    """Add a vehicle at its start, with the next number.

    ``config``: its entry of the configuration, JSON.
    """

    name: str
    config: str


class MoveOrder(msgspec.Struct, tag="move", frozen=True):
    """Start a move of a vehicle; ``number`` names it in its :class:`MoveReport`."""

    vehicle: int
    number: int
    move: Move


class CancelOrder(msgspec.Struct, tag="cancel", frozen=True):
    """End the running move of a vehicle."""

    vehicle: int


class PlaceOrder(msgspec.Struct, tag="place", frozen=True):
    """Put a vehicle into a pose and twist, room frame and body.

    ``sweep``: up to the first contact on the way.
    """

    vehicle: int
    p_m: Point
    q_xyzw: Quaternion
    v_mps: Point
    w_radps: Point
    sweep: bool = False


class DisturbOrder(msgspec.Struct, tag="disturb", frozen=True):
    """Let wind, a force and broken rotors act on a vehicle, until others do."""

    vehicle: int
    disturbance: VehicleDisturbance


class GainsOrder(msgspec.Struct, tag="gains", frozen=True):
    """Give a loop of a vehicle's flight controller other gains."""

    vehicle: int
    loop: Loop
    gains: LoopGains


class SticksOrder(msgspec.Struct, tag="sticks", frozen=True):
    """Set the sticks of a vehicle's remote control; None = it is off.

    ``until_ns``: simulation time up to which they hold; None = for good.
    """

    vehicle: int
    sticks: StickPositions | None
    until_ns: int | None = None


class ContactReport(msgspec.Struct, tag="contact", frozen=True):
    """Report of a renderer about a vehicle's camera as it was at ``t_ns`` (simulation time).

    Attributes:
        points_m, normals: of the surfaces near it, room frame; the normals point to the camera.
        hit: it touches something. has_surfaces: the renderer reports surfaces.
    """

    vehicle: int
    t_ns: int
    points_m: tuple[tuple[float, float, float], ...] = ()
    normals: tuple[tuple[float, float, float], ...] = ()
    hit: bool = False
    has_surfaces: bool = False


class BodiesUpdate(msgspec.Struct, tag="bodies", frozen=True):
    """Set the bodies that others move, all of them; their times in simulation time."""

    bodies: tuple[MovingBody, ...]


class EditOrder(msgspec.Struct, tag="edit", frozen=True):
    """Change an object of the scene."""

    edit: SceneEdit


class ClockUpdate(msgspec.Struct, tag="clock", frozen=True):
    """Message: how bridge time follows the machine's clock from now on (``TimeMapping``)."""

    machine_ns: int
    bridge_ns: int
    rate: float
    until_ns: int | None

    @classmethod
    def of(cls, mapping: TimeMapping) -> ClockUpdate:
        """Return a mapping as an order."""
        return cls(*mapping)

    def mapping(self) -> TimeMapping:
        """Return the same as a mapping."""
        return TimeMapping(self.machine_ns, self.bridge_ns, self.rate, self.until_ns)


class Stop(msgspec.Struct, tag="stop", frozen=True):
    """Make the steps up to an instant of simulation time, report them, and end.

    None = end at once.
    """

    t_ns: int | None = None


class Start(msgspec.Struct, tag="start", frozen=True):
    """Begin: step 0 is at this bridge time."""

    start_ns: int
    clock: ClockUpdate


VehicleOrder = (
    FlyCommand
    | ArmCommand
    | Reset
    | MoveOrder
    | CancelOrder
    | PlaceOrder
    | DisturbOrder
    | GainsOrder
    | SticksOrder
    | ContactReport
)
"""Orders to one vehicle."""

Order = VehicleOrder | AddOrder | BodiesUpdate | EditOrder | ClockUpdate | Start | Stop


class StatusUpdate(msgspec.Struct, array_like=True):
    """Values of one vehicle that change seldom.

    Attributes:
        landed: it stands. link: to its program, in words. clipped: readings of its inertial
            sensors.
        ended: why it flies no more; empty = it flies.
    """

    mode: str
    pilot: str
    armed: bool
    commands: int
    superseded: int
    collisions: int
    landed: bool = False
    link: str = ""
    clipped: int = 0
    ended: str = ""


class MoveReport(msgspec.Struct, array_like=True, frozen=True):
    """End of the move of that number."""

    number: int
    reached: bool
    problem: str = ""


class CollisionReport(msgspec.Struct, array_like=True, frozen=True):
    """Newest contact of a vehicle since the last batch, its time in simulation time."""

    vehicle: int
    collision: VehicleCollision


class SensorValues(msgspec.Struct, array_like=True):
    """Readings of one sensor of all vehicles that share it.

    Attributes:
        sensor: its number in the source (``fitted_sensors``). t_ns: of the measurement, simulation
            time.
        values: float64 (vehicles, columns of its kind). labels: as ``SensorReadings`` has them.
    """

    sensor: int
    t_ns: int
    values: bytes
    labels: tuple[str, ...] = ()

    def rows(self, vehicles: int) -> FloatArray:
        """Return the readings by vehicle, (vehicles, columns)."""
        return np.frombuffer(self.values, np.float64).reshape(vehicles, -1)


class VehicleBatch(msgspec.Struct):
    """All vehicles after a step.

    Attributes:
        steps: made so far, by every vehicle. t_ns: simulation time.
        late: steps that were made later than their own tick. behind_ns: of the newest step to its
            instant.
        dropped: batches that the reader was too slow for. strangers: datagrams at the ports of
            programs that came from elsewhere, so far.
        bodies: float64 (vehicles, 13). pose: whether a pose is due. notes: None = as before.
        dynamics: of AirSim's multirotors, float64 (vehicles, 8 + most rotors): accelerations,
            linear (world) and angular (body), density, thrust factor, controls of the rotors; empty
            where there are none.
        ends: of moves. collisions: newest of each vehicle that touched something. placed: vehicles
            that were put elsewhere.
        sensors: readings that came out since the batch before, oldest first.
        failure: what ended the steps; empty = nothing.
    """

    steps: int
    t_ns: int
    bodies: bytes
    late: int = 0
    behind_ns: int = 0
    dropped: int = 0
    strangers: int = 0
    pose: bool = True
    notes: list[StatusUpdate] | None = None
    sensors: list[SensorValues] = []
    dynamics: bytes = b""
    ends: list[MoveReport] = []
    collisions: list[CollisionReport] = []
    placed: list[int] = []
    failure: str = ""

    def states(self) -> FloatArray:
        """Return first 13 columns of all vehicles, (vehicles, 13)."""
        return np.frombuffer(self.bodies, np.float64).reshape(-1, BODY_COLUMNS)

    def dynamics_of(
        self, vehicle: int, rotors: int
    ) -> tuple[FloatArray, tuple[float, float], FloatArray]:
        """Return accelerations (6,), density and thrust factor, rotors' controls of one of
        AirSim's multirotors.
        """
        vehicles = len(self.bodies) // (8 * BODY_COLUMNS)
        row = np.frombuffer(self.dynamics, np.float64).reshape(vehicles, -1)[vehicle]
        density, factor = row[6:8].tolist()
        return row[:6], (density, factor), row[8 : 8 + rotors]

    def change_per_second(self, before: VehicleBatch, vehicle: int) -> FloatArray:
        """Return mean accelerations of a vehicle since a batch, linear and angular, (6,)."""
        states = self.states()
        earlier = before.states()
        if not before.t_ns < self.t_ns or vehicle >= len(earlier):
            return np.zeros(6)
        change = states[vehicle] - earlier[vehicle]
        rates: FloatArray = change[[3, 4, 5, 10, 11, 12]] * (NS_PER_S / (self.t_ns - before.t_ns))
        return rates

    def carry(self, older: VehicleBatch) -> None:
        """Take over from an older batch what no reader got and no newer one repeats."""
        if self.notes is None:
            self.notes = older.notes
        self.ends = older.ends + self.ends
        self.placed = older.placed + self.placed
        self.collisions = older.collisions + self.collisions
        self.pose = self.pose or older.pose


_encoder = msgspec.msgpack.Encoder()
_orders = msgspec.msgpack.Decoder(Order)
_reports = msgspec.msgpack.Decoder(VehicleBatch)


def encode(value: Any) -> bytes:
    """Return an order or a batch as bytes."""
    return _encoder.encode(value)


def decode_order(data: bytes) -> Order:
    """Return an order from bytes. Raises ProtocolError: it is not one of ours."""
    try:
        found: Order = _orders.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise ProtocolError(str(exc), length=len(data)) from exc
    return found


def decode_report(data: bytes) -> VehicleBatch:
    """Return a batch from bytes. Raises ProtocolError: it is not one of ours."""
    try:
        return _reports.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise ProtocolError(str(exc), length=len(data)) from exc
