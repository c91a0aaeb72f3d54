"""The sun's shadow map: static objects are drawn once for each place of the sun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.engine.frame import FRAME_BYTES, depth_block
from vil_renderer.embedded.engine.materials import SHADOW_SLOT
from vil_renderer.embedded.engine.model_draws import ModelDraws
from vil_renderer.embedded.engine.models import ModelBatch
from vil_renderer.embedded.engine.programs import FRAME, PassOptions
from vil_renderer.embedded.engine.static import StaticBatch

if TYPE_CHECKING:
    import moderngl

_MARGIN_M: Final = 0.5
_LIFT_TEXELS: Final = 1.5
_DEPTH_CLAMP: Final = 0x864F
_DEPTH_ONLY: Final = PassOptions(shading=0, outputs=0)


class ShadowMap:
    """Depth as the sun sees the scene.

    Attributes:
        shadow_from_world: (4, 4), to 0..1 in the map. texel: one texel in those coordinates.
            lift_m: how far a surface is lifted off itself before it is looked up, so that it does
            not shade itself.
    """

    def __init__(
        self, ctx: moderngl.Context, side_px: int, low_m: FloatArray, high_m: FloatArray
    ) -> None:
        self._ctx = ctx
        ends_m = (low_m, high_m)
        self._corners = np.array(
            [(ends_m[i][0], ends_m[j][1], ends_m[k][2]) for i, j, k in np.ndindex(2, 2, 2)]
        )
        depth = cast("Any", ctx).depth_texture((side_px, side_px))
        depth.compare_func = "<="
        depth.filter = (ctx.LINEAR, ctx.LINEAR)
        depth.repeat_x = depth.repeat_y = False
        self._depth = depth
        self._target = ctx.framebuffer(depth_attachment=depth)
        self._block = ctx.buffer(reserve=FRAME_BYTES, dynamic=True)
        self._clip = np.eye(4)
        self.shadow_from_world = np.eye(4)
        self.texel = 1.0 / side_px
        self.lift_m = 0.0

    def aim(self, to_sun: FloatArray) -> None:
        """Look along the sun's rays at everything, (3,)."""
        aside = np.array([1.0, 0.0, 0.0]) if abs(to_sun[0]) < 0.9 else np.array([0.0, 1.0, 0.0])
        x = cross(aside, to_sun)
        x /= np.linalg.norm(x)
        # Mirrored as pictures are: one front face for both.
        axes = np.array([-x, cross(to_sun, x), -to_sun])
        local = self._corners @ axes.T
        low = local.min(axis=0) - _MARGIN_M
        high = local.max(axis=0) + _MARGIN_M
        self._clip = np.eye(4)
        self._clip[:3, :3] = axes * (2.0 / (high - low))[:, None]
        self._clip[:3, 3] = -(high + low) / (high - low)
        half = np.array([0.5, 0.5, 0.5, 1.0])
        self.shadow_from_world = half[:, None] * self._clip
        self.shadow_from_world[:3] += 0.5 * self._clip[3]
        self.lift_m = _LIFT_TEXELS * float(np.max(high[:2] - low[:2])) * self.texel

    def draw(
        self,
        static: StaticBatch,
        models: ModelBatch,
        moving: ModelDraws | None = None,
        *,
        proxy: bool = True,
    ) -> None:
        """Draw all that casts a shadow, with what replaces splats.

        The caller binds its own frame block again.
        """
        ctx = self._ctx
        self._block.write(depth_block(self._clip))
        self._block.bind_to_uniform_block(FRAME)
        self._target.use()
        self._target.clear(depth=1.0)
        ctx.enable_only(ctx.DEPTH_TEST | ctx.CULL_FACE)
        # Objects nearer to the sun than all static ones cast a shadow, too.
        ctx.enable_direct(_DEPTH_CLAMP)
        ctx.front_face = "cw"
        ctx.depth_func = "<"
        ctx.polygon_offset = (1.5, 4.0)
        static.draw_depth(_DEPTH_ONLY, proxy=proxy)
        if moving is not None:
            models.bind_joints()
            models.draw(moving, 0, _DEPTH_ONLY)
        ctx.polygon_offset = (0.0, 0.0)
        ctx.disable_direct(_DEPTH_CLAMP)

    def use(self) -> None:
        """Bind it for the surface shader."""
        self._depth.use(SHADOW_SLOT)
