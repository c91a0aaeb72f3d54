"""Pilots of simulated races.

They know the gates' true places, and command the vehicles from their states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from itertools import product
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_bridge.interfaces.trajectory import Polynomials, Trajectory
from vil_simulation.race.routes import through_gates
from vil_simulation.race.simulated_race import PilotFactory, ball_radius_m, fly
from vil_simulation.vehicles.control.limits import Limits, fastest
from vil_simulation.vehicles.control.models import pilot_of, tracking
from vil_simulation.vehicles.control.optimal import time_optimal
from vil_simulation.vehicles.model import Model

_SHARES: Final = (0.8, 0.65, 0.5, 0.4, 0.3)
"""Of the rotors' thrust, the largest first; the rest is for control."""
_STRAIGHTS_M: Final = (0.0, 0.15)
"""Before and behind gates; the first that finishes."""
_MARGINS_M: Final = (0.02, 0.0)
"""Clearance of a rehearsed flight, the wanted one first.

What finishes by a hair hangs on the last digits.
"""
_RATES_RADPS: Final = (8.0, 8.0, 3.0)
_LEAST_THRUST: Final = 0.1
"""Of the largest thrust: the attitude needs some."""
_AFTER_S: Final = 1.0


class TrajectoryPilot:
    """Pilot that follows one trajectory for each course.

    Args:
        model: of the vehicles.
        trajectories: one a vehicle, from the start.
    """

    def __init__(self, model: Model, trajectories: Sequence[Trajectory]) -> None:
        self.until_s: FloatArray = np.array([one.duration_s for one in trajectories]) + _AFTER_S
        self._controller: Final = tracking(model, trajectories)

    def __call__(self, t_s: float, x: FloatArray) -> FloatArray:
        """Return commands, (n, du)."""
        return self._controller(t_s, x)


def minimum_snap_pilot(courses: Sequence[Course], model: Model) -> TrajectoryPilot:
    """Return a pilot along minimum-snap curves through the gates, each at one pace that the rotors
    allow.

    Raises:
        ValueError: a course that no curve goes through.
    """
    airframe = pilot_of(model).airframe

    def flight(curve: Polynomials, share: float) -> Trajectory:
        most = replace(airframe, most=share * airframe.most)
        return fastest(curve, Limits(airframe=most, rates_radps=_RATES_RADPS))

    return _rehearsed(courses, model, flight)


def time_optimal_pilot(courses: Sequence[Course], model: Model) -> TrajectoryPilot:
    """Return a pilot along the same curves in the least time that thrust and drag allow.

    Raises:
        ValueError: a course that no curve goes through.
    """
    return _rehearsed(
        courses, model, lambda curve, share: time_optimal(curve, _thrust_limits(model, share))
    )


def _rehearsed(
    courses: Sequence[Course], model: Model, flight: Callable[[Polynomials, float], Trajectory]
) -> TrajectoryPilot:
    """Return a pilot whose flights were rehearsed in simulation.

    No vehicle follows a curve exactly, least of all one whose acceleration jumps. A flight that
    does not finish with a margin to all things gets a smaller share of the thrust, down to the last
    share, and then a curve that is straight at the gates. Without any such flight, the first that
    finishes is taken.

    Args:
        courses: one a vehicle.
        model: of the vehicles.
        flight: returns the flight along a curve with a share of the rotors' thrust.
    """
    curves: dict[tuple[float, int], Polynomials] = {}
    flights: dict[tuple[float, float, int], Trajectory] = {}
    ends: dict[tuple[float, float, int], str | None] = {}
    chosen: dict[int, Trajectory] = {}
    failed = list(range(len(courses)))
    for margin_m, straight_m, share in product(_MARGINS_M, _STRAIGHTS_M, _SHARES):
        for index in failed:
            if (straight_m, index) not in curves:
                curves[straight_m, index] = through_gates(
                    courses[index], ball_radius_m(model), straight_m
                )
            if (straight_m, share, index) not in flights:
                flights[straight_m, share, index] = flight(curves[straight_m, index], share)
            chosen[index] = flights[straight_m, share, index]
        # A smaller margin changes the end of those flights only that collided.
        flown = [
            index
            for index in failed
            if ends.get((straight_m, share, index), "collision") == "collision"
        ]
        if not flown:
            continue
        rehearsed = TrajectoryPilot(model, [chosen[index] for index in flown])
        records = fly([courses[index] for index in flown], model, rehearsed, margin_m=margin_m)
        ends |= {
            (straight_m, share, index): one.ended for index, one in zip(flown, records, strict=True)
        }
        failed = [index for index in failed if ends[straight_m, share, index] != "finished"]
        if not failed:
            break
    return TrajectoryPilot(model, [chosen[index] for index in range(len(courses))])


def _thrust_limits(model: Model, share: float) -> Limits:
    airframe = pilot_of(model).airframe
    most = share * float(airframe.effects[0].sum()) * airframe.most / airframe.mass_kg
    return Limits(
        thrust_mps2=(_LEAST_THRUST * most, most),
        drag_1pm=airframe.drag_quadratic_ns2pm2 / airframe.mass_kg,
        gravity_mps2=airframe.gravity_mps2,
    )


PILOTS: Final[Mapping[str, PilotFactory]] = MappingProxyType(
    {"minimum-snap": minimum_snap_pilot, "time-optimal": time_optimal_pilot}
)
"""Pilots by name."""

_GROUP: Final = "vil_bridge.pilots"


def pilot_names() -> list[str]:
    """Return the names of all pilots, those of installed plug-ins too."""
    return sorted({*PILOTS, *(entry.name for entry in entry_points(group=_GROUP))})


def pilot_factory(name: str) -> PilotFactory:
    """Return what makes the pilots of a name.

    A built-in, or what an entry point of the group refers to.

    Raises:
        ValueError: no such pilot, or a plug-in that cannot be called.
    """
    if name in PILOTS:
        return PILOTS[name]
    found = [entry for entry in entry_points(group=_GROUP) if entry.name == name]
    if not found:
        raise ValueError(f"no pilot is named {name!r}; known: {', '.join(pilot_names())}")
    try:
        made: Any = found[0].load()
    except (ImportError, AttributeError) as exc:
        raise ValueError(
            f"pilot {name!r}: {found[0].value} cannot be imported: {exc}. Install it again"
        ) from None
    if not callable(made):
        raise ValueError(
            f"pilot {name!r}: {found[0].value} is not a function of courses and model. Correct it"
        )
    return cast("PilotFactory", made)
