"""Methods of AirSim's drone racing lab that need a race: start, gates, who is out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.course import Course, CourseGate
from vil_bridge.core.geometry import q_mul
from vil_bridge.servers.airsim.frames import ned_of, quaternion_of
from vil_bridge.servers.airsim.methods import method
from vil_bridge.servers.airsim.values import Pose, Vector3r
from vil_bridge.servers.airsim.vehicles import ServedVehicles

_HALF: Final = math.sqrt(0.5)
_RIGHT_FORWARD: Final = np.array([0.0, 0.0, _HALF, _HALF])
"""Turn about z that makes the gate's right (FRD) its direction of flight, as the lab's gates have it."""


@dataclass(frozen=True)
class ServedRace:
    """Race of a bridge.

    Attributes:
        course: returns the course, with the gates where they are now.
        restart: sets all clocks to zero.
        is_out: returns True for an actor whose race has ended otherwise than by finishing.
        passed: returns the number in the race of an actor's last gate, from 0; -1 = none yet. Both raise LookupError
            for an actor that does not race.
    """

    course: Callable[[], Course]
    restart: Callable[[], None]
    is_out: Callable[[str], bool]
    passed: Callable[[str], int]

    @property
    def gates(self) -> dict[str, CourseGate]:
        """Gates by name."""
        return {gate.name: gate for gate in self.course().gates}

    @property
    def nominal(self) -> CourseGate:
        """Return the gate whose size is the scale 1."""
        course = self.course()
        return course.gates[course.order[0]]

    def pose(self, gate: str) -> Pose:
        """Return the pose of a gate: the middle of its opening, its y the direction of flight."""
        T = self.gates[gate].T_world_gate
        return Pose(ned_of(T.p_m), quaternion_of(q_mul(T.q_xyzw, _RIGHT_FORWARD)))

    def scale(self, gate: str) -> Vector3r:
        """Return the size of a gate over that of the nominal one."""
        one, nominal = self.gates[gate], self.nominal
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
    def start_race(self, tier: int = 3) -> None:  # noqa: ARG002
        """Set the clocks to zero; the signal comes once each racer is seen."""
        self._known().restart()

    @method("simResetRace")
    def reset_race(self) -> None:
        """Set the clocks to zero, as the start does."""
        self._known().restart()

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
        actor, race = self._vehicles.find(vehicle_name).actor, self._known()
        number = race.passed(actor)
        return -1 if number < 0 else number % len(race.course().order)

    @method("simGetNominalGateInnerDimensions")
    def nominal_gate(self) -> Vector3r:
        """Return width (x) and height (z) of the opening at scale 1."""
        nominal = self._known().nominal
        return Vector3r(nominal.width_m, 0.0, nominal.height_m)

    def _known(self) -> ServedRace:
        if self._race is None:
            raise LookupError("this bridge has no race. Add the section `race` to its configuration")
        return self._race
