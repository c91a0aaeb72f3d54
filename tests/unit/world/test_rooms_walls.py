"""Virtual walls: who would meet whom, and who leaves, with real bodies and real motion."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.sample_snapshot import sample_snapshot
from vil_adapters.motions.drone import DroneMotion
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import ActorKind, ActorState, SourceFrame, TrackingState, WorldSnapshot
from vil_bridge.monitoring.prometheus import metrics_registry
from vil_bridge.services.geofence.monitor import GeofenceMonitor
from vil_bridge.services.geofence.view import WarningView
from vil_bridge.world.actors import Actor
from vil_bridge.world.geofence import (
    BONE_RADIUS_M,
    HORIZON_S,
    RoomVolume,
    RoomWarning,
    Walls,
    room_warnings,
)
from vil_bridge.world.world import World

IDENTITY = Transform.identity()
ROOM_OF = {"drone": "flight", "other": "flight", "human": "actor"}
BOX = (0.4, 0.4, 0.2)


def vehicle(p_m: tuple[float, float, float], name: str = "drone", yaw: float = 0.0) -> ActorState:
    T = Transform.of(p_m, q_from_euler_zyx(yaw, 0.0, 0.0))
    return ActorState(name, ActorKind.VEHICLE, TrackingState.TRACKED, 0, T, size_m=BOX)


def human(t_s: float = 4.0, T_world_room: Transform = IDENTITY) -> ActorState:
    skeleton = WalkMotion("Actor").at(round(t_s * NS_PER_S)).skeletons[0].moved(T_world_room)
    root = Transform(skeleton.p_m[0], skeleton.q_xyzw[0])
    return ActorState("human", ActorKind.HUMAN, TrackingState.TRACKED, 0, root, skeleton)


def warned(
    now: list[ActorState],
    later: list[ActorState] | None = None,
    walls: Walls | None = None,
    margin_m: float = 0.5,
) -> tuple[RoomWarning, ...]:
    """Warnings of a moment; ``later`` is 0.1 s on."""
    rooms = (
        RoomVolume("flight", IDENTITY, walls, margin_m),
        RoomVolume("actor", IDENTITY, None, margin_m),
    )
    snapshots = WorldSnapshot(0, tuple(now)), WorldSnapshot(100_000_000, tuple(later or now))
    return room_warnings(*snapshots, rooms, ROOM_OF)


def test_a_drone_above_a_head_is_as_near_as_it_is() -> None:
    person = human()
    assert person.skeleton is not None
    top = person.skeleton.p_m[int(np.argmax(person.skeleton.p_m[:, 2]))]
    above = vehicle((float(top[0]), float(top[1]), float(top[2]) + 0.5))
    (warning,) = warned([above, person])
    assert (warning.kind, warning.actors, warning.rooms) == (
        "collision",
        ("drone", "human"),
        ("flight", "actor"),
    )
    assert warning.distance_m == pytest.approx(0.5 - 0.1 - BONE_RADIUS_M, abs=0.02)
    assert warning.in_s == 0.0
    assert warned([above, person], margin_m=0.25) == ()


def test_who_comes_near_is_warned_of_before_and_who_goes_is_not() -> None:
    person = human()
    p_m = person.T_world_body.p_m
    far = (float(p_m[0]) + 2.0, float(p_m[1]), 1.2)
    toward, away = (far[0] - 0.4, *far[1:]), (far[0] + 0.4, *far[1:])
    assert warned([vehicle(far), person]) == ()
    assert warned([vehicle(far), person], [vehicle(away), person]) == ()
    (warning,) = warned([vehicle(far), person], [vehicle(toward), person])
    assert warning.distance_m < 0.1
    assert 0.3 < warning.in_s <= HORIZON_S


def test_only_actors_of_different_rooms_that_are_there_count() -> None:
    assert warned([vehicle((0.0, 0.0, 1.0)), vehicle((0.1, 0.0, 1.0), "other")]) == ()
    person = human()
    p_m = person.T_world_body.p_m
    inside = vehicle((float(p_m[0]), float(p_m[1]), float(p_m[2])))
    (warning,) = warned([inside, person])
    assert warning.distance_m == 0.0
    for state in (TrackingState.STALE, TrackingState.LOST):
        assert warned([replace(inside, state=state), person]) == ()
        assert warned([inside, replace(person, state=state)]) == ()


def test_leaving_the_walls_is_warned_of_by_the_hull_and_in_time() -> None:
    walls = Walls((-2.0, -2.0, 0.0), (2.0, 2.0, 3.0))
    assert warned([vehicle((1.7, 0.0, 1.0))], walls=walls) == ()
    (touching,) = warned([vehicle((1.9, 0.0, 1.0))], walls=walls)
    assert (touching.kind, touching.rooms) == ("leaving", ("flight",))
    assert touching.distance_m == pytest.approx(-0.1)
    (turned,) = warned([vehicle((1.75, 0.0, 1.0), yaw=np.pi / 4)], walls=walls)
    assert turned.distance_m == pytest.approx(0.25 - 0.2 * np.sqrt(2.0))
    (soon,) = warned([vehicle((1.4, 0.0, 1.0))], [vehicle((1.6, 0.0, 1.0))], walls=walls)
    assert soon.in_s == pytest.approx(0.2)  # 0.4 m at 2 m/s
    assert warned([vehicle((1.4, 0.0, 1.0))], [vehicle((1.2, 0.0, 1.0))], walls=walls) == ()


def test_walls_stand_in_their_room() -> None:
    T_world_room = Transform.of((10.0, 0.0, 0.0), q_from_euler_zyx(np.pi / 2, 0.0, 0.0))
    room = RoomVolume("flight", T_world_room, Walls((-1.0, -3.0, 0.0), (1.0, 3.0, 3.0)))
    for p_m, count in (((12.5, 0.0, 1.0), 0), ((10.0, 2.5, 1.0), 1)):
        snapshot = WorldSnapshot(0, (vehicle(p_m),))
        assert (
            len(room_warnings(snapshot, replace(snapshot, t_ns=10**8), (room,), ROOM_OF)) == count
        )


def test_a_real_flight_and_a_real_walk_are_warned_of_once_per_episode(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The drone's hall is placed so that its patrol crosses the walker's path."""
    drone, person = DroneMotion("drone"), WalkMotion("Actor")
    actors = (
        Actor("drone", ActorKind.VEHICLE, "flight", "drone", size_m=BOX),
        Actor("human", ActorKind.HUMAN, "actor", "Actor"),
    )
    root_m = person.at(4 * NS_PER_S).skeletons[0].p_m[0]
    meeting = Transform.of(root_m - drone.at(4 * NS_PER_S).p_m[0])
    world = World({"flight": meeting, "actor": IDENTITY}, actors)
    rooms = (
        RoomVolume("flight", meeting, Walls((-9, -9, -9), (9, 9, 9))),
        RoomVolume("actor", IDENTITY),
    )
    watch = GeofenceMonitor(world, rooms, {"drone": "flight", "human": "actor"})
    filmed = [
        (i, source, motion.at(4 * NS_PER_S - 400_000_000 + i * 10_000_000))
        for i in range(40)
        for source, motion in (("flight", drone), ("actor", person))
    ]
    clock, t_ns = BridgeTime(), NS_PER_S
    clock.stand_at(t_ns + 400_000_000)
    for i, source, seen in filmed:
        arrival_ns = t_ns + i * 10_000_000
        world.ingest(
            SourceFrame(
                source,
                i,
                None,
                arrival_ns,
                seen.subjects,
                seen.p_m,
                seen.q_xyzw,
                seen.tracked,
                seen.skeletons,
            )
        )
    with caplog.at_level(logging.WARNING), clock.in_force():
        for _ in range(3):
            watch.check()
    assert [(w.kind, w.actors) for w in watch.warnings] == [("collision", ("drone", "human"))]
    assert watch.warnings[0].distance_m < 0.2
    assert watch.episodes == {"collision": 1}
    assert sum("in the virtual world" in record.message for record in caplog.records) == 1


def test_one_room_without_walls_costs_nothing() -> None:
    world = World({"flight": IDENTITY}, (Actor("drone", ActorKind.VEHICLE, "flight", "drone"),))
    watch = GeofenceMonitor(world, (RoomVolume("flight", IDENTITY),), {"drone": "flight"})
    watch.check()
    assert watch.warnings == ()


def test_warnings_are_counted_by_kind_in_the_metrics() -> None:
    one = WarningView("collision", ("drone", "human"), ("flight", "actor"), 0.2, 0.1)
    parts: dict[str, Any] = {"warnings": (one,)}
    now = replace(sample_snapshot(), **parts)
    registry = metrics_registry(lambda: now)
    assert registry.get_sample_value("vil_room_warnings", {"kind": "collision"}) == 1.0
    assert registry.get_sample_value("vil_room_warnings", {"kind": "leaving"}) == 0.0
