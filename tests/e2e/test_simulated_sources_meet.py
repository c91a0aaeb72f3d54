"""Vehicles of two simulated sources that meet in one bridge, each source with a process of its
own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.support.bridge_rig import running
from tests.support.events import until
from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.interfaces.solid_world import MovingBody
from vil_bridge.interfaces.vehicle_moves import VehiclePlacement

pytestmark = pytest.mark.process

LOAD_S = 300.0
PERIOD_NS = 20 * NS_PER_MS
LEVEL = (0.0, 0.0, 0.0, 1.0)
VEHICLE = (
    "{model: airsim, armed: false, contact: {radius_m: 0.2, restitution: 0.5, friction: "
    "0.0, floor_m: null}}"
)
CONFIG = f"""
version: 1
require_cameras: false
rooms: {{hall: {{}}, yard: {{T_world_room: {{p_m: [10.0, 0.0, 0.0], ypr_deg: [90.0, 0.0, 0.0]}}}}}}
sources:
  one: {{type: simulated, room: hall, process: true, vehicles: {{first: {VEHICLE}}}}}
  two: {{type: simulated, room: yard, process: true, vehicles: {{second: {VEHICLE}}}}}
actors:
  first: {{kind: vehicle, source: one, subject: first}}
  second: {{kind: vehicle, source: two, subject: second}}
http: {{port: 0}}
realtime: {{fifo_priority: 0}}
simulation: {{clock: simulated, paused: true}}
"""


async def step(bridge: Bridge, given: Counter[str]) -> None:
    """Let a moment pass in both simulations, and let them hear of each other.

    Args:
        bridge: of both.
        given: how often each source got the bodies of the other.
    """
    vehicles = bridge.context.for_sources.vehicles
    end_ns = bridge.context.simulation.clock.now_ns() + PERIOD_NS
    bridge.context.simulation.step(PERIOD_NS)
    await until(
        lambda: all(vehicles.of(name).has_reached(name, end_ns) for name in vehicles.names())
    )
    before = Counter(given)  # the next one may have been read before the states came
    await until(lambda: all(given[source] >= before[source] + 2 for source in ("one", "two")))


async def test_each_bounces_once_and_names_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Head on along the world's x axis, 2 m apart; the yard's x axis is the world's y."""
    async with running(CONFIG) as bridge:
        vehicles = bridge.context.for_sources.vehicles
        given = Counter[str]()
        give = vehicles.set_bodies

        def counted(source: str, bodies: Sequence[MovingBody]) -> None:
            give(source, bodies)
            given[source] += 1

        monkeypatch.setattr(vehicles, "set_bodies", counted)
        await until(lambda: vehicles.names() == ["first", "second"], LOAD_S)
        await until(lambda: all(vehicles.of(name).state(name).mode for name in vehicles.names()))
        vehicles.send(
            "first", VehiclePlacement((9.0, 0.0, 500.0), LEVEL, v_world_mps=(4.0, 0.0, 0.0))
        )
        vehicles.send(
            "second", VehiclePlacement((0.0, -1.0, 500.0), LEVEL, v_world_mps=(0.0, 4.0, 0.0))
        )
        await until(
            lambda: all(vehicles.of(name).state(name).placements for name in vehicles.names())
        )
        for _ in range(40):
            await step(bridge, given)
        hits = [vehicles.of(name).collision(name, clear=False) for name in ("first", "second")]
        assert [hit.other for hit in hits if hit is not None] == ["second", "first"]
        first = vehicles.of("first").state("first")
        second = vehicles.of("second").state("second")
        assert (first.collisions, second.collisions) == (1, 1)
        assert first.v_world_mps[0] == pytest.approx(-2.0, abs=0.1)
        assert second.v_world_mps[1] == pytest.approx(-2.0, abs=0.1)
