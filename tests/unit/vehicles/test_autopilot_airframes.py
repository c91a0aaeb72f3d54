"""Motor orders of the autopilots' frames against words, balance and the turn that each motor
gives.
"""

from __future__ import annotations

import numpy as np
import pytest

from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.airframes import PRESETS
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter

PLACES = {
    "autopilot_quad_x": ("front right ccw", "rear left ccw", "front left cw", "rear right cw"),
    "autopilot_hexa_x": (
        *(
            "right cw",
            "left ccw",
            "front left cw",
            "rear right ccw",
            "front right ccw",
            "rear left cw",
        ),
    ),
    "autopilot_octo_x": (
        *("front right cw", "rear left cw", "front right ccw", "rear right ccw"),
        *("front left ccw", "rear left ccw", "front left cw", "rear right cw"),
    ),
}
AHEAD_OF_OCTO = (0, 4, 2, 6, 7, 5, 3, 1)
"""Its motors from the foremost to the hindmost, those of one row from right to left."""


@pytest.mark.parametrize("preset", PLACES)
def test_faster_motors_turn_the_vehicle_as_their_places_say(preset: str) -> None:
    parameters = PRESETS[preset]
    count = len(PLACES[preset])
    fleet = Fleet(FlightGogglesMulticopter(parameters), count + 1)
    fleet.command(
        parameters.hover_radps
        * np.vstack((np.ones((count, count)) + 0.1 * np.eye(count), np.ones(count)))
    )
    fleet.advance(48)
    p, q, r = (fleet.x[:, 10 + axis] for axis in range(3))
    assert abs(p[-1]) + abs(q[-1]) + abs(r[-1]) < 1e-9
    for motor, place in enumerate(PLACES[preset]):
        assert (r[motor] < 0.0) == place.endswith(" ccw"), place
        assert np.sign(np.round(p[motor], 2)) == ("left" in place) - ("right" in place), place
        assert np.sign(np.round(q[motor], 2)) == ("rear" in place) - ("front" in place), place


@pytest.mark.parametrize("preset", PLACES)
def test_rotors_of_an_airframe_are_balanced(preset: str) -> None:
    rotors = PRESETS[preset].rotors
    places = np.array([rotor.p_body_m for rotor in rotors])
    turns = np.array([rotor.direction for rotor in rotors])
    assert np.allclose(places.sum(axis=0), 0.0) and turns.sum() == 0.0
    assert np.allclose(turns @ places, 0.0)  # a turn about the vertical neither rolls nor pitches


def test_the_octocopter_has_its_motors_in_rows() -> None:
    places = np.array([rotor.p_body_m for rotor in PRESETS["autopilot_octo_x"].rotors])
    rows = np.array_split(places[list(AHEAD_OF_OCTO)], 4)
    assert all(np.allclose(row[0] * (1, -1, 1), row[1]) for row in rows)
    assert np.all(np.diff([row[0, 0] for row in rows]) < -0.1)
