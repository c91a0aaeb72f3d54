"""The embedded renderer as a library.

Pictures and measurements of a scene, in the caller's process.

:class:`EmbeddedRenderer` draws with OpenGL; everything else here works without it. ``server`` is
the process behind the wire protocols. Names are imported when they are first used: who only reads
scenes needs no OpenGL, and who only draws needs neither Embree nor fcl.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from vil_bridge.optics.event_camera import EventCamera, Events
    from vil_renderer.embedded.assets.importers import load_asset
    from vil_renderer.embedded.assets.model import Asset
    from vil_renderer.embedded.engine.opengl import OpenGL
    from vil_renderer.embedded.engine.profiles import PROFILES, Profile
    from vil_renderer.embedded.geometry.collision import CollisionWorld, Overlap, box_at
    from vil_renderer.embedded.geometry.occupancy import OccupancyGrid
    from vil_renderer.embedded.geometry.point_cloud import (
        Box,
        Cloud,
        sample_cloud,
        voxel_cloud,
        write_ply,
    )
    from vil_renderer.embedded.geometry.ray_world import Hits, RayWorld
    from vil_renderer.embedded.geometry.raycast_renderer import RaycastRenderer
    from vil_renderer.embedded.geometry.separation import OrientedBox, Sphere
    from vil_renderer.embedded.renderer import EmbeddedRenderer
    from vil_renderer.embedded.scene import Environment, Lamp, Posed, Scene, SceneObject, Sun
    from vil_renderer.embedded.scenefile import load_scene, scene_names
    from vil_renderer.embedded.sensors import (
        RangeFinder,
        RangeNoise,
        SpinningLidar,
        beam_cone,
        beam_grid,
        planar_fan,
    )

__all__ = [
    "PROFILES",
    "Asset",
    "Box",
    "Cloud",
    "CollisionWorld",
    "EmbeddedRenderer",
    "Environment",
    "EventCamera",
    "Events",
    "Hits",
    "Lamp",
    "OccupancyGrid",
    "OpenGL",
    "OrientedBox",
    "Overlap",
    "Posed",
    "Profile",
    "RangeFinder",
    "RangeNoise",
    "RayWorld",
    "RaycastRenderer",
    "Scene",
    "SceneObject",
    "Sphere",
    "SpinningLidar",
    "Sun",
    "beam_cone",
    "beam_grid",
    "box_at",
    "load_asset",
    "load_scene",
    "planar_fan",
    "sample_cloud",
    "scene_names",
    "voxel_cloud",
    "write_ply",
]

_HOMES: Final = {
    "assets.importers": "load_asset",
    "assets.model": "Asset",
    "engine.opengl": "OpenGL",
    "engine.profiles": "PROFILES Profile",
    "geometry.collision": "CollisionWorld Overlap box_at",
    "geometry.occupancy": "OccupancyGrid",
    "geometry.point_cloud": "Box Cloud sample_cloud voxel_cloud write_ply",
    "geometry.ray_world": "Hits RayWorld",
    "geometry.raycast_renderer": "RaycastRenderer",
    "geometry.separation": "OrientedBox Sphere",
    "renderer": "EmbeddedRenderer",
    "scene": "Environment Lamp Posed Scene SceneObject Sun",
    "scenefile": "load_scene scene_names",
    "sensors": "RangeFinder RangeNoise SpinningLidar beam_cone beam_grid planar_fan",
}
_HOME_OF: Final = {
    **{name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names.split()},
    **dict.fromkeys(("EventCamera", "Events"), "vil_bridge.optics.event_camera"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
