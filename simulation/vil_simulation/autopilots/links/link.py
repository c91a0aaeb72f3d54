"""The connection to one autopilot program's simulator interface: sensors out, motors in."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Final, Literal, NamedTuple

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns
from vil_bridge.core.sensor_readings import (
    BarometerReading,
    DistanceReading,
    GpsReading,
    ImuReading,
    MagnetometerReading,
    Vector,
)
from vil_bridge.protocols.bound_peer import BoundPeer, PeerAddress, place_of
from vil_simulation.autopilots.links.poses import PoseSample, TrueMotion

logger = logging.getLogger(__name__)

LinkState = Literal["absent", "starting", "running", "silent", "ended"]
"""State of a link.

absent: no program has connected. starting: one has, and commands no motors yet. running: it
answers. silent: it did not answer in time. ended: it closed its connection.
"""

MOTORS: Final = 16
READS_AT_ONCE: Final = 64
"""Reads of one call, so that a peer that floods the link does not hold up the steps."""
_LONGEST_GAP_NS: Final = 10 * NS_PER_MS
"""Between two samples in real time, of a computer that is too slow for all of them."""


def shares(outputs: Iterable[float]) -> tuple[float, ...]:
    """Return outputs of motors within 0 and 1; not a number counts as 0."""
    # A list: half a generator's time.
    return tuple([0.0 if not u > 0.0 else 1.0 if u > 1.0 else u for u in outputs])


class AirData(NamedTuple):
    """Reading of a pitot tube at a simulation time, and the true wind in the room."""

    t_ns: int
    pressure_pa: float
    airspeed_mps: float
    wind_world_mps: Vector


class BatteryState(NamedTuple):
    """State of a battery; ``charge``: share of its capacity."""

    voltage_v: float
    current_a: float
    charge: float


class FlowReading(NamedTuple):
    """Optical flow of a camera that looks down, and the turn of the body in the same time.

    Body FLU.

    Attributes:
        t_ns: end of the time. span_s: its length. flow_rad: about x and y, positive as a turn of
            the body about them.
        seen: there was a surface all the time.
    """

    t_ns: int
    span_s: float
    flow_rad: tuple[float, float]
    turn_rad: Vector
    seen: bool


class AutopilotSample(NamedTuple):
    """Sensors of one vehicle at one instant.

    Attributes:
        t_ns: simulation time. motion: true. pose: of motion capture that arrives now; None = none
            does.
        gps: new reading; None = there is none. rc_us: pulse widths of the remote control's
            channels, roll, pitch, throttle, yaw first; None = no pilot.
        air, battery: newest; None = none is fitted. distance, flow: new readings; None = there is
            none.
    """

    t_ns: int
    motion: TrueMotion
    imu: ImuReading
    magnetometer: MagnetometerReading
    barometer: BarometerReading
    gps: GpsReading | None = None
    pose: PoseSample | None = None
    rc_us: tuple[int, ...] | None = None
    air: AirData | None = None
    battery: BatteryState | None = None
    distance: DistanceReading | None = None
    flow: FlowReading | None = None


class AutopilotLink(ABC):
    """Connection to one autopilot; one thread uses it.

    Args:
        timeout_s: machine time without an answer after which the autopilot counts as silent.

    Attributes:
        motors: newest outputs, 0 to 1, in the autopilot's order: front right, rear left, front
            left, rear right of a quadcopter. Zeros while no program commands.
        armed: the autopilot lets its motors turn. state: of the connection.
        sent, answers, repeats: samples sent, answers to them, and requests that came again.
    """

    lockstep: ClassVar[bool] = True

    def __init__(self, timeout_s: float) -> None:
        self.motors: tuple[float, ...] = (0.0,) * MOTORS
        self.armed = False
        self.state: LinkState = "absent"
        self.sent = self.answers = self.repeats = 0
        self._patience_ns = round(timeout_s * NS_PER_S)
        self._due_ns: int | None = None

    @property
    def waiting(self) -> bool:
        """True while the next step belongs to an answer that has not come."""
        return self._due_ns is not None

    @property
    def note(self) -> str:
        """Return words for what its state does not say; usually empty."""
        return ""

    @property
    def strangers(self) -> int:
        """Datagrams that would have been taken from the program, and came from elsewhere."""
        return 0

    @property
    def due_ns(self) -> int | None:
        """Machine time at which it is no longer waited for; None = nothing is."""
        return self._due_ns

    @abstractmethod
    def open(self) -> None:
        """Open the sockets. Raises OSError: a port is taken."""

    @abstractmethod
    def descriptors(self) -> tuple[int, ...]:
        """Return what becomes readable when something comes."""

    @abstractmethod
    def receive(self) -> None:
        """Take what has come, some of it where a peer floods.

        Never waits, never raises for what a peer sends.
        """

    def takes(self, *, late: bool) -> bool:  # noqa: ARG002 - lockstep: none is left out
        """Return True if a sample is to be sent now; ``late``: newer ones are due already."""
        return True

    @abstractmethod
    def send(self, sample: AutopilotSample) -> None:
        """Send a sample."""

    @abstractmethod
    def close(self) -> None:
        """Close the sockets."""

    def check(self) -> None:
        """Stop waiting for an answer that is overdue.

        The vehicle's motors stop, and the others go on.
        """
        if self._due_ns is not None and machine_ns() >= self._due_ns:
            self._due_ns = None
            self.overdue()

    def program_ended(self) -> None:  # noqa: B027 - a connection ends with its program
        """Expect another program: the one that was started for this link has ended."""

    def overdue(self) -> None:
        """Count the autopilot as silent; a link that starts up overrides it."""
        self._stop("silent")

    def _await_answer(self, patience_ns: int | None = None) -> None:
        if patience_ns is None:
            patience_ns = self._patience_ns
        self._due_ns = machine_ns() + patience_ns

    def _answered(self, motors: tuple[float, ...], *, armed: bool) -> None:
        self._due_ns = None
        self.answers += 1
        self.motors = motors
        self.armed = armed
        self.state = "running"

    def _stop(self, state: LinkState) -> None:
        """Let the motors stand, as they do when an autopilot's program ends."""
        self._due_ns = None
        self.motors = (0.0,) * MOTORS
        self.armed = False
        self.state = state


class DatagramPeer:
    """Sender of an autopilot's datagrams: the first valid one, until its program is silent or ends.

    Args:
        port: ours, for people.
    """

    def __init__(self, port: int) -> None:
        self.bound: Final = BoundPeer()
        self._port = port

    @property
    def note(self) -> str:
        """Words for datagrams of others; usually empty."""
        if not self.bound.stranger:
            return ""
        return f", ignores datagrams of {self.bound.stranger}"

    def takes(self, sender: PeerAddress) -> bool:
        """Return True for a datagram of the bound sender; the first of another is logged."""
        before = self.bound.stranger
        if self.bound.takes(sender):
            return True
        if not before:
            logger.warning(
                "port %d gets datagrams of two programs, from %s and %s: those of the "
                "second are ignored. End it, or "
                "give it another instance",
                self._port,
                place_of(self.bound.address),
                place_of(sender),
            )
        return False


class RealTimeLink(AutopilotLink):
    """Connection to an autopilot that keeps its own time.

    Nothing is waited for, and what is late is left out.
    """

    lockstep: ClassVar[bool] = False

    def __init__(self, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self._heard_ns = 0
        self._sent_ns = 0

    def descriptors(self) -> tuple[int, ...]:
        """Return nothing: outputs are read before a sample is sent."""
        return ()

    def takes(self, *, late: bool) -> bool:
        """Return True for a sample in time, and for a late one where none has gone out for a
        while.
        """
        self.receive()
        return not late or machine_ns() - self._sent_ns > _LONGEST_GAP_NS

    def _heard(self, motors: tuple[float, ...], *, armed: bool) -> None:
        self._heard_ns = machine_ns()
        self._answered(motors, armed=armed)

    def _check_silence(self) -> None:
        if self.state == "running" and machine_ns() - self._heard_ns > self._patience_ns:
            self._stop("silent")

    def _count_sent(self) -> None:
        self.sent += 1
        self._sent_ns = machine_ns()
