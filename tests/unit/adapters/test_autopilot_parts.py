"""Battery, motor curve, airspeed, range and optical flow in what an autopilot is sent, over real
sockets.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.autopilot_recorders import HOVER, RecordingPeer, advance, recorded, settle
from vil_bridge.interfaces.vehicle_moves import VehicleDisturbance
from vil_bridge.protocols.mavlink.hil_messages import DistanceSensor, HilOpticalFlow, HilSensor
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import DisturbOrder, PlaceOrder
from vil_simulation.source.simulation import Simulation
from vil_simulation.vehicles.multicopter import MulticopterParameters

pytestmark = pytest.mark.wire

DRONE = MulticopterParameters()
G = DRONE.gravity_mps2
FULL_V, RESISTANCE_OHM = 4 * 4.2, 0.02
DISC_M2 = math.pi * 0.1**2
SPAN_S = 0.05


def power_w(force_mps2: float) -> float:
    """Return what the rotors and the rest take for a specific force upwards."""
    thrust_n = DRONE.mass_kg * force_mps2 / 4.0
    return 4.0 * math.pow(thrust_n, 1.5) / math.sqrt(2.0 * 1.225 * DISC_M2) / 0.5 + 5.0


@pytest.mark.parametrize("output", [HOVER, 0.8])
def test_a_battery_sags_under_the_rotors_power_and_the_thrust_with_it(output: float) -> None:
    with recorded("ardupilot", {"battery": {}}) as (simulation, peer):
        peer.motors = [output] * 4
        settle(simulation)
        line = peer.sent[-1]
    volts, amperes = line["battery"]["voltage"], line["battery"]["current"]
    up_mps2 = -line["imu"]["accel_body"][2]
    assert volts * amperes == pytest.approx(power_w(up_mps2), rel=1e-3)
    assert volts == pytest.approx(FULL_V - RESISTANCE_OHM * amperes, abs=0.01), (
        "0.3 s take little of the charge"
    )
    assert up_mps2 == pytest.approx(G * (output / HOVER * volts / FULL_V) ** 2, rel=2e-3), (
        "speeds follow the voltage"
    )
    assert up_mps2 < G * (output / HOVER) ** 2


def test_px4_feels_the_sag_and_an_empty_battery_stops_the_motors() -> None:
    with recorded("px4", {"battery": {"capacity_ah": 0.001, "charge": 0.9}}) as (simulation, peer):
        settle(simulation)
        advance(simulation, 400)
        forces = [-sample.zacc_mps2 for sample in peer.of(HilSensor)]
    assert 0.5 * G < forces[300] < 0.97 * G
    assert forces[400] < forces[320] < forces[300], "as it empties"
    assert forces[-1] < 0.05 * G


def test_motors_follow_their_curve() -> None:
    curve = {"dead_band": 0.1, "idle": 0.2, "exponent": 0.5}
    with recorded("px4", {"motors": curve}) as (simulation, peer):
        for output in (0.05, 0.101, 0.4, 1.0):
            peer.motors = [output] * 4
            settle(simulation)
            share = 0.2 + 0.8 * math.sqrt(max(output - 0.1, 0.0) / 0.9) if output > 0.1 else 0.0
            up_mps2 = -peer.of(HilSensor)[-1].zacc_mps2
            assert up_mps2 == pytest.approx(G * (share / HOVER) ** 2, rel=2e-3, abs=0.01)


@pytest.mark.parametrize(
    ("motors", "shares"),
    [
        ({"preset": "gazebo_iris"}, {0.01: 110 / 1100, 0.2: 300 / 1100, 1.0: 1.0}),
        ({"preset": "airsim"}, {0.25: 0.5, 0.5: math.sqrt(0.5), 1.0: 1.0}),
        ({"preset": "airsim", "dead_band": 0.1}, {0.1: 0.0, 0.55: math.sqrt(0.5)}),
    ],
)
def test_motors_follow_a_published_curve(
    motors: dict[str, Any], shares: dict[float, float]
) -> None:
    with recorded("px4", {"motors": motors}) as (simulation, peer):
        for output, share in shares.items():
            peer.motors = [output] * 4
            settle(simulation)
            up_mps2 = -peer.of(HilSensor)[-1].zacc_mps2
            assert up_mps2 == pytest.approx(G * (share / HOVER) ** 2, rel=2e-3, abs=0.01)


def test_a_curve_of_rotor_speeds_is_refused_where_commands_are_thrusts() -> None:
    vehicle = {"model": "airsim", "autopilot": {"kind": "px4", "motors": {"preset": "gazebo_iris"}}}
    with pytest.raises(
        ValidationError,
        match="model 'airsim' takes thrusts; set dead_band, idle and exponent instead",
    ):
        SimulatedConfig.model_validate(
            {"type": "simulated", "step_hz": 1000, "vehicles": {"quad": vehicle}}
        )


def test_airspeed_is_that_of_the_wind_ahead() -> None:
    ahead = VehicleDisturbance(wind_world_mps=(-5.0, 2.0, 1.0))
    for kind in ("px4", "ardupilot"):
        with recorded(kind, {"airspeed": {"noise_pa": 0.0}}) as (simulation, peer):
            settle(simulation)
            advance(simulation, 18)
            simulation.order(DisturbOrder(0, ahead))
            advance(simulation, 1)
            newest = peer.sent[-1]
        if isinstance(newest, HilSensor):
            assert newest.fields_updated == 0x1FFF
            assert newest.diff_pressure_hpa == pytest.approx(0.01 * 0.5 * 1.225 * 25.0, rel=0.01)
        else:
            assert newest["airspeed"] == pytest.approx(5.0, rel=0.01)
            assert newest["velocity_wind"] == [2.0, -5.0, -1.0]


def place(
    simulation: Simulation,
    q: tuple[float, float, float, float],
    v: tuple[float, ...],
    w: tuple[float, ...],
) -> None:
    """Put the vehicle to 10 m, and fly until the next reading."""
    simulation.order(PlaceOrder(0, (0.0, 0.0, 10.0), q, (v[0], v[1], v[2]), (w[0], w[1], w[2])))
    advance(simulation, 50)


LEVEL = (0.0, 0.0, 0.0, 1.0)
STILL = (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("v", "w", "flow_radps"),
    [
        ((2.0, 0.0, 0.0), STILL, (0.0, 0.2)),  # ahead: positive about y
        ((0.0, -2.0, 0.0), STILL, (-0.2, 0.0)),  # to the right: negative about x
        (STILL, (0.5, 0.0, 0.0), (0.5, 0.0)),  # right wing down: positive about x
        (STILL, (0.0, -0.5, 0.0), (0.0, 0.5)),  # nose up: positive about y
        (STILL, (0.0, 0.0, 0.5), (0.0, 0.0)),
    ],
)
def test_flow_is_that_of_a_push_and_of_a_turn(
    v: tuple[float, ...], w: tuple[float, ...], flow_radps: tuple[float, float]
) -> None:
    with recorded("px4", {"optical_flow": {"noise_radps": 0.0}}) as (simulation, peer):
        settle(simulation)
        advance(simulation, 49)
        place(simulation, LEVEL, v, w)
        newest = peer.of(HilOpticalFlow)[-1]
    assert (newest.integration_time_us, newest.quality) == (50_000, 255)
    found = newest.integrated_x_rad, newest.integrated_y_rad
    assert found == pytest.approx([SPAN_S * rate for rate in flow_radps], rel=0.05, abs=1e-3)
    turn = newest.integrated_xgyro_rad, newest.integrated_ygyro_rad, newest.integrated_zgyro_rad
    assert turn == pytest.approx(
        [SPAN_S * w[0], -SPAN_S * w[1], -SPAN_S * w[2]], rel=0.05, abs=1e-3
    )


def ranges(peer: RecordingPeer) -> list[float]:
    return [0.01 * m.current_distance_cm for m in peer.of(DistanceSensor)]


def test_the_range_is_along_the_tilted_body_and_ends_at_its_reach() -> None:
    tilted = (math.sin(math.radians(15.0)), 0.0, 0.0, math.cos(math.radians(15.0)))
    with recorded("px4", {"range_finder": {"noise_m": 0.0, "max_m": 11.8}}) as (simulation, peer):
        settle(simulation)
        advance(simulation, 49)
        place(simulation, tilted, STILL, STILL)
        assert ranges(peer)[-1] == pytest.approx(10.0 / math.cos(math.radians(30.0)), abs=0.1)
        assert peer.of(DistanceSensor)[-1].orientation == 25
        over = (math.sin(math.radians(20.0)), 0.0, 0.0, math.cos(math.radians(20.0)))
        place(simulation, over, STILL, STILL)
        assert ranges(peer)[-1] == pytest.approx(11.81), "1 cm more than the longest"


def test_ranges_end_at_objects_of_the_scene(tmp_path: Path) -> None:
    path = tmp_path / "column.yaml"
    path.write_text(
        "scene: c\nobjects:\n  - {name: c, box: {size_m: [2.0, 2.0, 4.0]}, p_m: [0.0, 0.0, 0.0]}\n"
    )
    parts = {"range_finder": {"noise_m": 0.0}}
    with recorded("ardupilot", parts, source={"contact": {"scene": str(path)}}) as (
        simulation,
        peer,
    ):
        settle(simulation)
        found = [line["rng_1"] for line in peer.sent if "rng_1" in line]
    assert found[-1] == pytest.approx(6.0, abs=0.01)


def test_the_same_seed_gives_the_same_messages() -> None:
    parts: dict[str, Any] = {
        name: {} for name in ("battery", "airspeed", "range_finder", "optical_flow")
    }
    flown = []
    for seed in (3, 3, 4):
        with recorded("px4", parts, source={"seed": seed}) as (simulation, peer):
            simulation.order(
                DisturbOrder(
                    0, VehicleDisturbance((3.0, 0.0, 0.0), lost_shares=(0.1, 0.0, 0.0, 0.0))
                )
            )
            settle(simulation)
            flown.append(list(peer.sent))
    assert flown[0] == flown[1]
    assert flown[0] != flown[2]


@pytest.mark.parametrize(
    ("autopilot", "problem"),
    [
        ({"kind": "betaflight", "airspeed": {}}, "Betaflight's simulator takes neither"),
        ({"kind": "ardupilot", "optical_flow": {}}, "optical_flow is for kind: px4"),
        (
            {"kind": "px4", "battery": {"cell_full_v": 3.0}},
            "cell_empty_v must be less than cell_full_v",
        ),
        ({"kind": "px4", "range_finder": {"min_m": 20}}, "min_m must be less than max_m"),
        ({"kind": "px4", "motors": {"dead_band": 1.0}}, "less than 1"),
    ],
)
def test_wrong_parts_are_refused(autopilot: dict[str, Any], problem: str) -> None:
    vehicle = {"model": "flightgoggles", "autopilot": autopilot}
    with pytest.raises(ValidationError, match=problem):
        SimulatedConfig.model_validate(
            {"type": "simulated", "step_hz": 1200, "vehicles": {"quad": vehicle}}
        )
