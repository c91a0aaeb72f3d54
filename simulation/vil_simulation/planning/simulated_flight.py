"""Flights of simulated vehicles along trajectories, and their first contact with a scene."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import SolidWorld, SweptContact
from vil_bridge.interfaces.trajectory import Trajectory
from vil_simulation.vehicles.control.models import tracking
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter

_STEPS: Final = 4
"""Of the model between two commands: 240 Hz."""
_EVERY: Final = 6
"""Commands between two recorded positions: 40 Hz."""
_CHORD_M: Final = 1e-3
"""Largest distance of a flight from its chords of 25 ms, at 12 m/s2."""


def fly_along(trajectories: Sequence[Trajectory]) -> list[FloatArray]:
    """Fly one simulated quadcopter along each trajectory, and return its positions (n, 3), 25 ms
    apart.
    """
    model = FlightGogglesMulticopter()
    fleet = Fleet(model, n=len(trajectories))
    controller = tracking(model, trajectories)
    fleet.place(p_world_m=controller.table.at(0.0).p_world_m)
    longest_s = max(curve.duration_s for curve in trajectories)
    places = [fleet.x[:, :3].copy()]
    while fleet.t_ns * 1e-9 < longest_s:
        for _ in range(_EVERY):
            fleet.command(controller(fleet.t_ns * 1e-9, fleet.x))
            fleet.advance(_STEPS)
        places.append(fleet.x[:, :3].copy())
    flown = np.stack(places, axis=1)
    step_s = _EVERY * _STEPS * float(fleet.dt_s)
    return [
        flown[k, : int(np.ceil(curve.duration_s / step_s)) + 1]
        for k, curve in enumerate(trajectories)
    ]


def contact_on(flown_m: FloatArray, solids: SolidWorld, radius_m: float) -> SweptContact | None:
    """Return the first surface that a ball touches along flown positions (n, 3).

    None = it flew free.
    """
    for start, end in pairwise(flown_m):
        contact = (
            solids.first_contact(start, end, radius_m + _CHORD_M) if (start != end).any() else None
        )
        if contact is not None:
            return contact
    return None
