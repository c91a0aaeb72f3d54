"""The scene of a running bridge for pages: from its configuration, its world and its renderers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from urllib.parse import quote

from vil_bridge.bodies.skeleton import body_parents
from vil_bridge.config.root import RoomConfig
from vil_bridge.core.types import ActorKind, FloatArray
from vil_bridge.courses.course import Course
from vil_bridge.daemon.cameras import CameraRunner
from vil_bridge.daemon.context import BridgeContext
from vil_bridge.daemon.scene_geometry import SceneModel
from vil_bridge.services.race.service import race_of
from vil_bridge.web.schemas.controls import PropView
from vil_bridge.web.schemas.scene import (
    MODEL_PATH,
    CourseView,
    GateView,
    SceneActor,
    SceneCamera,
    SceneProp,
    SceneRoom,
    SceneView,
    SkeletonView,
    Vector,
    WallsView,
    quaternion,
    three,
)
from vil_bridge.world.actors import Actor


def scene_of(
    context: BridgeContext, props: Mapping[str, PropView], model: SceneModel | None
) -> SceneView:
    """Return everything that does not move by itself, as of now; revision 0.

    Args:
        context: of the bridge.
        props: obstacles by name.
        model: of the scene that its renderer draws, None = unknown.
    """
    config = context.config
    race = race_of(context.services["race"].service)
    gates: tuple[GateView, ...] = ()
    address: str | None = None
    if model is not None:
        gates = model.gates
        address = f"{MODEL_PATH}?{quote(model.name)}"  # another scene, another address
    flown: CourseView | None = None
    if race is not None:
        course = race.course
        gates = _gates(course)
        flown = _course(course)
    return SceneView(
        name=config.name,
        rooms={name: _room(room) for name, room in config.rooms.items()},
        actors=tuple(_actor(context, actor) for actor in context.world.actors),
        cameras=tuple(_camera(name, runner) for name, runner in context.cameras.items()),
        gates=gates,
        props=tuple(SceneProp.of(name, prop) for name, prop in props.items()),
        model=address,
        course=flown,
    )


def _gates(course: Course) -> tuple[GateView, ...]:
    return tuple(
        GateView(
            one.name,
            three(one.T_world_gate),
            quaternion(one.T_world_gate),
            one.width_m,
            one.height_m,
        )
        for one in course.gates
    )


def _course(course: Course) -> CourseView:
    order = tuple(course.gates[index].name for index in course.order)
    bounds_m = course.bounds_m
    corners = None if bounds_m is None else (_vector(bounds_m[0]), _vector(bounds_m[1]))
    return CourseView(course.name, course.laps, order, course.rules.clock == "first_gate", corners)


def _vector(values: FloatArray) -> Vector:
    x, y, z = values.tolist()
    return x, y, z


def _room(room: RoomConfig) -> SceneRoom:
    place = room.T_world_room.transform()
    walls = None if room.walls is None else WallsView(room.walls.min_m, room.walls.max_m)
    return SceneRoom(three(place), quaternion(place), walls, room.margin_m)


def _actor(context: BridgeContext, actor: Actor) -> SceneActor:
    skeleton: SkeletonView | None = None
    if actor.kind is ActorKind.HUMAN:
        newest = context.world.newest_skeleton(actor.name)
        if newest is not None:
            skeleton = SkeletonView(newest[0].model.bones, body_parents(newest[0].model))
    room = getattr(context.config.sources[actor.source], "room", None) or ""
    return SceneActor(
        actor.name, actor.kind, actor.size_m, actor.source, room, actor.prefab, skeleton
    )


def _camera(name: str, runner: CameraRunner) -> SceneCamera:
    camera = runner.camera
    model = camera.model
    place = camera.T_body_camera
    fy_px = model.intrinsics_px[1]
    return SceneCamera(
        name=name,
        actor=camera.actor,
        width=model.width_px,
        height=model.height_px,
        fov_y_rad=2.0 * math.atan(0.5 * model.height_px / fy_px),
        rate_hz=camera.rate_hz,
        p_m=three(place),
        q_xyzw=quaternion(place),
        variants=camera.variants,
    )
