"""Tracked vehicles on their way to the simulated ones that bounce off them."""

from __future__ import annotations

import numpy as np
import pytest

from vil_bridge.assembly.world import build_world
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, SourceFrame
from vil_bridge.daemon.moving_bodies import BodySender
from vil_bridge.daemon.near_vehicles import bodies_near
from vil_bridge.interfaces.solid_world import BodyShape, VehicleBodies
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.registry import resolve
from vil_simulation.source.command_handler import CommandHandler
from vil_simulation.source.ipc import BodiesUpdate, Order

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
    sender = BodySender(made, world, bus)
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
            world.ingest(
                SourceFrame("real", i, None, at_ns, ("real",), p_m, north, np.ones(1, np.bool_))
            )
        newest_ns = t_ns + 300 * NS_PER_MS
        sender.send(newest_ns)
    (order,) = orders
    assert isinstance(order, BodiesUpdate)
    (body,) = order.bodies
    assert (body.name, body.t_ns, body.radius_m) == ("kart", newest_ns, 0.5)
    np.testing.assert_allclose(
        body.middles_m, [(0.1, 6.0, 0.3), (0.6, 6.0, 0.3), (1.1, 6.0, 0.3)], atol=0.05
    )
    assert body.v_mps == pytest.approx((2.0, 0.0, 0.0), abs=0.1)


def test_a_bridge_without_tracked_vehicles_needs_no_sender() -> None:
    made = config(tracked=False)
    assert not BodySender(made, build_world(made), VehicleCommandBus()).needed


def test_vehicles_of_other_sources_are_near_when_they_can_meet_soon() -> None:
    """Against the distances of all pairs, in rooms that stand elsewhere."""
    random = np.random.default_rng(1)
    rooms = {
        f"s{i}": Transform.of(random.uniform(-5, 5, 3), random.normal(size=4)) for i in range(3)
    }
    shape = BodyShape(0.2, np.zeros((1, 3)), 1.0, (0.01, 0.01, 0.02), 0.5, 0.5)
    found: dict[str, VehicleBodies] = {}
    world: dict[str, tuple[FloatArray, FloatArray]] = {}
    for name, T in rooms.items():
        p_m, v_mps = random.uniform(-6, 6, (40, 3)), random.normal(size=(40, 3))
        names = tuple(f"{name}_{i}" for i in range(40))
        q = np.tile([0.0, 0.0, 0.0, 1.0], (40, 1))
        found[name] = VehicleBodies(
            7, names, (shape,) * 40, np.full(40, 0.2), p_m, v_mps, q, np.zeros((40, 3))
        )
        world |= {
            n: (T.apply(p), T.rotation() @ v) for n, p, v in zip(names, p_m, v_mps, strict=True)
        }
    near = bodies_near(found, rooms)
    for name, T in rooms.items():
        expected = {
            other
            for other, (p, v) in world.items()
            if not other.startswith(name)
            for mine in found[name].names
            if np.linalg.norm(p - world[mine][0])
            <= 1.4 + 0.25 * sum(float(np.linalg.norm(u)) for u in (v, world[mine][1]))
        }
        assert expected
        assert {body.name for body in near[name]} == expected
        for body in near[name]:
            assert body.mass is not None
            assert (body.t_ns, body.radius_m, body.mass.mass_kg) == (7, 0.2, 1.0)
            np.testing.assert_allclose(T.apply(np.array(body.middles_m[0])), world[body.name][0])
            np.testing.assert_allclose(T.rotation() @ np.array(body.v_mps), world[body.name][1])
