"""Rotors that break in flight against models whose motors are weak from the start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vil_simulation.vehicles.airsim.airframes import FRAMES
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.broken_rotors import BrokenRotors
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.flightmare.parameters import AGILICIOUS
from vil_simulation.vehicles.model import Model
from vil_simulation.vehicles.multicopter import MulticopterParameters

LOST = (0.0, 0.2, 0.05, 0.0)
LEFT = tuple(1.0 - share for share in LOST)
GOGGLES = MulticopterParameters()
WEAK_GOGGLES = replace(
    GOGGLES,
    thrust_ns2=tuple(1.91e-6 * left for left in LEFT),
    torque_nms2=tuple(2.6e-7 * left for left in LEFT),
)
SIM = FRAMES["generic"]
CASES: dict[str, tuple[Model, Model, tuple[float, ...]]] = {
    "flightgoggles": (
        FlightGogglesMulticopter(),
        FlightGogglesMulticopter(WEAK_GOGGLES),
        (1130.0, 1140.0, 1130.0, 1150.0),
    ),
    "flightmare": (
        FlightmareQuadrotor(AGILICIOUS),
        FlightmareQuadrotor(replace(AGILICIOUS, thrust_scale=LEFT)),
        (1.8, 1.9, 1.8, 1.8),
    ),
    "airsim": (
        AirsimMultirotor(SIM),
        AirsimMultirotor(replace(SIM, thrust_scale=LEFT, torque_scale=LEFT)),
        (0.6, 0.6, 0.61, 0.6),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_lost_is_what_weak_motors_do_not_give(name: str) -> None:
    whole, weak, command = CASES[name]
    flown = []
    for model, broken in ((whole, True), (weak, False)):
        fleet = Fleet(model, dt_s=model.dt_s)
        if broken:
            fleet.disturbances.append(BrokenRotors(model, np.array([LOST])))
        fleet.place(p_world_m=(0.0, 0.0, 20.0), q_world_body=(0.1, 0.2, 0.3, 0.9))
        fleet.command(command)
        fleet.advance(round(0.3 / float(model.dt_s)))
        truth = fleet.truth()
        flown.append(np.concatenate([values[0] for values in truth[1:]]))
    assert np.abs(flown[0] - flown[1]).max() < 0.01 * np.abs(flown[1][13:16]).max() + 0.02
