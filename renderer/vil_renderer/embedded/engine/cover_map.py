"""Roofs of a scene on the GPU.

A map of heights that shaders compare with, as they do with the sun's shadow map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vil_renderer.embedded.engine.materials import COVER_SLOT
from vil_renderer.embedded.geometry.sky_cover import SkyCover

if TYPE_CHECKING:
    import moderngl


class CoverMap:
    """Texture of the heights of a scene's roofs."""

    def __init__(self, ctx: moderngl.Context, cover: SkyCover) -> None:
        self.cover = cover
        rows, columns = cover.height_m.shape
        share = (cover.height_m - cover.low_m[2]) / cover.size_m[2]
        depth = cast("Any", ctx).depth_texture(
            (columns, rows), np.clip(share, 0.0, 1.0).astype("f4").tobytes()
        )
        depth.compare_func = ">="
        depth.filter = (ctx.LINEAR, ctx.LINEAR)
        depth.repeat_x = depth.repeat_y = False
        self._depth = depth

    def use(self) -> None:
        """Bind it for the surface shader."""
        self._depth.use(COVER_SLOT)

    def release(self) -> None:
        """Release its memory."""
        self._depth.release()
