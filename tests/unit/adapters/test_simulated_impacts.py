"""Floors, walls and other vehicles as inertial sensors feel them.

The change of velocity, over some milliseconds.
"""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.autopilot_recorders import advance, recorded
from tests.support.felt_motion import TruePoses, assert_felt
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.mavlink.hil_messages import HilSensor
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.impacts import Impacts
from vil_simulation.source.ipc import PlaceOrder
from vil_simulation.source.simulation import Simulation
from vil_simulation.vehicles.sensors.presets import IMU_PRESETS

STILL = (0.0, 0.0, 0.0)
LEVEL = (0.0, 0.0, 0.0, 1.0)
G_MPS2 = {"flightgoggles": 9.81, "airsim": 9.80665}
WALL = """
scene: wall
objects:
  - {name: wall, box: {size_m: [0.2, 8.0, 60.0]}, p_m: [2.0, 0.0, 0.0]}
"""


def fallen(
    imus: dict[str, float],
    model: str = "flightgoggles",
    step_hz: int = 1000,
    seconds: float = 1.2,
    **keys: Any,
) -> tuple[Simulation, TruePoses, dict[str, tuple[list[int], list[FloatArray]]]]:
    """Return a simulation after a fall, the true poses of its first vehicle, and the samples of its
    sensors.

    A sample comes with the end of its period; it is stamped at the middle.
    ``orders``: places of the vehicles at the start, and their motions; the rest are keys of the
    vehicle.
    """
    orders = keys.pop("orders")
    source = keys.pop("source", {})
    fitted = {name: {"type": "imu", "rate_hz": rate_hz} for name, rate_hz in imus.items()}
    entry = {
        "model": model,
        "armed": False,
        "autopilot": {"kind": "none"},
        "sensors": fitted,
        **keys,
    }
    tree = {
        "type": "simulated",
        "step_hz": step_hz,
        "rate_hz": step_hz,
        "control_hz": 10,
        "vehicles": {"quad": entry},
    }
    made = Simulation(SimulatedConfig.model_validate(tree | source))
    for order in orders:
        made.order(order)
    poses = TruePoses(0, made.batch().states()[0])
    samples: dict[str, tuple[list[int], list[FloatArray]]] = {name: ([], []) for name in imus}
    for _ in range(round(seconds * step_hz)):
        for batch in made.advance(made.steps + 1):
            poses.add(batch.t_ns, batch.states()[0])
            for values in batch.sensors:
                if not imus:
                    continue
                name = list(imus)[values.sensor]
                times_ns, forces = samples[name]
                times_ns.append(values.t_ns + round(0.5e9 / imus[name]))
                forces.append(values.rows(len(made.groups[0].members))[0, 7:10].copy())
    return made, poses, samples


RATES = {f"imu_{rate}": float(rate) for rate in (20, 50, 100, 150, 200, 333, 400)}
"""Some divide the steps, others do not; some are slower than an impact takes."""


@pytest.mark.parametrize("q_xyzw", [LEVEL, (0.08, 0.0, 0.0, 0.9968)], ids=["level", "aslant"])
@pytest.mark.parametrize(
    ("model", "step_hz"), [("flightgoggles", 1000), ("airsim", 1000), ("flightgoggles", 960)]
)
def test_a_drop_to_the_floor_is_felt_at_every_rate(
    model: str, step_hz: int, q_xyzw: tuple[float, float, float, float]
) -> None:
    dropped = PlaceOrder(0, (0.0, 0.0, 2.3), q_xyzw, STILL, STILL)
    contact = {"floor_m": 0.0, "radius_m": 0.15}
    _, poses, samples = fallen(
        RATES | {"each": float(step_hz)}, model, step_hz, orders=[dropped], contact=contact
    )
    assert np.array(poses.states)[:, 5].min() < -6.0, "it fell"
    for times_ns, forces in samples.values():
        assert_felt(poses, times_ns, forces, G_MPS2[model])
        assert forces[-1] == pytest.approx((0.0, 0.0, G_MPS2[model]), abs=1e-6), "at rest"


def test_airsims_inertial_sensor_feels_the_floor_between_its_steps() -> None:
    dropped = PlaceOrder(0, (0.0, 0.0, 2.3), LEVEL, STILL, STILL)
    _, poses, samples = fallen(
        {"imu": 200.0}, "airsim", 320, orders=[dropped], contact={"floor_m": 0.0}
    )
    times_ns, forces = samples["imu"]
    assert times_ns == [5_000_000 * k for k in range(1, len(times_ns) + 1)], "of their instants"
    assert_felt(poses, times_ns, forces, G_MPS2["airsim"])


def test_an_impact_takes_five_to_twenty_milliseconds() -> None:
    dropped = PlaceOrder(0, (0.0, 0.0, 2.3), LEVEL, STILL, STILL)
    _, _, samples = fallen({"imu": 1000.0}, orders=[dropped], contact={"floor_m": 0.0})
    hard = np.flatnonzero(np.array(samples["imu"][1])[:, 2] > 50.0)
    assert hard[-1] - hard[0] + 1 == len(hard), "one after the other"
    assert 5 <= len(hard) <= 20


def test_a_wall_is_felt_at_every_rate(tmp_path: Path) -> None:
    path = tmp_path / "wall.yaml"
    path.write_text(WALL)
    thrown = PlaceOrder(0, (0.0, 0.0, 20.0), LEVEL, (6.0, 1.0, 0.0), (0.5, 0.0, 2.0))
    source = {"contact": {"scene": str(path)}}
    contact = {"floor_m": None, "radius_m": 0.2, "restitution": 0.5}
    _, poses, samples = fallen(RATES, seconds=0.9, orders=[thrown], contact=contact, source=source)
    assert poses.states[-1][3] < -2.0, "it bounced"
    for times_ns, forces in samples.values():
        assert_felt(poses, times_ns, forces, 9.81)


def test_two_vehicles_that_meet_feel_each_other_at_every_rate() -> None:
    meeting = [
        PlaceOrder(0, (0.0, 0.0, 50.0), LEVEL, (4.0, 0.0, 0.0), STILL),
        PlaceOrder(1, (2.0, 0.1, 50.0), LEVEL, (-4.0, 0.0, 0.0), STILL),
    ]
    contact = {"floor_m": None, "radius_m": 0.2, "restitution": 0.5}
    _, poses, samples = fallen(
        RATES, seconds=0.6, orders=meeting, contact=contact, count=2, spacing_m=5.0
    )
    assert poses.states[-1][3] < 0.0, "it bounced"
    for times_ns, forces in samples.values():
        assert_felt(poses, times_ns, forces, 9.81)


def test_a_vehicle_that_is_put_elsewhere_does_not_feel_it() -> None:
    thrown = PlaceOrder(0, (0.0, 0.0, 90.0), (0.6, 0.0, 0.0, 0.8), (9.0, 0.0, 3.0), STILL)
    made, _, _ = fallen({"imu": 100.0}, seconds=0.004, orders=[], contact={"floor_m": None})
    made.order(thrown)
    (first,) = [values for batch in made.advance(12) for values in batch.sensors]
    assert np.abs(first.rows(1)[0, 4:]).max() < 10.0


@pytest.mark.wire
@pytest.mark.parametrize("rate_hz", [250, 1000])
@pytest.mark.parametrize("kind", ["px4", "ardupilot"])
def test_an_autopilot_feels_the_floor(kind: str, rate_hz: int) -> None:
    with recorded(kind, {"rate_hz": rate_hz}, {"rate_hz": 1000}) as (made, peer):
        peer.motors = [0.0] * 4
        made.order(PlaceOrder(0, (0.0, 0.0, 2.0), (0.08, 0.0, 0.0, 0.9968), STILL, STILL))
        poses = TruePoses(0, made.batch().states()[0])
        for _ in range(1000):
            advance(made, 1)
            batch = made.batch()
            poses.add(batch.t_ns, batch.states()[0])
        sent = peer.of(HilSensor) if kind == "px4" else list(peer.sent)
    if kind == "px4":
        found = [(1000 * s.time_usec, (s.xacc_mps2, -s.yacc_mps2, -s.zacc_mps2)) for s in sent]
    else:
        found = [
            (round(1e9 * s["timestamp"]), np.array(s["imu"]["accel_body"]) * (1.0, -1.0, -1.0))  # type: ignore[misc]
            for s in sent
        ]
    times_ns = [t_ns for t_ns, _ in found]
    assert np.array(poses.states)[:, 5].min() < -5.0, "it fell"
    assert_felt(poses, times_ns, [np.array(force) for _, force in found], 9.81)
    assert max(force[2] for _, force in found) > 24.0 * 9.81, "no range cuts it off"


def test_a_sensor_beyond_its_range_is_counted() -> None:
    dropped = PlaceOrder(0, (0.0, 0.0, 2.3), LEVEL, STILL, STILL)
    fitted = {"real": {"type": "imu", "preset": "bmi088", "rate_hz": 1000}}
    made, _, samples = fallen({}, orders=[dropped], contact={"floor_m": 0.0}, sensors=fitted)
    assert not samples
    (note,) = made.groups[0].notes()
    assert 8 <= note.clipped <= 12, "while the impact lasts"
    limit = IMU_PRESETS["bmi088"].accel.limit
    assert limit == pytest.approx(24.0 * 9.80665) and IMU_PRESETS[
        "bmi088"
    ].gyro.limit == math.radians(2000.0)


def test_impacts_that_no_sensor_asks_for_take_no_memory() -> None:
    impacts = Impacts(4, 1e-3)
    change = np.ones((4, 6))
    for step in range(100):
        impacts.add(change, step)
    tracemalloc.start()
    try:
        for step in range(100, 2100):
            impacts.add(change, step)
        assert tracemalloc.get_traced_memory()[0] < 20_000
    finally:
        tracemalloc.stop()
