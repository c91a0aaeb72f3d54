"""Methods of AirSim's drone racing lab that need a race: start, gates, who is out."""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, q_mul
from vil_bridge.courses.course import Course, CourseGate
from vil_bridge.interfaces.vehicle_commands import VehicleCommand, VehicleCommandBus
from vil_simulation.airsim.frames import ned_of, quaternion_of
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.values import Pose, Vector3r
from vil_simulation.airsim.vehicles import ServedVehicles, poll

logger = logging.getLogger(__name__)

_AT_ONCE: Final = -1
_MOST_SHARE: Final = 0.25
"""Of an opening, by which the pose of a gate is wrong along each axis, at most."""
_MOST_TURN_RAD: Final = math.radians(10.0)
_HALF: Final = math.sqrt(0.5)
_RIGHT_FORWARD: Final = np.array([0.0, 0.0, _HALF, _HALF])
"""Turn about z that makes the gate's right (FRD) its direction of flight, as the lab's gates
have it.
"""


class GateNoise:
    """Errors of the poses of gates that programs of tiers 2 and 3 see.

    One for each gate and start of a race.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._starts = 0

    def begin(self) -> None:
        """Draw new errors from now on."""
        self._starts += 1

    def of(self, gate: CourseGate) -> Transform:
        """Return the error of a gate's pose, in its own frame."""
        drawn = np.random.default_rng((self._seed, self._starts, zlib.crc32(gate.name.encode())))
        along, across, up, turn = drawn.uniform(-1.0, 1.0, 4).tolist()
        half_rad = 0.5 * _MOST_TURN_RAD * turn
        p_m = _MOST_SHARE * np.array(
            (along * gate.width_m, across * gate.width_m, up * gate.height_m)
        )
        return Transform.of(p_m, (0.0, 0.0, math.sin(half_rad), math.cos(half_rad)))


@dataclass(frozen=True)
class ServedRace:
    """Race of a bridge.

    Attributes:
        course: returns the course, with the gates where they are now.
        racers: actors that race.
        restart: sets all clocks to zero; poses of up to an instant of bridge time do not count.
        is_out: returns True for an actor whose race has ended otherwise than by finishing.
        passed: returns the number in the race of an actor's last gate, from 0; -1 = none yet. Both
            raise LookupError for an actor that does not race.
        noise: of the poses of gates.
    """

    course: Callable[[], Course]
    racers: tuple[str, ...]
    restart: Callable[[int], None]
    is_out: Callable[[str], bool]
    passed: Callable[[str], int]
    noise: GateNoise

    @property
    def gates(self) -> dict[str, CourseGate]:
        """Gates by name."""
        return {gate.name: gate for gate in self.course().gates}

    @property
    def nominal(self) -> CourseGate:
        """Return the gate whose size is the scale 1."""
        course = self.course()
        return course.gates[course.order[0]]

    def pose(self, gate: str, *, noisy: bool = False) -> Pose:
        """Return the pose of a gate: the middle of its opening, its y the direction of flight."""
        found = self.gates[gate]
        T = found.T_world_gate
        if noisy:
            T = T @ self.noise.of(found)
        return Pose(ned_of(T.p_m), quaternion_of(q_mul(T.q_xyzw, _RIGHT_FORWARD)))

    def scale(self, gate: str) -> Vector3r:
        """Return the size of a gate over that of the nominal one."""
        one = self.gates[gate]
        nominal = self.nominal
        return Vector3r(one.width_m / nominal.width_m, 1.0, one.height_m / nominal.height_m)


class RaceMethods:
    """The race, as programs of the racing lab ask for it.

    Args:
        race: None = the bridge has none, which the methods answer.
    """

    def __init__(self, vehicles: ServedVehicles, race: ServedRace | None) -> None:
        self._vehicles = vehicles
        self._race = race

    @method("simStartRace")
    def start_race(self, tier: int = 3) -> None:
        """Set the clocks to zero and draw errors for gates.

        The signal comes once each racer is seen.

        The client itself flies the opponent of tiers 1 and 3, and asks for poses with errors in
        tiers 2 and 3.
        """
        race = self._known()
        race.noise.begin()
        race.restart(_AT_ONCE)
        logger.info("race: a program starts tier %d on %s", tier, race.course().name)

    @method("simResetRace")
    async def reset_race(self) -> None:
        """Put the simulated racers back to their starts, and set the clocks to zero."""
        race = self._known()
        bus = self._vehicles.bus
        there_ns = _AT_ONCE
        for vehicle in self._vehicles.simulated:
            subject = vehicle.subject or ""
            if vehicle.actor not in race.racers or subject not in bus.names():
                continue
            before = bus.of(subject).state(subject).placements
            bus.send(subject, VehicleCommand("reset"))
            await poll(
                partial(_is_placed, bus, subject, before),
                f"{vehicle.name} does not return to its start",
            )
            there_ns = max(there_ns, bus.of(subject).state(subject).t_ns)
        race.restart(there_ns)

    @method("simDisableRaceLog", effect=False)
    def disable_log(self) -> None:
        """Write no log of the lab, which is not written here."""

    @method("simGetDisqualified")
    def is_disqualified(self, vehicle_name: str = "") -> bool:
        """Return True where a racer's race has ended otherwise than by finishing."""
        actor = self._vehicles.find(vehicle_name).actor
        return self._known().is_out(actor)

    @method("simGetLastGatePassed")
    def last_gate_passed(self, vehicle_name: str = "") -> int:
        """Return the last gate in the order of a lap, from 0; -1 before the first one."""
        actor = self._vehicles.find(vehicle_name).actor
        race = self._known()
        number = race.passed(actor)
        return -1 if number < 0 else number % len(race.course().order)

    @method("simGetNominalGateInnerDimensions")
    def nominal_gate(self) -> Vector3r:
        """Return width (x) and height (z) of the opening at scale 1."""
        nominal = self._known().nominal
        return Vector3r(nominal.width_m, 0.0, nominal.height_m)

    def _known(self) -> ServedRace:
        if self._race is None:
            raise LookupError(
                "this bridge has no race. Add the section `race` to its configuration"
            )
        return self._race


def _is_placed(bus: VehicleCommandBus, subject: str, before: int) -> bool:
    return bus.of(subject).state(subject).placements > before
