"""Simulated vehicles that fly into one another, and into bodies that others move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import MovingBody
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import BodiesUpdate, CollisionReport, FlyCommand, PlaceOrder
from vil_simulation.source.simulation import Simulation

STILL = (0.0, 0.0, 0.0)
LEVEL = (0.0, 0.0, 0.0, 1.0)
RATES = [10, 30, 100, 960]


def simulation(step_hz: int = 960, **entries: dict[str, Any]) -> Simulation:
    contact = {"radius_m": 0.2, "restitution": 0.5, "friction": 0.0, "floor_m": None}
    vehicles = {
        name: {
            "model": "flightgoggles",
            "armed": False,
            **entry,
            "contact": contact | entry.get("contact", {}),
        }
        for name, entry in entries.items()
    }
    tree = {
        "type": "simulated",
        "vehicles": vehicles,
        "step_hz": step_hz,
        "control_hz": 10,
        "rate_hz": step_hz,
    }
    return Simulation(SimulatedConfig.model_validate(tree))


def throw(
    made: Simulation,
    vehicle: int,
    p_m: tuple[float, float, float],
    v_mps: tuple[float, float, float],
) -> None:
    made.order(PlaceOrder(vehicle, p_m, LEVEL, v_mps, STILL, False))


def flown(made: Simulation, steps: int) -> list[CollisionReport]:
    return [report for batch in made.advance(made.steps + steps) for report in batch.collisions]


def bodies(made: Simulation) -> FloatArray:
    states: FloatArray = made.batch().states()
    return states


@pytest.mark.parametrize("step_hz", RATES)
@pytest.mark.parametrize("other", ["flightgoggles", "airsim"])
def test_two_vehicles_bounce_with_the_momentum_that_they_had(step_hz: int, other: str) -> None:
    """Head on at 20 m/s: in the frame of the centre of mass each leaves with half of its speed."""
    made = simulation(step_hz, a={"p_m": (0, 0, 50)}, b={"model": other, "p_m": (5, 0, 50)})
    throw(made, 0, (0.0, 0.0, 50.0), (10.0, 0.0, 0.0))
    throw(made, 1, (5.0, 0.0, 50.0), (-10.0, 0.0, 0.0))
    while not (hits := flown(made, 1)):
        pass
    after = bodies(made)
    pushes = [
        group.contacts.body.mass_kg * group.struck[:, :3].sum(axis=0) for group in made.groups
    ]
    assert np.abs(pushes).max() > 1.0 or len(pushes) == 1
    np.testing.assert_allclose(sum(pushes), 0.0, atol=1e-9)
    first, second = sorted(hits, key=lambda report: report.vehicle)
    assert (first.collision.other, second.collision.other) == ("b", "a")
    normal = np.array(first.collision.normal_world)
    assert second.collision.normal_world == pytest.approx(-normal)
    assert normal[0] < -0.85  # they fall at different speeds
    struck = np.concatenate([group.struck[:, :3] for group in made.groups])
    leaves = float((after[0, 3:6] - after[1, 3:6]) @ normal)
    came = leaves - float((struck[0] - struck[1]) @ normal)
    assert leaves == pytest.approx(-0.5 * came)
    assert came < -15.0
    assert float((after[0, :3] - after[1, :3]) @ normal) == pytest.approx(0.4, abs=1e-9)
    assert 0.0 <= first.collision.depth_m == second.collision.depth_m <= 20.0 / step_hz
    assert after[0, 0] <= first.collision.point_world_m[0] <= after[1, 0]
    flown(made, max(1, step_hz // 5))
    assert bodies(made)[1, 0] - bodies(made)[0, 0] > 0.4


def test_vehicles_of_one_group_conserve_momentum_and_spin_to_the_last_digits() -> None:
    """Off centre, with friction, in weightless quiet.

    Two steps before and after, forces of nothing but contact.
    """
    made = simulation(
        960, drone={"model": "airsim", "count": 2, "spacing_m": 5.0, "contact": {"friction": 0.5}}
    )
    (group,) = made.groups
    throw(made, 0, (0.0, 0.0, 50.0), (1.0, 0.2, 0.0))
    throw(made, 1, (0.45, 0.2, 50.0), (-1.0, 0.0, 0.0))
    mass_kg, inertia = group.contacts.body.mass_kg, group.contacts.body.inertia_kgm2
    while not flown(made, 1):
        pass
    change = group.struck
    assert np.abs(change[:, :3]).max() > 0.1
    assert np.abs(change[:, 3:]).max() > 0.1
    np.testing.assert_allclose(mass_kg * change[:, :3].sum(axis=0), 0.0, atol=1e-12)
    x = bodies(made)
    middle = x[:, 0:3].mean(axis=0)
    spin = np.cross(x[:, 0:3] - middle, mass_kg * change[:, :3]).sum(axis=0) + (
        inertia * change[:, 3:]
    ).sum(axis=0)
    # The step goes on for a moment after the contact: their places then are not quite those at
    # which they met.
    np.testing.assert_allclose(spin, 0.0, atol=2e-3 * mass_kg)


def test_vehicles_that_pass_or_leave_or_do_not_collide_are_left_alone() -> None:
    for contact, y_m in (({}, 0.41), ({"response": "none"}, 0.0)):
        made = simulation(100, a={"p_m": (0, 0, 50), "contact": contact}, b={"p_m": (5, 0, 50)})
        throw(made, 0, (0.0, 0.0, 50.0), (10.0, 0.0, 0.0))
        throw(made, 1, (5.0, y_m, 50.0), (-10.0, 0.0, 0.0))
        assert flown(made, 60) == []
        assert bodies(made)[0, 0] > bodies(made)[1, 0] + 1.0
    # They begin inside each other.
    made = simulation(100, a={"p_m": (0, 0, 50)}, b={"p_m": (0.1, 0, 50)})
    assert flown(made, 50) == []


def test_a_vehicle_that_is_placed_beyond_another_has_not_flown_through_it() -> None:
    made = simulation(100, a={"p_m": (0, 0, 50)}, b={"p_m": (5, 0, 50)})
    flown(made, 3)
    throw(made, 0, (10.0, 0.0, bodies(made)[1, 2]), STILL)
    assert flown(made, 20) == []


def test_contacts_reset_a_vehicle_where_they_do() -> None:
    made = simulation(
        100, a={"p_m": (0, 0, 50), "contact": {"response": "reset"}}, b={"p_m": (5, 0, 50)}
    )
    throw(made, 0, (0.0, 0.0, 50.0), (10.0, 0.0, 0.0))
    while not flown(made, 1):
        pass
    flown(made, 1)
    assert bodies(made)[0, 0] == pytest.approx(0.0, abs=1e-9)


def test_a_car_pushes_a_drone_aside_and_hardly_feels_it() -> None:
    car = {"radius_m": 0.85, "length_m": 2.6, "height_m": 0.9, "floor_m": 0.0}
    made = simulation(
        160,
        car={
            "model": "bicycle",
            "p_m": (0, 0, 0),
            "armed": True,
            "on_timeout": "hold",
            "contact": car,
        },
        drone={"model": "airsim", "p_m": (5, 0, 0.9), "contact": {"floor_m": 0.9}},
    )
    throw(made, 0, STILL, (10.0, 0.0, 0.0))
    made.order(FlyCommand(0, "speed", (10.0, 0.0)))
    while "car" not in {report.collision.other for report in flown(made, 1)}:
        assert made.steps < 160
    states = bodies(made)
    assert states[0, 3] > 9.9
    assert states[1, 3] > 12.0


@pytest.mark.parametrize("step_hz", RATES)
def test_a_body_that_others_move_throws_a_vehicle_back(step_hz: int) -> None:
    """A ball that is seen ten times a second at 8 m/s; the vehicle at rest leaves with 12 m/s."""
    made = simulation(step_hz, a={"model": "kinematic", "p_m": (0, 0, 50)})
    hits: list[CollisionReport] = []
    while not hits:
        t_ns = made.t_of(made.steps)
        if made.steps % max(1, step_hz // 10) == 0:
            ball = (-4.0 + 8.0 * t_ns / 1e9, 0.0, 50.0)
            made.order(BodiesUpdate((MovingBody("tracked", t_ns, 0.3, (ball,), (8.0, 0.0, 0.0)),)))
        hits = flown(made, 1)
        assert made.steps < step_hz
    (hit,) = hits
    assert (hit.vehicle, hit.collision.other) == (0, "tracked")
    assert bodies(made)[0, 3] == pytest.approx(12.0)
    assert hit.collision.normal_world == pytest.approx((1.0, 0.0, 0.0))


def test_a_body_that_is_seen_no_more_is_gone() -> None:
    made = simulation(100, a={"p_m": (0, 0, 50)})
    made.order(
        BodiesUpdate((MovingBody("tracked", 0, 0.3, ((-6.0, 0.0, 50.0),), (8.0, 0.0, 0.0)),))
    )
    assert flown(made, 100) == []
    assert bodies(made)[0, 3] == 0.0


def test_a_thousand_vehicles_are_asked_for_seldom() -> None:
    made = simulation(
        960, swarm={"count": 400, "model": "kinematic", "p_m": (0, 0, 5), "armed": True}
    )
    asked = 0

    between = made._between
    find = between._near

    def counted(spheres: Any) -> Any:
        nonlocal asked
        asked += 1
        return find(spheres)

    between._near = counted  # type: ignore[method-assign]
    flown(made, 480)
    assert asked <= 11
