"""Questions to a scene: pictures and rays at any instant, and the scene's objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, RenderedImage, View, WorldSnapshot


@dataclass(frozen=True, slots=True)
class QueriedObject:
    """An object of the scene.

    Attributes:
        T_world_object: its pose. size_m: of its bounding box in its own axes.
        instance: its id in INSTANCE pictures and ray hits. movable: it can be moved and destroyed.
    """

    name: str
    T_world_object: Transform
    size_m: tuple[float, float, float]
    instance: int
    movable: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RayHits:
    """First hits of n rays.

    Attributes:
        range_m: (n,), infinity = none. instance: (n,) of what was hit, 0 = nothing.
        normal_world: (n, 3), towards the ray's origin; zeros where nothing was hit.
    """

    range_m: FloatArray
    instance: npt.NDArray[np.uint32]
    normal_world: FloatArray


class SceneQueries(Protocol):
    """A scene that answers questions one after another; loop thread.

    Attributes:
        info: the scene's name, the renderer's strings.
    """

    info: Mapping[str, object]

    async def images(self, views: Sequence[View], snapshot: WorldSnapshot) -> tuple[RenderedImage, ...]:
        """Return pictures of the views, in their order, all of the snapshot's instant.

        Raises:
            RendererError: the scene's process ended, or cannot draw that.
        """
        ...

    async def cast(
        self,
        origins_m: FloatArray,
        directions: FloatArray,
        reach_m: float,
        snapshot: WorldSnapshot,
        hide: Sequence[str] = (),
    ) -> RayHits:
        """Return the first hits of rays; origins (n, 3) and unit directions (n, 3) in the world, actors included."""
        ...

    async def objects(self) -> Mapping[str, QueriedObject]:
        """Return the scene's objects by name; without the actors of the world."""
        ...

    async def close(self) -> None:
        """End the scene's process and release its memory."""
        ...
