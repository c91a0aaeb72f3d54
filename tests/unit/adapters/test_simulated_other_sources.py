"""Simulated vehicles of different sources that fly into one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.daemon.near_vehicles import bodies_near
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import BodiesUpdate, CollisionReport, FlyCommand, Order, PlaceOrder
from vil_simulation.source.simulation import Simulation

STILL = (0.0, 0.0, 0.0)
LEVEL = (0.0, 0.0, 0.0, 1.0)
PERIOD_NS = 10 * NS_PER_MS
ROOMS = {
    "one": Transform.identity(),
    "two": Transform.of((3.0, -2.0, 1.0), (0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5))),
}


class Source:
    """A source's simulation and its handler, without a clock.

    World frame, while its room is another one.
    """

    def __init__(self, name: str, step_hz: int, T_world_room: Transform, **entry: Any) -> None:
        contact = {
            "radius_m": 0.2,
            "restitution": 0.5,
            "friction": 0.0,
            "floor_m": None,
        } | entry.pop("contact", {})
        vehicle = {"model": "airsim", "armed": False, **entry, "contact": contact}
        tree = {
            "type": "simulated",
            "vehicles": {name: vehicle},
            "step_hz": step_hz,
            "control_hz": 10,
        }
        config = SimulatedConfig.model_validate(tree | {"rate_hz": min(step_hz, 200)})
        self.simulation = Simulation(config)
        self.updates = 0
        self.handler = CommandHandler(name, config, self._take)
        self.handler.begin(0)
        self.hits: list[CollisionReport] = []
        self._T = T_world_room

    @property
    def mass_kg(self) -> float:
        return self.simulation.groups[0].contacts.body.mass_kg

    def throw(self, p_m: tuple[float, float, float], v_mps: tuple[float, float, float]) -> None:
        """Put the first vehicle somewhere, with a velocity."""
        T = self._T.inverse()
        (px, py, pz), (vx, vy, vz) = (
            T.apply(np.array(p_m)).tolist(),
            (T.rotation() @ np.array(v_mps)).tolist(),
        )
        self.simulation.order(PlaceOrder(0, (px, py, pz), LEVEL, (vx, vy, vz), STILL, False))

    def advance(self, t_ns: int) -> None:
        """Make the steps up to an instant."""
        for batch in self.simulation.advance(self.simulation.step_at(t_ns)):
            self.handler.update(batch, batch.states())
            self.hits += batch.collisions

    def velocity(self) -> FloatArray:
        velocity: FloatArray = self._T.rotation() @ self.simulation.batch().states()[0, 3:6]
        return velocity

    def place(self) -> FloatArray:
        return self._T.apply(self.simulation.batch().states()[0, :3])

    def _take(self, order: Order) -> bool:
        assert isinstance(order, BodiesUpdate)
        self.updates += bool(order.bodies)
        return self.simulation.order(order)


def pair(first_hz: int = 960, second_hz: int = 960, **second: Any) -> tuple[Source, Source]:
    return Source("one", first_hz, ROOMS["one"]), Source("two", second_hz, ROOMS["two"], **second)


def fly(
    one: Source,
    two: Source,
    until_s: float,
    lag_ns: int = 0,
    rooms: Mapping[str, Transform] = ROOMS,
) -> None:
    """Let both fly and hear of each other every 10 ms; the second may be late by a constant."""
    start_ns = one.simulation.t_of(one.simulation.steps) // PERIOD_NS * PERIOD_NS
    for t_ns in range(start_ns, start_ns + round(until_s * NS_PER_S) + 1, PERIOD_NS):
        one.advance(t_ns)
        two.advance(max(t_ns - lag_ns, 0))
        found = {"one": one.handler.bodies(), "two": two.handler.bodies()}
        near = bodies_near(
            {name: bodies for name, bodies in found.items() if bodies is not None}, rooms
        )
        for source, name in ((one, "one"), (two, "two")):
            source.handler.set_bodies(near.get(name, []))


@pytest.mark.parametrize("rates", [(960, 960), (1000, 960), (250, 100), (100, 960)])
@pytest.mark.parametrize("mass", [1.0, 5.0])
@pytest.mark.parametrize("lag_ms", [0, 7, 60])
def test_both_bounce_once_with_the_momentum_that_they_had(
    rates: tuple[int, int], mass: float, lag_ms: int
) -> None:
    """Head on at 8 m/s, each step of each at its own time: the closing speed is halved."""
    one, two = pair(*rates, parameters={"mass_kg": mass})
    one.throw((-1.0, 0.0, 50.0), (4.0, 0.0, 0.0))
    two.throw((1.0, 0.0, 50.0), (-4.0, 0.0, 0.0))
    fly(one, two, 0.4, lag_ms * NS_PER_MS)
    assert [(hit.collision.other) for hit in one.hits] == ["two"]
    assert [(hit.collision.other) for hit in two.hits] == ["one"]
    assert abs(one.hits[0].collision.t_ns - two.hits[0].collision.t_ns) < 15 * NS_PER_MS
    change = one.velocity()[0] - 4.0, two.velocity()[0] + 4.0
    reduced_kg = one.mass_kg * two.mass_kg / (one.mass_kg + two.mass_kg)
    push = 1.5 * 8.0 * reduced_kg
    assert change[0] == pytest.approx(-push / one.mass_kg, rel=0.03)
    assert change[1] == pytest.approx(push / two.mass_kg, rel=0.03)
    assert two.place()[0] - one.place()[0] > 0.4


def test_a_car_of_another_source_pushes_a_drone_as_one_of_the_same_source_does() -> None:
    """A contact that lasts: the drone slides ahead of the car, which accelerates."""
    car = {"radius_m": 0.85, "length_m": 2.6, "height_m": 0.9, "floor_m": 0.0, "restitution": 0.0}
    one = Source("one", 160, ROOMS["one"], contact={"floor_m": 0.9, "restitution": 0.0})
    two = Source(
        "two", 160, ROOMS["one"], model="bicycle", armed=True, on_timeout="hold", contact=car
    )
    rooms = dict.fromkeys(ROOMS, ROOMS["one"])
    one.throw((4.0, 0.0, 0.9), STILL)
    two.throw((0.0, 0.0, 0.0), (2.0, 0.0, 0.0))
    two.simulation.order(FlyCommand(0, "speed", (10.0, 0.0)))
    fly(one, two, 2.0, rooms=rooms)
    speeds = one.velocity()[0], two.velocity()[0]
    assert speeds[1] > 5.0
    assert speeds[0] > 0.9 * speeds[1]
    gap_m = one.place()[0] - two.place()[0] - (1.3 + 0.85 + 0.2)
    assert abs(gap_m) < 0.02
    assert {hit.collision.other for hit in two.hits} == {"one"}
    assert two.simulation.groups[0].contacts.collisions.tolist() == [1]


def test_vehicles_that_pass_or_are_placed_beyond_each_other_or_do_not_collide_are_left_alone() -> (
    None
):
    one, two = pair()
    one.throw((-1.0, 0.0, 50.0), (4.0, 0.0, 0.0))
    two.throw((1.0, 0.41, 50.0), (-4.0, 0.0, 0.0))
    fly(one, two, 0.5)
    assert one.updates and two.updates
    x, y, z = one.place().tolist()
    two.throw((x + 1.0, y, z), STILL)
    fly(one, two, 0.05)
    two.throw((x - 2.0, y, z), STILL)
    fly(one, two, 0.05)
    assert (one.hits, two.hits) == ([], [])
    one, two = pair(contact={"response": "none"})
    one.throw((-1.0, 0.0, 50.0), (4.0, 0.0, 0.0))
    two.throw((1.0, 0.0, 50.0), (-4.0, 0.0, 0.0))
    fly(one, two, 0.5)
    assert (one.hits, two.hits, one.updates) == ([], [], 0)


def test_vehicles_far_from_each_other_are_not_reported() -> None:
    one, two = pair()
    one.throw((-100.0, 0.0, 50.0), (4.0, 0.0, 0.0))
    fly(one, two, 0.2)
    assert (one.updates, two.updates) == (0, 0)


def test_a_source_that_ends_leaves_nothing_behind() -> None:
    one, two = pair()
    one.throw((-0.5, 0.0, 50.0), STILL)
    two.throw((0.5, 0.0, 50.0), STILL)
    fly(one, two, 0.05)
    assert one.updates
    one.handler.set_bodies([])
    one.throw((0.5, 0.0, float(two.place()[2])), STILL)
    one.advance(500 * NS_PER_MS)
    assert one.hits == []
