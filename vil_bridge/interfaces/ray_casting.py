"""Rays of sensors of simulated vehicles: what a source asks the bridge for."""

from __future__ import annotations

from typing import Protocol

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.scene_queries import RayHits


class RayCaster(Protocol):
    """Rays through a scene and everything that moves in the world; loop thread."""

    async def cast(
        self,
        scene: str,
        vehicle: tuple[str, str],
        t_ns: int,
        origins_m: FloatArray,
        directions: FloatArray,
        reach_m: float,
    ) -> RayHits:
        """Return the first hits of a laser's rays from a vehicle, which they pass through, in the
        weather.

        Args:
            scene: its name or file, placed in the world as renderers place it.
            vehicle: source and subject.
            t_ns: bridge time at which the other actors are taken.
            origins_m: (n, 3), room of the source.
            directions: unit vectors (n, 3), likewise.
            reach_m: longest range.

        Raises:
            RendererError: the scene cannot be had, or cannot answer.
        """
        ...
