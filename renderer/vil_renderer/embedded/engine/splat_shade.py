"""Shade on splats, by the surface that these show.

The dark patches and the shadow map that meshes have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.engine.detail import ViewPoints
from vil_renderer.embedded.engine.ground_patches import GroundPatches
from vil_renderer.embedded.engine.programs import PassOptions, Programs
from vil_renderer.embedded.engine.shader_frame import NO_SURFACE_M
from vil_renderer.embedded.engine.static import StaticBatch
from vil_renderer.embedded.engine.targets import PassOutput, TargetCache
from vil_renderer.embedded.optics.camera import NEAR_M, in_view

if TYPE_CHECKING:
    import moderngl

_HIGH_M: Final = 0.25
"""Reach of a patch above and below its level: the surface of splats is rough."""
_SLOT: Final = -1
"""Of framebuffers that nothing reads back."""
_CORNERS: Final = np.array(
    [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float32
)
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
_WHOLE: Final = np.array([[-1.0, -1.0], [1.0, 1.0]])
_NOTHING: Final = (1.0, 1.0, 1.0, 1.0)


class SplatShade:
    """Factor on the light of splats where something stands between them and the sun or the sky.

    Args:
        ctx: OpenGL.
        programs: of the pass.
        static: it has the surface that replaces the splats in depth; where there is none, nothing
            is shaded.
        targets: framebuffers of the pass.
    """

    def __init__(
        self, ctx: moderngl.Context, programs: Programs, static: StaticBatch, targets: TargetCache
    ) -> None:
        self._ctx = ctx
        self._static = static
        self._targets = targets
        below = programs.splat_shade(_HIGH_M)
        sun = programs.splat_sun()
        for program, name, slot in (
            (below, "surface_map", 0),
            (sun, "surface_map", 0),
            (sun, "surface_normal_map", 1),
        ):
            cast("Any", program[name]).value = slot
        self._patches = GroundPatches(ctx, below, _CORNERS[list(_INSIDE)])
        self._corners = ctx.buffer(
            np.array([[-1, -1, 0], [-1, 3, 0], [3, -1, 0]], np.float32).tobytes()
        )
        self._sun = ctx.vertex_array(sun, [(self._corners, "3f", "in_p")])

    def below(
        self, size_px: tuple[int, int], view: ViewPoints, blobs: npt.NDArray[np.float32]
    ) -> moderngl.Texture | None:
        """Return the factor on display colours, 1 outside of all patches.

        None = the view shows no patch.

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
        surface = self._surface(size_px, view, window, PassOutput.Z)
        target = self._cleared(size_px)
        self._ctx.enable(self._ctx.BLEND)
        self._ctx.blend_func = self._ctx.SRC_ALPHA, self._ctx.ONE_MINUS_SRC_ALPHA
        surface[0].use(0)
        self._patches.draw(blobs)
        return target

    def from_sun(self, size_px: tuple[int, int], view: ViewPoints) -> moderngl.Texture:
        """Return the factor on display colours, 1 where the sun shines.

        Arguments as of :meth:`below`.

        Its shadow map is bound, without the surface that replaces the splats: these show their own
        shadows.

        Args:
            size_px: as there.
            view: as there.
        """
        z, normal = self._surface(size_px, view, _WHOLE, PassOutput.Z | PassOutput.NORMAL)
        target = self._cleared(size_px)
        z.use(0)
        normal.use(1)
        self._sun.render(vertices=3)
        return target

    def _cleared(self, size_px: tuple[int, int]) -> moderngl.Texture:
        """Bind a framebuffer for the factor, 1 everywhere, and return its texture."""
        target = self._targets.get(size_px, PassOutput.COLOUR, slot=_SLOT)
        target.use()
        target.clear(*_NOTHING)
        self._ctx.enable_only(self._ctx.CULL_FACE)
        self._ctx.front_face = "cw"
        return cast("moderngl.Texture", target.color_attachments[0])

    def _surface(
        self, size_px: tuple[int, int], view: ViewPoints, window: FloatArray, outputs: PassOutput
    ) -> Sequence[moderngl.Texture]:
        """Return outputs of the splats' surface in a window of a view.

        Its z-depth is far where there is none.
        """
        assert view.clip_from_world is not None
        ctx = self._ctx
        target = self._targets.get(size_px, outputs, slot=_SLOT)
        target.use()
        target.clear(NO_SURFACE_M, depth=1.0)
        ctx.enable_only(ctx.DEPTH_TEST | ctx.CULL_FACE)
        ctx.front_face = "cw"
        ctx.depth_func = "<"
        middle = window.mean(axis=0)
        half = 0.5 * (window[1] - window[0])
        narrow = view.clip_from_world.copy()
        narrow[0, :2] = (narrow[0, :2] - middle[:, None] * narrow[0, 3]) / half[:, None]
        draws = self._static.draws(replace(view, clip_from_world=narrow), [""], meshes=False)
        pixels = 0.5 * (window + 1.0) * size_px
        low, high = (
            np.clip(edge, 0, size_px).astype(int)
            for edge in (np.floor(pixels[0]), np.ceil(pixels[1]))
        )
        target.scissor = (*low.tolist(), *(high - low).tolist())
        self._static.draw(draws, 0, PassOptions(shading=0, outputs=int(outputs)))
        target.scissor = (0, 0, *size_px)
        return cast("Sequence[moderngl.Texture]", target.color_attachments)


def _window(clip_from_world: FloatArray, blobs: npt.NDArray[np.float32]) -> FloatArray | None:
    """Return the lowest and highest x and y, -1 to 1, at which patches may be seen, (2, 2).

    None = nowhere.
    """
    size_m = np.column_stack((blobs[:, 3], blobs[:, 3], np.full(len(blobs), _HIGH_M)))
    corners = (blobs[:, None, :3] + _CORNERS * size_m[:, None]).reshape(-1, 3)
    x, y, _, w = clip_from_world @ np.column_stack((corners, np.ones(len(corners)))).T
    if (w < NEAR_M).any():
        return _WHOLE
    found = np.stack((x / w, y / w), axis=1)
    window = np.clip([found.min(axis=0), found.max(axis=0)], -1.0, 1.0)
    return window if (window[1] > window[0]).all() else None
