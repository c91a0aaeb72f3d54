"""The embedded renderer as a library: pictures and measurements of a scene, in the caller's process.

:class:`EmbeddedRenderer` draws with OpenGL; everything else here works without it. ``server`` is the process behind
the wire protocols. Names are imported when they are first used: who only reads scenes needs no OpenGL, and who only
draws needs neither Embree nor fcl.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from vil_renderer.embedded.assets.importers import load_asset
    from vil_renderer.embedded.assets.model import Asset
    from vil_renderer.embedded.engine.profiles import PROFILES, Profile
    from vil_renderer.embedded.geometry.collision import CollisionWorld, Overlap, box_at
    from vil_renderer.embedded.geometry.occupancy import OccupancyGrid
    from vil_renderer.embedded.geometry.point_cloud import Box, Cloud, sample_cloud, voxel_cloud, write_ply
    from vil_renderer.embedded.geometry.ray_world import Hits, RayWorld
    from vil_renderer.embedded.geometry.raycast_renderer import RaycastRenderer
    from vil_renderer.embedded.geometry.separation import OrientedBox, Sphere
    from vil_renderer.embedded.renderer import EmbeddedRenderer
    from vil_renderer.embedded.scene import Environment, Lamp, Posed, Scene, SceneObject, Sun
    from vil_renderer.embedded.scenefile import load_scene, scene_names
    from vil_renderer.embedded.sensors import RangeFinder, RangeNoise, SpinningLidar, beam_cone, beam_grid, planar_fan
    from vil_renderer.embedded.sensors.event_camera import EventCamera, Events

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
    "vil_renderer.embedded.assets.model": ("Asset",),
    "vil_renderer.embedded.geometry.collision": ("CollisionWorld", "Overlap", "box_at"),
    "vil_renderer.embedded.engine.profiles": ("PROFILES", "Profile"),
    "vil_renderer.embedded.sensors.event_camera": ("EventCamera", "Events"),
    "vil_renderer.embedded.assets.importers": ("load_asset",),
    "vil_renderer.embedded.geometry.occupancy": ("OccupancyGrid",),
    "vil_renderer.embedded.geometry.point_cloud": ("Box", "Cloud", "sample_cloud", "voxel_cloud", "write_ply"),
    "vil_renderer.embedded.geometry.raycast_renderer": ("RaycastRenderer",),
    "vil_renderer.embedded.geometry.ray_world": ("Hits", "RayWorld"),
    "vil_renderer.embedded.renderer": ("EmbeddedRenderer",),
    "vil_renderer.embedded.scene": ("Environment", "Lamp", "Posed", "Scene", "SceneObject", "Sun"),
    "vil_renderer.embedded.scenefile": ("load_scene", "scene_names"),
    "vil_renderer.embedded.sensors": (
        "RangeFinder",
        "RangeNoise",
        "SpinningLidar",
        "beam_cone",
        "beam_grid",
        "planar_fan",
    ),
    "vil_renderer.embedded.geometry.separation": ("Sphere", "OrientedBox"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
