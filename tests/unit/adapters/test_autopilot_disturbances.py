"""Wind and broken rotors in what an autopilot is sent, over real sockets.

Sign and size against the vehicle model.
"""

from __future__ import annotations

import pytest

from tests.support.autopilot_recorders import advance, recorded, settle
from vil_bridge.interfaces.vehicle_moves import VehicleDisturbance
from vil_bridge.protocols.mavlink.hil_messages import HilSensor
from vil_simulation.source.ipc import DisturbOrder
from vil_simulation.vehicles.multicopter import MulticopterParameters

pytestmark = pytest.mark.wire

DRONE = MulticopterParameters()
WEIGHT_N = DRONE.mass_kg * DRONE.gravity_mps2
LOST = 0.3
FRONT_RIGHT, REAR_LEFT, FRONT_LEFT, REAR_RIGHT = range(4)
ARM_M = 0.08
TWIST_M = DRONE.nominal_of("torque_nms2") / DRONE.nominal_of("thrust_ns2")
SIGNS = {
    FRONT_RIGHT: (1, -1, -1),
    REAR_LEFT: (-1, 1, -1),
    FRONT_LEFT: (-1, -1, 1),
    REAR_RIGHT: (1, 1, 1),
}
"""Of roll, pitch and yaw accelerations, forward right down, where a rotor pushes less."""


def change(before: HilSensor, after: HilSensor) -> list[float]:
    """Return the angular acceleration between two samples, of which each is a mean over its
    period.
    """
    dt_s = 1e-6 * (after.time_usec - before.time_usec)
    return [(b - a) / dt_s for a, b in zip(before[4:7], after[4:7], strict=True)]


@pytest.mark.parametrize("rotor", range(4))
def test_a_broken_rotor_turns_the_vehicle_in_the_next_samples(rotor: int) -> None:
    with recorded("px4", {}) as (simulation, peer):
        settle(simulation)
        shares = tuple(LOST if i == rotor else 0.0 for i in range(4))
        simulation.order(DisturbOrder(0, VehicleDisturbance(lost_shares=shares)))
        advance(simulation, 10)
        samples = peer.of(HilSensor)
    at_order = samples[-11]
    assert at_order[1:7] == pytest.approx((0.0, 0.0, -DRONE.gravity_mps2, 0.0, 0.0, 0.0), abs=1e-3)
    lost_n = LOST * WEIGHT_N / 4.0
    assert samples[-10].zacc_mps2 == pytest.approx(
        -(WEIGHT_N - lost_n) / DRONE.mass_kg, rel=1e-3
    ), "at once"
    (ixx, _, _), (_, iyy, _), (_, _, izz) = DRONE.inertia_kgm2
    sizes = lost_n * ARM_M / ixx, lost_n * ARM_M / iyy, lost_n * TWIST_M / izz
    assert change(samples[-10], samples[-1]) == pytest.approx(
        [sign * size for sign, size in zip(SIGNS[rotor], sizes, strict=True)], rel=0.02
    )


def test_a_mended_rotor_pushes_again() -> None:
    with recorded("px4", {}) as (simulation, peer):
        settle(simulation)
        simulation.order(DisturbOrder(0, VehicleDisturbance(lost_shares=(1.0, 0.0, 0.0, 0.0))))
        advance(simulation, 5)
        simulation.order(DisturbOrder(0, VehicleDisturbance(lost_shares=(0.0,) * 4)))
        advance(simulation, 2)
        forces = [sample.zacc_mps2 for sample in peer.of(HilSensor)]
    assert forces[-7] == pytest.approx(-0.75 * DRONE.gravity_mps2, rel=1e-3)
    assert forces[-1] == pytest.approx(-DRONE.gravity_mps2, rel=1e-3)


@pytest.mark.parametrize(
    ("wind_mps", "axis", "sign"),
    [((5.0, 0.0, 0.0), 0, 1), ((0.0, 5.0, 0.0), 1, -1), ((0.0, 0.0, 5.0), 2, -1)],
)
def test_wind_pushes_the_accelerometer_by_the_drag(
    wind_mps: tuple[float, float, float], axis: int, sign: int
) -> None:
    """Ahead is east: wind to the east pushes ahead, to the north to the left, upwards up."""
    with recorded("ardupilot", {}) as (simulation, peer):
        settle(simulation)
        simulation.order(DisturbOrder(0, VehicleDisturbance(wind_world_mps=wind_mps)))
        advance(simulation, 1)
        before, after = (peer.sent[-k]["imu"]["accel_body"] for k in (2, 1))
    push_mps2 = DRONE.drag_ns2pm2 * 5.0**2 / DRONE.mass_kg
    differences = [b - a for a, b in zip(before, after, strict=True)]
    assert differences[axis] == pytest.approx(sign * push_mps2, rel=0.01)
    assert [d for i, d in enumerate(differences) if i != axis] == pytest.approx(
        [0.0, 0.0], abs=1e-3
    )
