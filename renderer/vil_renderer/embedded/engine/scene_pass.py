"""Rendering of one scene at one quality: the passes of a view, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray
from vil_renderer.embedded.engine.detail import ViewPoint
from vil_renderer.embedded.engine.frame import FRAME_BYTES, LightState, frame_block
from vil_renderer.embedded.engine.light import StaticLight
from vil_renderer.embedded.engine.materials import GAMMA, MaterialCache
from vil_renderer.embedded.engine.models import ModelBatch, Moved
from vil_renderer.embedded.engine.profiles import Profile, Shading
from vil_renderer.embedded.engine.programs import FRAME, Programs
from vil_renderer.embedded.engine.shadow import ShadowMap
from vil_renderer.embedded.engine.static import StaticBatch
from vil_renderer.embedded.engine.targets import PassOutput, RenderedView, TargetCache, defines_of, places_of, scratch
from vil_renderer.embedded.engine.vertices import StaticMesh
from vil_renderer.embedded.optics.camera import clip_from_world
from vil_renderer.embedded.scene import SCENE_LAYER, Environment, Lamp
from vil_renderer.embedded.splats.layer import SplatLayer

if TYPE_CHECKING:
    import moderngl

_BEHIND_M: Final = 1.0e4


@dataclass(frozen=True, slots=True, eq=False)
class ViewRequest:
    """One view to draw.

    Attributes:
        models: all that it shows. previous: the camera's pose in its previous picture; None = unknown.
        gain: the camera's factor on all light.
        proxy: with the objects that replace splats.
        blobs: (k, 5): x, y, z, radius and strength of dark patches on the ground.
    """

    camera: CameraModel
    T_world_camera: Transform
    outputs: PassOutput
    models: Sequence[Moved] = ()
    previous: Transform | None = None
    layer: str = ""
    gain: float = 1.0
    proxy: bool = True
    blobs: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 5), np.float32))


class ScenePass:
    """Everything on the GPU for one profile; it belongs to the thread that made the context."""

    def __init__(
        self,
        ctx: moderngl.Context,
        mesh: StaticMesh,
        light: StaticLight,
        profile: Profile,
        splats: SplatLayer | None = None,
    ) -> None:
        self._ctx, self._static_light, self.profile, self._splats = ctx, light, profile, splats
        self._linear = profile.shading is not Shading.VERTEX
        self._samples = min(profile.samples, int(ctx.info["GL_MAX_SAMPLES"]))
        self._programs = Programs(ctx)
        materials = MaterialCache(ctx, profile)
        self._static = StaticBatch(ctx, mesh, self._programs, materials)
        self._models = ModelBatch(ctx, self._programs, materials, profile.lod_px)
        self._targets = TargetCache(ctx)
        self._scratch = scratch()
        self._frame = ctx.buffer(reserve=FRAME_BYTES, dynamic=True)
        self._shadow: ShadowMap | None = None
        if profile.shadow_px and len(mesh.vertices):
            p = mesh.vertices["p"]
            self._shadow = ShadowMap(ctx, profile.shadow_px, p.min(axis=0), p.max(axis=0))
        self._state: LightState | None = None
        self._sky: dict[moderngl.Program, moderngl.VertexArray] = {}
        self._corners = ctx.buffer(np.array([[-1, -1], [3, -1], [-1, 3]], np.float32).tobytes())
        self._patches = _Patches(ctx, self._programs.blob())

    def set_light(self, environment: Environment, lamps: Sequence[Lamp]) -> None:
        """Change the light; static vertices are baked again."""
        self._static.set_light(self._static_light.bake(environment, lamps, display=not self._linear))
        state = LightState(environment, lamps, np.eye(4))
        if self._shadow is not None and environment.sun is not None:
            self._shadow.aim(environment.sun.to_sun)
            self._shadow.draw(self._static, self._models, [])
            state = LightState(
                environment, lamps, self._shadow.shadow_from_world, self._shadow.texel, self._shadow.lift_m
            )
        self._state = state

    def draw(self, request: ViewRequest) -> RenderedView:
        """Draw a view; the picture is valid until the next one of its size."""
        assert self._state is not None, "set_light comes first"
        self._targets.tidy()
        if self._shadow is not None and self.profile.moving_shadows and PassOutput.COLOUR in request.outputs:
            self._shadow.draw(self._static, self._models, list(request.models))
        prev = request.previous or request.T_world_camera
        exposure = request.gain if self._linear else request.gain ** (1.0 / GAMMA)
        block = frame_block(
            request.camera, request.T_world_camera, clip_from_world(request.camera, prev), self._state, exposure
        )
        self._frame.write(block)
        size = (request.camera.width_px, request.camera.height_px)
        splats = self._splats if request.layer in ("", SCENE_LAYER) else None
        if PassOutput.COLOUR not in request.outputs or (self._samples <= 1 and splats is None):
            target = self._targets.get(size, request.outputs)
            self._pass(target, request, request.outputs)
            return RenderedView(size, places_of(target, request.outputs), self._scratch)
        return self._two_passes(size, request, splats)

    def _two_passes(self, size: tuple[int, int], request: ViewRequest, splats: SplatLayer | None) -> RenderedView:
        """Draw colour with many samples and splats, the rest with one: an edge never averages ids, depth or flow."""
        colour = self._smooth_colour(size, request) if splats is None else self._colour_with(splats, size, request)
        places = {PassOutput.COLOUR: (colour, 0)}
        rest = request.outputs & ~PassOutput.COLOUR
        if rest:
            target = self._targets.get(size, rest)
            self._pass(target, request, rest)
            places |= places_of(target, rest)
        return RenderedView(size, places, self._scratch)

    def _smooth_colour(self, size: tuple[int, int], request: ViewRequest) -> moderngl.Framebuffer:
        many = self._targets.get(size, PassOutput.COLOUR, self._samples)
        self._pass(many, request, PassOutput.COLOUR)
        one = self._targets.get(size, PassOutput.COLOUR)
        self._ctx.copy_framebuffer(one, many)
        return one

    def _colour_with(self, splats: SplatLayer, size: tuple[int, int], request: ViewRequest) -> moderngl.Framebuffer:
        """Draw splats over the meshes without their proxy, hidden by nearer ones of these."""
        without_proxy = replace(request, proxy=False)
        outputs = PassOutput.Z if self._samples > 1 else PassOutput.COLOUR | PassOutput.Z
        target = self._targets.get(size, outputs)
        self._pass(target, without_proxy, outputs)
        z_m = RenderedView(size, places_of(target, outputs), self._scratch).z_m()
        if self._samples > 1:
            target, outputs = self._smooth_colour(size, without_proxy), PassOutput.COLOUR
        _write_only_colour(target, len(places_of(target, outputs)))
        splats.draw(target, request.camera, request.T_world_camera, z_m, request.gain ** (1.0 / GAMMA))
        _write_all(target, len(places_of(target, outputs)))
        return target

    def _pass(self, target: moderngl.Framebuffer, request: ViewRequest, outputs: PassOutput) -> None:
        ctx = self._ctx
        colour = PassOutput.COLOUR in outputs
        defines = {"SHADING": int(self.profile.shading) if colour else 0, **defines_of(outputs)}
        if colour and self._state is not None and self._state.texel:
            defines["SHADOW"] = 1
        if colour and self._state is not None and self._state.lamps:
            defines["LAMPS"] = 1
        target.use()
        target.clear(depth=1.0)
        ctx.enable_only(ctx.DEPTH_TEST | ctx.CULL_FACE)
        ctx.front_face = "cw"  # counter-clockwise in the world, mirrored by the image's downward y
        ctx.depth_func = "<"
        # Alpha adds up as it does in a premultiplied picture.
        cast("Any", ctx).blend_func = (ctx.SRC_ALPHA, ctx.ONE_MINUS_SRC_ALPHA, ctx.ONE, ctx.ONE_MINUS_SRC_ALPHA)
        self._frame.bind_to_uniform_block(FRAME)
        if self._shadow is not None:
            self._shadow.use()
        self._models.bind_joints()
        prev = request.previous or request.T_world_camera
        behind_m = prev.p_m - _BEHIND_M * prev.rotation()[:, 2]
        clip = clip_from_world(request.camera, request.T_world_camera)
        viewpoint = ViewPoint(request.T_world_camera.p_m, max(request.camera.intrinsics_px[:2]), behind_m, clip)
        self._models.draw(request.models, defines, viewpoint, blended=False)
        self._static.draw(clip, viewpoint.eye_m, defines, request.layer, blended=False, proxy=request.proxy)
        self._draw_background(request, outputs)
        if colour:
            self._draw_over(target, request, outputs, defines, clip, viewpoint)

    def _draw_background(self, request: ViewRequest, outputs: PassOutput) -> None:
        """Draw the sky wherever nothing was drawn; nothing behind a single layer."""
        ctx = self._ctx
        defines: dict[str, object] = {"SHADING": int(self.profile.shading), **defines_of(outputs)}
        if request.layer:
            defines["NOTHING"] = 1
        program = self._programs.sky(defines)
        if program not in self._sky:
            used = "in_p" if "in_p" in program else ""
            self._sky[program] = ctx.vertex_array(program, [(self._corners, "2f", used)])
        ctx.depth_func = "<="
        ctx.disable(ctx.CULL_FACE)
        self._sky[program].render(vertices=3)

    def _draw_over(
        self, target: moderngl.Framebuffer, request: ViewRequest, outputs: PassOutput, defines: dict[str, object],
        clip: FloatArray, viewpoint: ViewPoint,
    ) -> None:  # fmt: skip
        """Draw dark patches below actors, and translucent parts: colour only, depth stays."""
        ctx = self._ctx
        count = len(places_of(target, outputs))
        ctx.enable(ctx.BLEND)
        target.depth_mask = False
        _write_only_colour(target, count)
        if len(request.blobs) and not self.profile.moving_shadows:
            ctx.polygon_offset = (-2.0, -32.0)
            self._patches.draw(request.blobs)
            ctx.polygon_offset = (0.0, 0.0)
        self._static.draw(clip, viewpoint.eye_m, defines, request.layer, blended=True, proxy=request.proxy)
        self._models.draw(request.models, defines, viewpoint, blended=True)
        target.depth_mask = True
        _write_all(target, count)
        ctx.disable(ctx.BLEND)


def _write_only_colour(target: moderngl.Framebuffer, count: int) -> None:
    if count > 1:
        cast("Any", target).color_mask = tuple((i == 0,) * 4 for i in range(count))


def _write_all(target: moderngl.Framebuffer, count: int) -> None:
    if count > 1:
        cast("Any", target).color_mask = ((True,) * 4,) * count


class _Patches:
    """Flat patches, drawn as instances of one square; the shader makes them round."""

    def __init__(self, ctx: moderngl.Context, program: moderngl.Program) -> None:
        self._ctx, self._program = ctx, program
        self._square = ctx.buffer(np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]], np.float32).tobytes())
        self._allocate(16)

    def _allocate(self, rows: int) -> None:
        self._rows = rows
        self._places = self._ctx.buffer(reserve=rows * 20, dynamic=True)
        instance = cast("Any", (self._places, "3f 2f/i", "in_place", "in_shape"))
        self._array = self._ctx.vertex_array(self._program, [(self._square, "2f", "in_p"), instance])

    def draw(self, blobs: npt.NDArray[np.float32]) -> None:
        if len(blobs) > self._rows:
            self._array.release()
            self._places.release()
            self._allocate(2 * len(blobs))
        self._places.orphan()
        self._places.write(np.ascontiguousarray(blobs, np.float32))
        self._array.render(self._ctx.TRIANGLE_STRIP, instances=len(blobs))
