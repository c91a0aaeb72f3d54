"""What the protocol's side channels ask of the geometry: collision, range finder, IR beacons."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.geometry import q_rotate
from vil_bridge.core.types import Landmark, View
from vil_renderer.embedded.boxes import Boxes
from vil_renderer.embedded.camera import NEAR_M, project
from vil_renderer.embedded.first_scene import Scene

__all__ = ["COLLISION_RADIUS_M", "RANGE_LIMIT_M", "collides", "landmarks_in_view", "range_below_m"]

COLLISION_RADIUS_M: Final = 0.15
RANGE_LIMIT_M: Final = 20.0
_DOWN: Final = np.array([0.0, 1.0, 0.0])


def collides(view: View, solid: Boxes) -> bool:
    """Whether a sphere of 0.15 m at the camera touches anything."""
    return solid.touches_sphere(view.T_world_camera.p_m, COLLISION_RADIUS_M)


def range_below_m(view: View, solid: Boxes) -> float | None:
    """Distance along the camera's down axis to the first surface; None when nothing is hit within 20 m."""
    T = view.T_world_camera
    distance = solid.ray_distance_m(T.p_m, q_rotate(T.q_xyzw, _DOWN))
    return distance if distance <= RANGE_LIMIT_M else None


def landmarks_in_view(view: View, scene: Scene, solid: Boxes) -> tuple[Landmark, ...]:
    """The beacons inside the picture that nothing hides, in the scene's order."""
    camera = view.camera
    pixels = project(camera, view.T_world_camera, scene.beacons_m)
    u, v, z = pixels.T
    inside = (z > NEAR_M) & (np.abs(2 * u + 1 - camera.width_px) < camera.width_px)
    inside &= np.abs(2 * v + 1 - camera.height_px) < camera.height_px
    near = np.flatnonzero(inside)
    eye = np.broadcast_to(view.T_world_camera.p_m, (len(near), 3))
    seen = near[~solid.between(scene.beacons_m[near], eye)]
    return tuple(Landmark(scene.beacon_names[i], float(u[i]), float(v[i]), float(z[i])) for i in seen)
