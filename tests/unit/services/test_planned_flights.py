"""Planned flights of actors.

set-points in time, also between two flights, after a cancelled one, and at no jump.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, SourceFrame
from vil_bridge.daemon.output_manager import OutputManager
from vil_bridge.interfaces.setpoints import PositionSetpoint, ReferenceSetpoint, Setpoint
from vil_bridge.services.flights.service import FlightService
from vil_bridge.services.service import ServiceHost
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World

START_NS = 1000 * NS_PER_S


class Rig:
    """A simulated drone in the origin, and the set-points that it gets."""

    def __init__(self, clock: BridgeTime) -> None:
        self._clock = clock
        self.given: list[Setpoint] = []
        world = World(
            {"sim": Transform.identity()}, [Actor("drone", ActorKind.VEHICLE, "sim", "drone")]
        )
        t_ns = START_NS - NS_PER_MS
        world.ingest(
            SourceFrame(
                "sim", 1, t_ns, t_ns, ("drone",), np.zeros((1, 3)), np.eye(4)[3:], np.array([True])
            )
        )
        parts: dict[str, Any] = dict.fromkeys(field.name for field in fields(ServiceHost))
        parts |= {"world": world, "setpoints": self, "outputs": OutputManager({}, self.fly)}
        self.flights = FlightService(None, ServiceHost(**parts))

    def fly(self, _actor: str, setpoint: Setpoint) -> None:
        self.given.append(setpoint)

    def is_simulated(self, _actor: str) -> bool:
        return True

    def go(self, until_s: float) -> None:
        """Give the set-points until so many seconds after the start."""
        while (t_ns := self._clock.now_ns()) < START_NS + round(until_s * NS_PER_S):
            self._clock.stand_at(t_ns + 20 * NS_PER_MS)
            self.flights.step(t_ns + 20 * NS_PER_MS)

    def newest(self) -> ReferenceSetpoint:
        one = self.given[-1]
        assert isinstance(one, ReferenceSetpoint)
        return one

    def references(self) -> list[ReferenceSetpoint]:
        return [one for one in self.given if isinstance(one, ReferenceSetpoint)]


@pytest.fixture
def rig() -> Iterator[Rig]:
    clock = BridgeTime()
    clock.stand_at(START_NS)
    with clock.in_force():
        yield Rig(clock)


def line(from_m: float, to_m: float, end_mps: float = 0.0) -> list[list[float]]:
    """Two seconds along x."""
    return [[0.0, from_m, *[0.0] * 12], [2.0, to_m, 0.0, 0.0, end_mps, *[0.0] * 9]]


def on_line(t_s: float) -> float:
    """Return the share of a line after a time.

    The polynomial of degree 7 that rests at 0 and 1 to the third order.
    """
    s = t_s / 2.0
    return s**4 * (35.0 - 84.0 * s + 70.0 * s**2 - 20.0 * s**3)


def instants_ms(references: list[ReferenceSetpoint]) -> list[float]:
    return [(one.t_ns - START_NS) / NS_PER_MS for one in references]


def test_a_service_that_was_held_up_gives_no_set_point_of_the_past_and_none_twice(rig: Rig) -> None:
    """Set-points come 20 ms apart, up to 100 ms ahead.

    The service does not run from 0.5 s to 1.3 s.
    """
    rig.flights.give("drone", line(0.0, 2.0), START_NS)
    rig.go(0.5)
    assert instants_ms(rig.references()) == [20.0 * k for k in range(1, 31)]
    rig.given.clear()
    rig.flights.step(START_NS + 1300 * NS_PER_MS)
    assert instants_ms(rig.references()) == [1300.0, 1320.0, 1340.0, 1360.0, 1380.0, 1400.0]
    rig.flights.step(START_NS + 1310 * NS_PER_MS)
    rig.flights.step(START_NS + 1320 * NS_PER_MS)
    assert instants_ms(rig.references())[6:] == [1420.0]
    for one, t_ms in zip(rig.references(), instants_ms(rig.references()), strict=True):
        assert one.p_world_m == pytest.approx((2.0 * on_line(t_ms / 1e3), 0.0, 0.0), abs=1e-9)


def test_a_flight_that_began_before_it_was_given_goes_on_where_it_is_now(rig: Rig) -> None:
    rig.flights.give("drone", line(-1.0, 1.0), START_NS - NS_PER_S)
    rig.go(0.02)
    assert instants_ms(rig.references()) == [20.0, 40.0, 60.0, 80.0, 100.0, 120.0]
    x_m = [one.p_world_m[0] for one in rig.references()]
    assert x_m == pytest.approx(
        [2.0 * on_line(1.0 + 0.02 * k) - 1.0 for k in range(1, 7)], abs=1e-9
    )


@pytest.mark.parametrize(("begins_ms", "first_ms"), [(260, 260.0), (261, 280.0), (279, 280.0)])
def test_a_flight_has_no_set_point_before_it_begins(
    rig: Rig, begins_ms: int, first_ms: float
) -> None:
    rig.flights.give("drone", line(0.0, 2.0), START_NS + begins_ms * NS_PER_MS)
    rig.go(0.14)
    assert rig.references() == []
    rig.go(0.4)
    assert instants_ms(rig.references())[0] == first_ms
    assert rig.references()[0].p_world_m[0] == pytest.approx(
        2.0 * on_line((first_ms - begins_ms) / 1e3), abs=1e-9
    )


def test_a_vehicle_rests_between_two_flights(rig: Rig) -> None:
    rig.flights.give("drone", line(0.0, 2.0, end_mps=1.0), START_NS)
    rig.go(1.0)
    rig.flights.give("drone", line(2.0, 0.0), START_NS + 10 * NS_PER_S)
    rig.go(9.0)
    rest = rig.newest()
    assert rest.p_world_m == pytest.approx((2.0, 0.0, 0.0)) and not any(rest.v_world_mps)
    assert rest.t_ns > START_NS + 9 * NS_PER_S
    rig.go(13.0)
    assert rig.flights.flights()["drone"].state == "done"
    assert rig.given[-1] == PositionSetpoint((0.0, 0.0, 0.0), 0.0)


def test_a_cancelled_vehicle_holds_although_its_next_flight_begins_later(rig: Rig) -> None:
    rig.flights.give("drone", line(0.0, 0.4), START_NS)
    rig.go(1.0)
    rig.flights.cancel("drone")
    rig.flights.give("drone", line(0.0, 2.0), START_NS + 10 * NS_PER_S)
    rig.go(5.0)
    assert rig.given[-1] == PositionSetpoint((0.0, 0.0, 0.0), 0.0)
    rig.go(11.0)
    assert rig.newest().p_world_m[0] > 0.9


def test_a_flight_that_begins_elsewhere_is_refused_in_flight_too(rig: Rig) -> None:
    rig.flights.give("drone", line(0.0, 2.0), START_NS)
    rig.go(0.5)
    with pytest.raises(
        ValueError, match=r"drone is 3\.00 m from the begin of the flight: plan it from where it is"
    ):
        rig.flights.give("drone", line(5.0, 6.0), START_NS + 3 * NS_PER_S)
    with pytest.raises(ValueError, match=r"is 1\.00 m from the begin"):
        rig.flights.give("drone", line(2.0, 3.0), START_NS + NS_PER_S)
    rig.flights.give("drone", line(1.0, 3.0), START_NS + NS_PER_S)


def test_a_flight_that_is_done_stays_done(rig: Rig) -> None:
    rig.flights.give("drone", line(0.0, 2.0), START_NS)
    rig.go(3.0)
    rig.flights.cancel("drone")
    assert rig.flights.flights()["drone"].state == "done"


def test_flights_follow_one_another_and_an_earlier_one_takes_the_place_of_later_ones(
    rig: Rig,
) -> None:
    rig.flights.give("drone", line(0.0, 2.0), START_NS)
    rig.go(1.0)
    for number, (begin_m, end_m) in enumerate([(2.0, 3.0), (3.0, 1.0)]):
        rig.flights.give("drone", line(begin_m, end_m), START_NS + (4 + 3 * number) * NS_PER_S)
    rig.go(2.0)
    assert rig.newest().p_world_m[0] == pytest.approx(2.0, abs=0.01)
    rig.go(5.0)
    assert 2.1 < rig.newest().p_world_m[0] < 2.9
    rig.go(6.5)
    assert rig.newest().p_world_m[0] == pytest.approx(3.0)
    rig.flights.give("drone", line(3.0, 5.0), START_NS + round(6.8 * NS_PER_S))
    rig.go(10.0)
    assert rig.given[-1] == PositionSetpoint((5.0, 0.0, 0.0), 0.0)


def test_flights_to_come_are_bounded(rig: Rig) -> None:
    rig.flights.give("drone", line(0.0, 0.0), START_NS)
    rig.go(0.1)
    for number in range(1, 9):
        rig.flights.give("drone", line(0.0, 0.0), START_NS + number * NS_PER_S)
    with pytest.raises(
        ValueError, match="drone has 8 flights to come: wait for one, or cancel them"
    ):
        rig.flights.give("drone", line(0.0, 0.0), START_NS + 9 * NS_PER_S)
    rig.go(1.5)
    rig.flights.give("drone", line(0.0, 0.0), START_NS + 9 * NS_PER_S)
