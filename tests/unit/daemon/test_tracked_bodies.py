"""Tracked vehicles on their way to the simulated ones that bounce off them."""

from __future__ import annotations

import numpy as np
import pytest

from vil_adapters.simulated.command_handler import CommandHandler
from vil_adapters.simulated.ipc import BodiesUpdate, Order
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import SourceFrame
from vil_bridge.core.vehicle_commands import VehicleCommandBus
from vil_bridge.daemon.factories import build_world
from vil_bridge.daemon.tracked_bodies import TrackedBodies
from vil_bridge.registry import resolve

NS_PER_MS = 1_000_000


def config(*, tracked: bool = True) -> BridgeConfig:
    real = {"type": "motion-file", "room": "lab", "path": "flight.txt", "subject": "real"}
    sim = {"type": "simulated", "room": "hall", "vehicles": {"helper": {"model": "kinematic"}}}
    place = {"T_world_room": {"p_m": [10.0, 0.0, 0.0], "ypr_deg": [90.0, 0.0, 0.0]}}
    kart = {"kind": "vehicle", "source": "real", "subject": "real", "size_m": [2.0, 1.0, 0.6]}
    tree = {
        "version": 1,
        "require_cameras": False,
        "rooms": {"lab": {}, "hall": place},
        "sources": {"real": real, "sim": sim} if tracked else {"sim": sim},
        "actors": {
            **({"kart": kart} if tracked else {}),
            "helper": {"kind": "vehicle", "source": "sim", "subject": "helper"},
        },
    }
    return BridgeConfig.model_validate(tree, context={"resolve": resolve})


def test_a_tracked_vehicle_is_a_row_of_spheres_in_the_room_of_the_simulated_ones() -> None:
    """It drives north at 2 m/s in the world; the hall's x axis points north, from 10 m east."""
    orders: list[Order] = []

    def send(order: Order) -> bool:
        orders.append(order)
        return True

    made, bus = config(), VehicleCommandBus()
    world = build_world(made)
    sender = TrackedBodies(made, world, bus)
    assert sender.needed
    handler = CommandHandler("sim", made.sources["sim"], send)  # type: ignore[arg-type]
    with bus.serving("sim", ["helper"], handler):
        sender.send(now_ns())
        assert orders == []
        t_ns = now_ns() - 300 * NS_PER_MS
        north = np.array([[0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]])
        for i in range(31):
            at_ns = t_ns + i * 10 * NS_PER_MS
            p_m = np.array([[4.0, 0.02 * i, 0.3]])
            world.ingest(SourceFrame("real", i, None, at_ns, ("real",), p_m, north, np.ones(1, np.bool_)))
        newest_ns = t_ns + 300 * NS_PER_MS
        sender.send(newest_ns)
    (order,) = orders
    assert isinstance(order, BodiesUpdate)
    (body,) = order.bodies
    assert (body.name, body.t_ns, body.radius_m) == ("kart", newest_ns, 0.5)
    np.testing.assert_allclose(body.middles_m, [(0.1, 6.0, 0.3), (0.6, 6.0, 0.3), (1.1, 6.0, 0.3)], atol=0.05)
    assert body.v_mps == pytest.approx((2.0, 0.0, 0.0), abs=0.1)


def test_a_bridge_without_tracked_vehicles_needs_no_sender() -> None:
    made = config(tracked=False)
    assert not TrackedBodies(made, build_world(made), VehicleCommandBus()).needed
