"""A scene's splats over the picture of its meshes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel
from vil_renderer.embedded.engine.air import Air
from vil_renderer.embedded.engine.model_light import LightField
from vil_renderer.embedded.engine.shader_frame import LIGHT_TERMS
from vil_renderer.embedded.lru_cache import LruByteCache
from vil_renderer.embedded.scene import Environment, Scene
from vil_renderer.embedded.splats.field import arranged
from vil_renderer.embedded.splats.raster import Projected, project, rasterise
from vil_renderer.embedded.splats.read import read_splats
from vil_renderer.embedded.splats.surroundings import CELLS, surroundings

if TYPE_CHECKING:
    import moderngl

_VERTEX = """
#version 330 core
in vec2 in_p;
void main() { gl_Position = vec4(in_p, 0.0, 1.0); }
"""
_FRAGMENT = """
#version 330 core
uniform sampler2D splats;
uniform sampler2D shade;
uniform bool shaded;
layout(location = 0) out vec4 out_colour;
void main() {
    out_colour = texelFetch(splats, ivec2(gl_FragCoord.xy), 0);
    if (shaded) out_colour.rgb *= texelFetch(shade, ivec2(gl_FragCoord.xy), 0).rgb;
}
"""
_UP: Final = 5
"""Term of the light that grows with the third number of a normal."""
_TEXTURE_BYTES: Final = 256 << 20


class SplatLayer:
    """The splats of one scene; drawn on the CPU, laid over a framebuffer by OpenGL.

    Args:
        ctx: OpenGL.
        scene: one that has splats.

    Raises:
        RendererError: a proxy is absent or movable, or numba is not installed.
        AssetError: the splats cannot be read.
    """

    def __init__(self, ctx: moderngl.Context, scene: Scene) -> None:
        assert scene.splats is not None
        _check_proxy(scene)
        self._ctx = ctx
        self._field = scene.splats.arranged or arranged(read_splats(scene.splats.path))
        self._T_world_splats = scene.splats.T_world_splats
        self._around = surroundings(self._field, self._T_world_splats)
        self._program = ctx.program(vertex_shader=_VERTEX, fragment_shader=_FRAGMENT)
        self._corners = ctx.buffer(np.array([[-1, -1], [3, -1], [-1, 3]], np.float32).tobytes())
        self._triangle = ctx.vertex_array(self._program, [(self._corners, "2f", "in_p")])
        self._textures: LruByteCache[tuple[int, int], moderngl.Texture] = LruByteCache(
            _TEXTURE_BYTES,
            lambda texture: 16 * texture.width * texture.height,
            lambda texture: texture.release(),
        )

    def light_on_models(self, environment: Environment) -> LightField:
        """Return the ambient light of a scene in the colours of the splats around each place."""
        around = self._around
        from_below, from_above = (
            environment.exposure * np.asarray(light) * tint.reshape(-1, 3)
            for light, tint in ((environment.ground, around.below), (environment.sky, around.above))
        )
        terms = np.zeros((len(from_below), LIGHT_TERMS, 4), np.float32)
        terms[:, :3, :3] = 0.5 * (from_below + from_above)[:, None]  # x^2 + y^2 + z^2 is 1
        terms[:, _UP, :3] = 0.5 * (from_above - from_below)
        terms[:, 0, 3] = 1.0
        step_m = around.size_m / (np.array(CELLS) - 1)
        return LightField(around.low_m, step_m, CELLS, terms, np.ones(len(terms), np.float32))

    def draw(
        self,
        target: moderngl.Framebuffer,
        camera: CameraModel,
        T_world_camera: Transform,
        z_m: npt.NDArray[np.float32],
        exposure: float,
        *,
        detail_px: float,
        air: Air | None = None,
        shade: moderngl.Texture | None = None,
    ) -> None:
        """Blend the splats over a framebuffer's first attachment, which holds display values.

        Args:
            target: single-sampled.
            camera: an ideal pinhole.
            T_world_camera: optical axes.
            z_m: (h, w), depth of the meshes that hide splats.
            exposure: factor on display colours.
            detail_px: size of the largest splats that a coarser level may have; 0 = none.
            air: of the weather; None = clear.
            shade: factor on display colours, as large as the framebuffer; None = 1.
        """
        splats = project(
            self._field, camera, T_world_camera, self._T_world_splats, exposure, detail_px=detail_px
        )
        if air is not None:
            _see_through(air, splats, camera)
        size = splats.size_px
        texture = self._textures.get(size, lambda: self._ctx.texture(size, 4, dtype="f4"))
        texture.write(rasterise(splats, z_m))
        ctx = self._ctx
        target.use()
        ctx.enable_only(ctx.BLEND)
        ctx.blend_func = (ctx.ONE, ctx.ONE_MINUS_SRC_ALPHA)
        texture.use(0)
        if shade is not None:
            shade.use(1)
        for name, value in (("splats", 0), ("shade", 1), ("shaded", shade is not None)):
            cast("Any", self._program[name]).value = value
        self._triangle.render(vertices=3)


def _see_through(air: Air, splats: Projected, camera: CameraModel) -> None:
    """Let the air take light from splats and add its own, as it does with surfaces, by their
    distance.
    """
    fx, fy, cx, cy = camera.intrinsics_px
    u = splats.rows[:, 0]
    v = splats.rows[:, 1]
    z_m = splats.rows[:, 6]
    away_m = z_m * np.sqrt(1.0 + ((u - cx) / fx) ** 2 + ((v - cy) / fy) ** 2)
    clear = np.exp(-air.extinction_per_m * away_m)[:, None]
    splats.rows[:, 7:10] = air.display(
        clear * air.linear(splats.rows[:, 7:10]) + (1.0 - clear) * air.light
    )


def _check_proxy(scene: Scene) -> None:
    """Check that the proxy exists and never moves, like splats."""
    assert scene.splats is not None
    movable = {thing.name: thing.movable for thing in scene.objects}
    for name in scene.splats.proxy:
        if movable.get(name, True):
            why = "moves, and splats stand still" if name in movable else "is not in the scene"
            raise RendererError(f"scene {scene.name!r}: {name!r}, the proxy of its splats, {why}")
