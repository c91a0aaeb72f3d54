"""IR beacons that a camera sees, and their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, Landmark
from vil_renderer.embedded.geometry.ray_world import NOTHING, RayWorld
from vil_renderer.embedded.optics.lens import in_picture, project
from vil_renderer.embedded.scene import Beacon, Posed, Scene

_PROUD_M: Final = 0.005
"""Distance of a beacon from its surface; the ray starts there."""


def visible_beacons(
    world: RayWorld,
    posed: Sequence[Posed],
    camera: CameraModel,
    T_world_camera: Transform,
    hide: frozenset[str] = NOTHING,
) -> tuple[Landmark, ...]:
    """Return the beacons in sight within the picture, in the scene's order.

    Args:
        world: the scene, updated with ``posed``.
        posed: the actors, some of which may carry beacons.
        camera: the camera; its lens bends where beacons appear.
        T_world_camera: optical axes.
        hide: objects that do not hide beacons, such as the vehicle that carries the camera.
    """
    if not world.scene.beacons:
        return ()
    placed = _placed(world.scene, {actor.name: actor for actor in posed})
    if not placed:
        return ()
    beacons = [beacon for beacon, _ in placed]
    p_world = np.array([p for _, p in placed])
    p_camera = T_world_camera.inverse().apply(p_world)
    near = np.flatnonzero(in_picture(camera, p_camera))
    eye = np.broadcast_to(T_world_camera.p_m, (len(near), 3))
    way = eye - p_world[near]
    start = p_world[near] + _PROUD_M * way / np.linalg.norm(way, axis=1, keepdims=True)
    seen = near[~world.occluded(start, eye, hide)]
    pixels = project(camera, p_camera)
    return tuple(
        Landmark(beacons[i].name, float(pixels[i, 0]), float(pixels[i, 1]), float(p_camera[i, 2]))
        for i in seen
    )


def _placed(scene: Scene, actors: dict[str, Posed]) -> list[tuple[Beacon, FloatArray]]:
    """Return beacons with their places in the world, without those whose carrier is absent."""
    objects = {thing.name: thing for thing in scene.objects}
    placed: list[tuple[Beacon, FloatArray]] = []
    for beacon in scene.beacons:
        thing = objects.get(beacon.carrier)
        actor = actors.get(beacon.carrier)
        if not beacon.carrier:
            placed.append((beacon, beacon.p_m))
        elif actor is not None and thing is not None:
            # An object that moves keeps the axes in which its beacons are given: its asset's.
            m = actor.world_from_node[0] @ np.linalg.inv(actor.asset.asset_from_node()[0])
            placed.append((beacon, m[:3, :3] @ beacon.p_m + m[:3, 3]))
        elif actor is not None:
            placed.append((beacon, actor.T_world_body.apply(beacon.p_m)))
        elif thing is not None:
            m = thing.world_from_asset
            placed.append((beacon, m[:3, :3] @ beacon.p_m + m[:3, 3]))
    return placed
