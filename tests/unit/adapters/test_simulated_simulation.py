"""Flocks of simulated vehicles: steps, orders, pilots, contacts; no clock and no threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_moves import VehicleDisturbance
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import (
    ArmCommand,
    ContactReport,
    DisturbOrder,
    FlyCommand,
    PlaceOrder,
    Reset,
    StatusUpdate,
    VehicleBatch,
    decode_order,
    decode_report,
    encode,
)
from vil_simulation.source.simulation import Simulation
from vil_simulation.source.vehicle_sensors import is_due, next_due
from vil_simulation.vehicles.airsim.airframes import FRAMES
from vil_simulation.vehicles.flightmare.parameters import PRESETS

SECOND = 960


def simulation(source: dict[str, Any] | None = None, **vehicle: Any) -> Simulation:
    entry = {"model": "flightgoggles", **vehicle}
    config = {"type": "simulated", "vehicles": {"drone": entry}, **(source or {})}
    return Simulation(SimulatedConfig.model_validate(config))


def body(of: Simulation, vehicle: int = 0) -> FloatArray:
    states: FloatArray = of.batch().states()
    return np.asarray(states[vehicle])


def note(of: Simulation, vehicle: int = 0) -> StatusUpdate:
    group = next(g for g in of.groups if vehicle in g.members)
    return group.notes()[group.row_of(vehicle)]


def test_poses_come_at_their_rate_with_the_exact_times_of_their_steps() -> None:
    made = simulation()
    batches = made.advance(SECOND)
    assert len(batches) == 200
    assert batches[-1].steps == made.steps == SECOND
    assert batches[-1].t_ns == 1_000_000_000
    assert [b.t_ns for b in batches] == [round(b.steps * 1e9 / 960) for b in batches]
    assert set(np.diff([b.steps for b in batches])) == {4, 5}
    assert (made.step_at(999_999_999), made.step_at(10**9), made.step_at(-5)) == (959, 960, 0)


@pytest.mark.parametrize("model", ["flightgoggles", "flightmare", "airsim"])
def test_a_flight_depends_on_its_orders_and_not_on_how_many_steps_are_made_at_once(
    model: str,
) -> None:
    wind = {"mean_mps": [1.0, 0.0, 0.0], "gusts_mps": 5.0}
    ends = []
    for chunk in (1, 37, 10_000):
        made = simulation(
            {"seed": 3},
            model=model,
            count=3,
            wind=wind,
            autopilot={"kind": "circle"},
            command_delay_ms=20,
        )
        made.order(FlyCommand(1, "velocity", _velocity(model, 1.0), t_ns=100_000_000))
        made.order(ContactReport(2, 0, ((3.5, 0.0, 1.0),), ((-1.0, 0.0, 0.0),), has_surfaces=True))
        while made.steps < 700:
            made.advance(min(700, made.steps + chunk))
        ends.append(made.batch().states().copy())
    assert np.array_equal(ends[0], ends[1])
    assert np.array_equal(ends[0], ends[2])
    assert np.ptp(ends[0][:, 0]) > 0.1


def _velocity(model: str, speed: float) -> tuple[float, ...]:
    return (speed, 0.0, 0.0, 0.0, 0.0, 0.0) if model == "airsim" else (speed, 0.0, 0.0, 0.0)


def test_clones_fly_as_one_fleet_on_a_grid_and_other_models_beside_them() -> None:
    entries = {
        "swarm": {"model": "flightgoggles", "count": 5, "spacing_m": 3.0, "p_m": [1.0, 2.0, 4.0]},
        "same": {"model": "flightgoggles", "autopilot": {"kind": "circle"}},
        "other": {"model": "flightmare"},
    }
    made = simulation({"vehicles": entries})
    assert made.subjects == ("swarm_1", "swarm_2", "swarm_3", "swarm_4", "swarm_5", "same", "other")
    assert sorted(len(group.members) for group in made.groups) == [1, 6]
    starts = made.batch().states()[:5, :3].tolist()
    assert starts == [[1, 2, 4], [4, 2, 4], [7, 2, 4], [1, 5, 4], [4, 5, 4]]


@pytest.mark.parametrize("model", ["flightgoggles", "flightmare", "airsim"])
def test_without_a_pilot_it_hovers_and_a_path_is_followed(model: str) -> None:
    still = simulation(model=model)
    still.advance(2 * SECOND)
    assert np.linalg.norm(body(still)[:3] - (0.0, 0.0, 1.0)) < 0.02
    circling = simulation(
        model=model,
        autopilot={"kind": "circle", "radius_m": 2.0, "speed_mps": 1.0},
        p_m=[2.0, 0.0, 1.0],
    )
    circling.advance(6 * SECOND)
    there = [b.states()[0, :3] for b in circling.advance(10 * SECOND)]
    assert np.abs(np.linalg.norm(np.array(there)[:, :2], axis=1) - 2.0).max() < 0.05
    assert np.linalg.norm(body(circling)[3:6]) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("compat", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("model", "preset"), [*(("airsim", f) for f in FRAMES), *(("flightmare", p) for p in PRESETS)]
)
def test_every_shipped_vehicle_holds_its_position(model: str, preset: str, compat: bool) -> None:
    made = simulation(model=model, preset=preset, compat=compat, p_m=[0.0, 0.0, 2.0])
    made.advance(2 * SECOND)
    away = [np.linalg.norm(b.states()[0, :3] - (0.0, 0.0, 2.0)) for b in made.advance(4 * SECOND)]
    assert len(away) > 300
    assert max(away) < 0.02


@pytest.mark.parametrize("kind", ["lemniscate", "waypoints"])
def test_other_paths_are_flown_again_and_again(kind: str) -> None:
    points = {"points_m": [[2.0, 0.0, 0.5], [2.0, 2.0, 0.0]]} if kind == "waypoints" else {}
    made = simulation(autopilot={"kind": kind, "speed_mps": 2.0, **points})
    x = np.array([b.states()[0, :3] for b in made.advance(20 * SECOND)])
    away = np.linalg.norm(x - (0.0, 0.0, 1.0), axis=1)
    crossings = np.flatnonzero((away[1:] < 0.1) & (away[:-1] >= 0.1))
    assert away.max() > 1.5
    assert len(crossings) >= 2


# --- pilots ---------------------------------------------------------------------------------------


def test_a_command_switches_the_mode_and_a_silent_pilot_is_taken_over() -> None:
    made = simulation(command_timeout_ms=300)
    made.advance(100)
    assert note(made) == StatusUpdate("rates", "autopilot", True, 0, 0, 0)
    made.order(FlyCommand(0, "velocity", (1.0, 0.0, 0.0, 0.0)))
    made.advance(made.steps + 250)
    assert (note(made).mode, note(made).pilot) == ("velocity", "command")
    made.advance(made.steps + 60)
    assert note(made).pilot == "timeout"
    made.advance(made.steps + 3 * SECOND)
    assert np.linalg.norm(body(made)[3:6]) < 0.1
    made.order(FlyCommand(0, "motor_speeds", (1200.0,) * 4))
    made.advance(made.steps + 100)
    assert (note(made).mode, note(made).pilot, note(made).commands) == (
        "motor_speeds",
        "command",
        2,
    )
    assert body(made)[5] > 0.05


def test_a_velocity_is_reached_and_a_place_is_kept_without_repeating_it() -> None:
    made = simulation(command_timeout_ms=60_000)
    made.order(FlyCommand(0, "velocity", (0.0, 1.5, 0.0, 0.5)))
    made.advance(4 * SECOND)
    assert np.abs(body(made)[3:6] - (0.0, 1.5, 0.0)).max() < 0.05
    assert body(made)[12] == pytest.approx(0.5, abs=0.02)
    made = simulation(command_timeout_ms=100)
    made.order(FlyCommand(0, "position", (1.0, -2.0, 3.0, 1.0)))
    made.advance(8 * SECOND)
    assert note(made).pilot == "command"
    assert np.abs(body(made)[:3] - (1.0, -2.0, 3.0)).max() < 0.02


def test_what_follows_silence_is_configured() -> None:
    for wish, pilot in (("neutral", "timeout"), ("hold", "command")):
        made = simulation(on_timeout=wish, command_timeout_ms=100, p_m=[0.0, 0.0, 50.0])
        made.order(FlyCommand(0, "rates", (9.81, 0.0, 0.0, 0.0)))
        made.advance(SECOND)
        assert note(made).pilot == pilot
        assert (body(made)[5] < -5.0) == (wish == "neutral")


def test_a_disarmed_vehicle_falls_ignores_commands_and_flies_again_once_armed() -> None:
    made = simulation(p_m=[0.0, 0.0, 0.5])
    made.advance(100)
    made.order(ArmCommand(0, armed=False))
    made.order(FlyCommand(0, "velocity", (1.0, 0.0, 0.0, 0.0)))
    made.advance(2 * SECOND)
    assert body(made)[2] == pytest.approx(0.0, abs=1e-3)
    assert np.abs(body(made)[3:6]).max() < 0.02
    assert (note(made).armed, note(made).commands) == (False, 0)
    made.order(ArmCommand(0, armed=True))
    made.advance(made.steps + 3 * SECOND)
    assert body(made)[2] == pytest.approx(0.5, abs=0.02)
    made.order(FlyCommand(0, "position", (3.0, 0.0, 1.0, 0.0)))
    made.advance(made.steps + 2 * SECOND)
    made.order(Reset(0))
    made.advance(made.steps + 1)
    assert np.abs(body(made)[:3] - (0.0, 0.0, 0.5)).max() < 1e-3
    assert note(made).pilot == "autopilot"


def test_the_newest_command_wins_and_the_overtaken_one_is_counted() -> None:
    made = simulation()
    made.advance(10)
    for vx in (5.0, 1.0):
        made.order(FlyCommand(0, "velocity", (vx, 0.0, 0.0, 0.0)))
    made.advance(400)
    assert (note(made).commands, note(made).superseded) == (2, 1)
    assert body(made)[3] < 1.5


def test_a_command_may_be_for_later_and_too_many_are_refused() -> None:
    made = simulation(command_timeout_ms=60_000)
    assert made.order(FlyCommand(0, "velocity", (1.0, 0.0, 0.0, 0.0), t_ns=500_000_000))
    made.advance(480)
    assert note(made).commands == 0
    made.advance(481)
    assert note(made).commands == 1
    taken = sum(
        made.order(FlyCommand(0, "velocity", (1.0, 0.0, 0.0, 0.0), t_ns=10**12))
        for _ in range(10_001)
    )
    assert taken == 10_000


# --- contacts -------------------------------------------------------------------------------------

WALL = ContactReport(0, 0, ((2.0, 0.0, 1.0),), ((-1.0, 0.0, 0.0),), hit=True, has_surfaces=True)


def test_a_surface_that_the_renderer_tells_is_never_passed() -> None:
    made = simulation(command_timeout_ms=60_000, contact={"reach_m": 3.0, "radius_m": 0.2})
    furthest = 0.0
    for k in range(40):
        made.order(
            ContactReport(0, made.t_of(made.steps), WALL.points_m, WALL.normals, has_surfaces=True)
        )
        made.order(FlyCommand(0, "velocity", (4.0, 0.0, 0.0, 0.0)))
        made.advance(made.steps + 96)
        furthest = max(furthest, body(made)[0])
        assert k < 15 or note(made).collisions > 0
    assert 1.7 < furthest <= 1.8 + 1e-9
    made.order(ContactReport(0, made.t_of(made.steps), has_surfaces=True))
    made.order(FlyCommand(0, "velocity", (4.0, 0.0, 0.0, 0.0)))
    made.advance(made.steps + SECOND)
    assert body(made)[0] > 2.5, "what is no longer told is no longer there"


def test_a_bare_hit_resets_and_disarms_unless_it_is_of_before_the_reset() -> None:
    for response in ("bounce", "reset"):
        made = simulation(contact={"response": response}, autopilot={"kind": "circle"})
        made.advance(2 * SECOND)
        made.order(
            ContactReport(0, made.t_of(made.steps), hit=True, has_surfaces=response == "reset")
        )
        assert (note(made).armed, note(made).collisions, note(made).pilot) == (
            False,
            1,
            "autopilot",
        )
        assert body(made)[:3].tolist() == [0.0, 0.0, 1.0]
        made.order(ContactReport(0, made.t_of(made.steps - 50), hit=True))
        assert note(made).collisions == 1
    ignoring = simulation(contact={"response": "none"})
    ignoring.order(ContactReport(0, 10, hit=True))
    assert (note(ignoring).armed, note(ignoring).collisions) == (True, 0)


def test_the_floor_stops_what_falls_and_may_be_absent() -> None:
    made = simulation(armed=False, p_m=[0.0, 0.0, 2.0])
    made.advance(SECOND)
    assert (body(made)[2], note(made).collisions) == (pytest.approx(0.0, abs=1e-3), 1)
    deep = simulation(armed=False, contact={"floor_m": None})
    deep.advance(SECOND)
    assert body(deep)[2] < -2.0


# --- sensors and wire -----------------------------------------------------------------------------


def test_a_fall_onto_the_floor_does_not_depend_on_how_many_steps_are_made_at_once() -> None:
    ends = []
    for chunk in (1, SECOND):
        made = simulation({"rate_hz": 1.0}, p_m=[0.0, 0.0, 1.5], armed=False)
        made.order(
            PlaceOrder(0, (0.0, 0.0, 1.5), (0.6, 0.0, 0.0, 0.8), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
        )
        while made.steps < 2 * SECOND:
            made.advance(made.steps + chunk)
        ends.append((body(made).tolist(), note(made).collisions))
    assert ends[0] == ends[1]
    assert ends[0][1] == 1, "it fell on its side"


def test_a_vehicle_near_the_floor_takes_single_steps_and_one_far_from_it_many() -> None:
    at_floor, high = simulation(p_m=[0.0, 0.0, 0.0], armed=False), simulation(p_m=[0.0, 0.0, 5.0])
    (low_group,), (high_group,) = at_floor.groups, high.groups
    assert low_group.clear_steps() == 1
    steps = high_group.clear_steps()
    assert steps == math.floor(math.sqrt(2.0 * 5.0 / 200.0) * SECOND), (
        "it falls no harder than 200 m/s^2"
    )
    assert simulation(contact={"floor_m": None}).groups[0].clear_steps() is None


@pytest.mark.parametrize("share", [(1, 1), (1, 5), (5, 24), (3, 2), (192, 960)])
def test_the_next_step_of_a_rate_is_the_first_one_that_is_due(share: tuple[int, int]) -> None:
    for step in range(40):
        assert next_due(step, share) == next(s for s in range(step + 1, 80) if is_due(s, share))


def test_inertial_samples_come_at_their_rate_and_feel_gravity() -> None:
    made = simulation(imu={"rate_hz": 480})
    samples = [s for b in made.advance(SECOND) for s in b.sensors]
    assert len(samples) == 480
    assert np.diff([s.t_ns for s in samples]).tolist().count(2_083_333) > 100
    felt = np.concatenate([s.rows(1)[:, 4:] for s in samples])
    assert np.abs(felt[:, 3:] - (0.0, 0.0, 9.81)).max() < 0.05
    noisy = simulation({"seed": 1}, imu={"preset": "bmi088", "rate_hz": 480})
    felt = np.concatenate([s.rows(1)[:, 4:] for b in noisy.advance(SECOND) for s in b.sensors])
    assert 0.001 < felt[:, :3].std(axis=0).max() < 0.05


def test_orders_and_batches_survive_the_pipe() -> None:
    made = simulation(count=2, imu={})
    for batch in made.advance(20):
        assert decode_report(encode(batch)) == batch
    broken = DisturbOrder(0, VehicleDisturbance(lost_shares=(0.5, 0.0)))
    for order in (WALL, broken):
        assert decode_order(encode(order)) == order
    for decode in (decode_order, decode_report):
        with pytest.raises(ProtocolError):
            decode(b"\xc1garbage")
    assert VehicleBatch(0, 0, b"").states().shape == (0, 13)


@pytest.mark.parametrize("model", ["flightgoggles", "flightmare", "airsim"])
def test_inertial_sensors_feel_the_floor_and_how_hard_it_was_hit(model: str) -> None:
    """Dropped from 5 cm: what was felt in all is the floor's push, gravity over the whole time."""
    made = simulation(
        model=model,
        p_m=(0.0, 0.0, 0.05),
        armed=False,
        imu={"rate_hz": 960},
        contact={"floor_m": 0.0},
    )
    f_z = np.concatenate([s.rows(1)[:, 9] for batch in made.advance(960) for s in batch.sensors])
    resting = f_z[-1]
    assert resting == pytest.approx(9.81, abs=0.01)
    assert 70.0 < f_z.max() < 130.0, "1 m/s within 10 ms"
    assert f_z.sum() / 960 == pytest.approx(resting, rel=0.02)


# --- wind and forces set at run time --------------------------------------------------------------


def test_wind_set_at_run_time_takes_the_place_of_the_configured_one() -> None:
    windy: dict[str, Any] = {
        "autopilot": {"kind": "none"},
        "armed": False,
        "contact": {"floor_m": None},
    }
    ends = []
    for mean, late in (
        ((4.0, 0.0, 0.0), None),
        ((0.0, 0.0, 0.0), (4.0, 0.0, 0.0)),
        ((0.0, -9.0, 0.0), (4.0, 0.0, 0.0)),
    ):
        made = simulation(wind={"mean_mps": mean}, **windy)
        if late is not None:
            made.order(DisturbOrder(0, VehicleDisturbance(wind_world_mps=late)))
        made.advance(SECOND)
        ends.append(body(made).copy())
    assert ends[0][0] > 0.05
    assert np.array_equal(ends[0], ends[1])
    assert np.array_equal(ends[0], ends[2])


def test_a_force_acts_on_its_own_vehicle_until_it_is_taken_away() -> None:
    made = simulation(count=2, armed=False, autopilot={"kind": "none"}, contact={"floor_m": None})
    made.order(DisturbOrder(1, VehicleDisturbance(force_world_n=(0.0, 2.0, 0.0))))
    made.advance(SECOND // 10)
    pushed = body(made, 1)[4]
    assert pushed == pytest.approx(0.2, rel=0.05)  # 1 kg, with a little drag
    assert body(made, 0)[4] == 0.0
    made.order(DisturbOrder(1, VehicleDisturbance(force_world_n=(0.0, 0.0, 0.0))))
    made.advance(SECOND // 5)
    assert 0.8 * pushed < body(made, 1)[4] < pushed
