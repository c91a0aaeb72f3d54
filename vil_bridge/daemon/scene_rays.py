"""Scenes that answer questions, one process of each, and the rays of simulated vehicles through
them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge import registry
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError, RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.ports import WorldView
from vil_bridge.interfaces.scene_queries import RayHits, SceneQueries
from vil_bridge.interfaces.weather_returns import hits_in, rays_in, weather_at

_KIND: Final = "embedded"
_RAYS_PROFILE: Final = "low"


class SceneLibrary:
    """Scenes by name, each made when it is first asked for; loop thread."""

    def __init__(self) -> None:
        self._scenes: dict[str, SceneQueries] = {}

    def of(self, scene: str, profile: str = _RAYS_PROFILE) -> SceneQueries:
        """Return a scene by its name or file.

        Args:
            scene: which one.
            profile: quality of its pictures, which the first that asks for it chooses: services
                do before the sources run.

        Raises:
            ConfigError: the renderer is not installed.
        """
        if scene not in self._scenes:
            model = registry.resolve("scene_queries")[_KIND]()
            described = model.model_validate({"type": _KIND, "scene": scene, "profile": profile})
            self._scenes[scene] = registry.create("scene_queries", scene, described)
        return self._scenes[scene]

    async def close(self) -> None:
        """End the processes of all scenes."""
        for scene in self._scenes.values():
            await scene.close()


class SceneRays:
    """Rays of simulated vehicles.

    Implements :class:`~vil_bridge.interfaces.ray_casting.RayCaster`.

    Args:
        scenes: that can be asked. world: where the actors are.
        config: of the bridge: rooms and actors.
    """

    def __init__(self, scenes: SceneLibrary, world: WorldView, config: BridgeConfig) -> None:
        self._scenes = scenes
        self._world = world
        self._config = config

    async def cast(
        self,
        scene: str,
        vehicle: tuple[str, str],
        t_ns: int,
        origins_m: FloatArray,
        directions: FloatArray,
        reach_m: float,
    ) -> RayHits:
        """Return the first hits of rays from a vehicle in its source's room, in the weather.

        Actors are hit too.

        Raises:
            RendererError: the scene cannot be had, or cannot answer.
        """
        source, subject = vehicle
        config = self._config
        hide = [
            name for name, a in config.actors.items() if (a.source, a.subject) == (source, subject)
        ]
        room = config.rooms.get(getattr(config.sources[source], "room", ""))
        T = Transform.identity() if room is None else room.T_world_room.transform()
        try:
            asked = self._scenes.of(scene)
        except ConfigError as exc:
            raise RendererError(str(exc)) from None
        origins = T.apply(origins_m)
        ahead = directions @ T.rotation().T
        snapshot = self._world.snapshot(t_ns)
        weather = weather_at(snapshot, asked.info)
        hits = await asked.cast(*rays_in(weather, origins, ahead), reach_m, snapshot, hide)
        hits = hits_in(weather, hits, reach_m, f"{source}/{subject}", t_ns)
        return RayHits(hits.range_m, hits.instance, np.asarray(hits.normal_world @ T.rotation()))
