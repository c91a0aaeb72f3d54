"""Shade of actors on splats, by the surface that these show: the same dark patches as on the ground of meshes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.engine.detail import ViewPoints
from vil_renderer.embedded.engine.ground_patches import GroundPatches
from vil_renderer.embedded.engine.programs import PassOptions, Programs
from vil_renderer.embedded.engine.shader_vertex import NO_SURFACE_M
from vil_renderer.embedded.engine.static import StaticBatch
from vil_renderer.embedded.engine.targets import PassOutput, TargetCache
from vil_renderer.embedded.optics.camera import NEAR_M, in_view

if TYPE_CHECKING:
    import moderngl

_HIGH_M: Final = 0.25
"""Reach of a patch above and below its level: the surface of splats is rough."""
_SLOT: Final = -1
"""Of framebuffers that nothing reads back."""
_CORNERS: Final = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float32)
_INSIDE: Final = (
    0,
    2,
    3,
    0,
    3,
    1,
    4,
    5,
    7,
    4,
    7,
    6,
    0,
    1,
    5,
    0,
    5,
    4,
    2,
    6,
    7,
    2,
    7,
    3,
    0,
    4,
    6,
    0,
    6,
    2,
    1,
    3,
    7,
    1,
    7,
    5,
)
"""Triangles of a cube that are seen from inside: a camera may stand in a patch."""
_NOTHING: Final = (1.0, 1.0, 1.0, 1.0)


class SplatShade:
    """Factor on the light of splats where actors stand above them.

    Args:
        ctx: OpenGL.
        programs: of the pass.
        static: it has the surface that replaces the splats in depth; where there is none, nothing is shaded.
        targets: framebuffers of the pass.
    """

    def __init__(self, ctx: moderngl.Context, programs: Programs, static: StaticBatch, targets: TargetCache) -> None:
        self._ctx, self._static, self._targets = ctx, static, targets
        self._program = programs.splat_shade(_HIGH_M)
        cast("Any", self._program["surface_map"]).value = 0
        self._patches = GroundPatches(ctx, self._program, _CORNERS[list(_INSIDE)])

    def draw(
        self, size_px: tuple[int, int], view: ViewPoints, blobs: npt.NDArray[np.float32]
    ) -> moderngl.Texture | None:
        """Return the factor on display colours, 1 outside of all patches; None = the view shows no patch.

        Args:
            size_px: width and height of the picture.
            view: one viewpoint; its frame block is bound.
            blobs: (k, 5): place, radius and strength of the patches.
        """
        assert view.clip_from_world is not None
        clip = view.clip_from_world[0]
        reach_m = np.hypot(np.sqrt(2.0) * blobs[:, 3], _HIGH_M)
        blobs = blobs[in_view(clip[None], blobs[:, :3].astype(np.float64), reach_m)[0]]
        window = _window(clip, blobs) if len(blobs) else None
        if window is None:
            return None
        surface = self._surface(size_px, view, window)
        ctx, target = self._ctx, self._targets.get(size_px, PassOutput.COLOUR, slot=_SLOT)
        target.use()
        target.clear(*_NOTHING)
        ctx.enable_only(ctx.BLEND | ctx.CULL_FACE)
        ctx.front_face = "cw"
        ctx.blend_func = ctx.SRC_ALPHA, ctx.ONE_MINUS_SRC_ALPHA
        surface.use(0)
        self._patches.draw(blobs)
        return cast("moderngl.Texture", target.color_attachments[0])

    def _surface(self, size_px: tuple[int, int], view: ViewPoints, window: FloatArray) -> moderngl.Texture:
        """Return the z-depth of the splats' surface in a window of a view, metres; far where there is none."""
        assert view.clip_from_world is not None
        ctx, target = self._ctx, self._targets.get(size_px, PassOutput.Z, slot=_SLOT)
        target.use()
        target.clear(NO_SURFACE_M, depth=1.0)
        ctx.enable_only(ctx.DEPTH_TEST | ctx.CULL_FACE)
        ctx.front_face, ctx.depth_func = "cw", "<"
        middle, half = window.mean(axis=0), 0.5 * (window[1] - window[0])
        narrow = view.clip_from_world.copy()
        narrow[0, :2] = (narrow[0, :2] - middle[:, None] * narrow[0, 3]) / half[:, None]
        draws = self._static.draws(replace(view, clip_from_world=narrow), [""], meshes=False)
        pixels = np.rint(0.5 * (window + 1.0) * size_px + (-0.5, 0.5))
        low, high = (np.clip(corner, 0, size_px).astype(int) for corner in (np.floor(pixels[0]), np.ceil(pixels[1])))
        target.scissor = (*low.tolist(), *(high - low).tolist())
        self._static.draw(draws, 0, PassOptions(shading=0, outputs=int(PassOutput.Z)))
        target.scissor = (0, 0, *size_px)
        return cast("moderngl.Texture", target.color_attachments[0])


def _window(clip_from_world: FloatArray, blobs: npt.NDArray[np.float32]) -> FloatArray | None:
    """Return the lowest and highest x and y, -1 to 1, at which patches may be seen, (2, 2); None = nowhere."""
    size_m = np.column_stack((blobs[:, 3], blobs[:, 3], np.full(len(blobs), _HIGH_M)))
    corners = (blobs[:, None, :3] + _CORNERS * size_m[:, None]).reshape(-1, 3)
    x, y, _, w = clip_from_world @ np.column_stack((corners, np.ones(len(corners)))).T
    if (w < NEAR_M).any():
        return np.array([[-1.0, -1.0], [1.0, 1.0]])
    found = np.stack((x / w, y / w), axis=1)
    window = np.clip([found.min(axis=0), found.max(axis=0)], -1.0, 1.0)
    return window if (window[1] > window[0]).all() else None
