"""Rendering of one scene at one quality: the passes of a view, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, CameraModel
from vil_bridge.core.weather import FINE, Weather
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.engine.air import Air, air_of, airlight, falling_share, snow_gain
from vil_renderer.embedded.engine.cover_map import CoverMap
from vil_renderer.embedded.engine.detail import ViewPoints
from vil_renderer.embedded.engine.frame import FRAME_BYTES, LightState, Shot, frames_of
from vil_renderer.embedded.engine.ground_patches import SQUARE, GroundPatches
from vil_renderer.embedded.engine.light import SurfaceLight
from vil_renderer.embedded.engine.materials import GAMMA, MaterialCache
from vil_renderer.embedded.engine.model_draws import ModelDraws
from vil_renderer.embedded.engine.model_light import LightField, ModelLightMap
from vil_renderer.embedded.engine.models import ModelBatch
from vil_renderer.embedded.engine.opengl import OpenGL
from vil_renderer.embedded.engine.particle_draws import ParticleDraws
from vil_renderer.embedded.engine.profiles import Profile, Shading
from vil_renderer.embedded.engine.programs import FRAME, PassOptions
from vil_renderer.embedded.engine.shadow import ShadowMap
from vil_renderer.embedded.engine.splat_layer import SplatLayer
from vil_renderer.embedded.engine.splat_shade import SplatShade
from vil_renderer.embedded.engine.static import StaticBatch, StaticDraws
from vil_renderer.embedded.engine.targets import (
    PassOutput,
    RenderedView,
    TargetCache,
    places_of,
    write_first,
)
from vil_renderer.embedded.engine.translucent import TranslucentPart, draw_translucent
from vil_renderer.embedded.engine.vertices import StaticMesh
from vil_renderer.embedded.geometry.sky_cover import SkyCover
from vil_renderer.embedded.optics.camera import FAR_M
from vil_renderer.embedded.posed_models import PosedModels
from vil_renderer.embedded.scene import SCENE_LAYER, Environment, Lamp
from vil_renderer.embedded.splats.field import DETAIL_PX

if TYPE_CHECKING:
    import moderngl


@dataclass(frozen=True, slots=True, eq=False)
class ViewRequest:
    """One view to draw.

    Attributes:
        shown: which of the models, (n,). before: the models in the camera's previous picture; None
            = unknown.
        previous: the camera's pose in its previous picture; None = unknown.
        gain: the camera's factor on all light. alpha: colour is read with its alpha.
        blobs: (k, 5): x, y, z, radius and strength of dark patches on the ground.
        t_ns: of the picture. before_ns: of the previous one. open_s: time for which the shutter is
            open.
    """

    camera: CameraModel
    T_world_camera: Transform
    outputs: PassOutput
    shown: BoolArray = field(default_factory=lambda: np.zeros(0, np.bool_))
    before: PosedModels | None = None
    previous: Transform | None = None
    layer: str = ""
    gain: float = 1.0
    alpha: bool = False
    blobs: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 5), np.float32))
    t_ns: int = 0
    before_ns: int = 0
    open_s: float = 0.0


class _Batch:
    """Views that are drawn one after the other before any is read, and all that they have in
    common.
    """

    def __init__(
        self,
        requests: Sequence[ViewRequest],
        posed: PosedModels,
        static: StaticBatch,
        views: ViewPoints,
    ) -> None:
        self.requests = requests
        self.posed = posed
        self._static = static
        self._views = views
        shown = np.array([request.shown for request in requests]).reshape(len(requests), len(posed))
        before = [request.before for request in requests]
        cameras = [request.camera.name for request in requests]
        self.models = ModelDraws(posed, shown, before, views, cameras)
        self._draws: dict[bool, StaticDraws] = {}

    def view(self, index: int) -> ViewPoints:
        """Return one of the viewpoints."""
        return self._views.only(index)

    def static(self, *, proxy: bool) -> StaticDraws:
        """Return the draws of the opaque part of the static mesh."""
        if proxy not in self._draws:
            layers = [request.layer for request in self.requests]
            self._draws[proxy] = self._static.draws(self._views, layers, proxy=proxy)
        return self._draws[proxy]

    def translucent(self, index: int, *, proxy: bool) -> list[TranslucentPart]:
        """Return the translucent parts of the static mesh in a view."""
        return self._static.translucent(self._views, index, self.requests[index].layer, proxy=proxy)


class ScenePass:
    """Everything on the GPU for one profile; it belongs to the thread that made the context.

    Draws up to ``far_m``.

    Attributes:
        static_light: what :meth:`set_light` bakes.
    """

    def __init__(
        self,
        opengl: OpenGL,
        mesh: StaticMesh,
        light: SurfaceLight,
        profile: Profile,
        splats: SplatLayer | None = None,
        *,
        far_m: float = FAR_M,
    ) -> None:
        self._far_m = far_m
        ctx = opengl.ctx
        self._ctx = ctx
        self.static_light = light
        self.profile = profile
        self._splats = splats
        self._linear = profile.shading is not Shading.VERTEX
        self._samples = min(profile.samples, int(ctx.info["GL_MAX_SAMPLES"]))
        self._programs = opengl.programs
        materials = MaterialCache(ctx, profile)
        self._static = StaticBatch(ctx, mesh, self._programs, materials)
        self._models = ModelBatch(ctx, self._programs, materials, profile.lod_px)
        self._targets = TargetCache(ctx)
        self._readback = opengl.readback
        self._frames = ctx.buffer(reserve=FRAME_BYTES, dynamic=True)
        self._shadow: ShadowMap | None = None
        p = mesh.vertices["p"]
        self._bounds_m = (p.min(axis=0), p.max(axis=0)) if len(p) else None
        self._state: LightState | None = None
        self._sky: dict[moderngl.Program, moderngl.VertexArray] = {}
        self._corners = ctx.buffer(np.array([[-1, -1], [3, -1], [-1, 3]], np.float32).tobytes())
        self._patches = GroundPatches(ctx, self._programs.blob(), SQUARE)
        self._shade: SplatShade | None = None
        if splats is not None:
            self._shade = SplatShade(ctx, self._programs, self._static, self._targets)
        self._toned = mesh.atlas_uv is not None
        self._weather = FINE
        self._particles = ParticleDraws(
            ctx, self._programs, int(profile.shading), toned=self._toned
        )
        self._roofs: CoverMap | None = None
        self._around: LightField | None = None
        self._model_light = ModelLightMap(ctx)

    def set_light(self, environment: Environment, lamps: Sequence[Lamp]) -> None:
        """Change the light; static vertices are baked again."""
        self._static.set_light(self.static_light.bake(environment, lamps, display=not self._linear))
        environment, self._around = self.static_light.on_models(
            environment, display=not self._linear
        )
        if self._splats is not None and self._around is None:
            self._around = self._splats.light_on_models(environment)
        state = LightState(environment, lamps, np.eye(4), weather=self._weather, cover=self._cover)
        if environment.sun is not None and (shadow := self._shadow_map()) is not None:
            shadow.aim(environment.sun.to_sun)
            shadow.draw(self._static, self._models)
            mapped = shadow.shadow_from_world
            state = replace(
                state, shadow_from_world=mapped, texel=shadow.texel, lift_m=shadow.lift_m
            )
        self._state = state

    def _shadow_map(self) -> ShadowMap | None:
        """Return the sun's shadow map, made for the first sun.

        None = this profile or this scene has none.
        """
        if self._shadow is None and self.profile.shadow_px and self._bounds_m is not None:
            self._shadow = ShadowMap(self._ctx, self.profile.shadow_px, *self._bounds_m)
        return self._shadow

    @property
    def _cover(self) -> SkyCover | None:
        return None if self._roofs is None else self._roofs.cover

    def set_weather(self, weather: Weather, cover: SkyCover | None) -> None:
        """Change the weather and the roofs that stop it; nothing is baked again."""
        self._weather = weather
        if cover is not self._cover:
            if self._roofs is not None:
                self._roofs.release()
            self._roofs = None if cover is None else CoverMap(self._ctx, cover)
        if self._state is not None:
            self._state = replace(self._state, weather=weather, cover=cover)

    def prepare(self, assets: Iterable[Asset]) -> None:
        """Work out what the first pictures of models need."""
        self._models.prepare(assets)

    def draw(self, requests: Sequence[ViewRequest], posed: PosedModels) -> list[RenderedView]:
        """Draw views of the same models; the pictures are valid until the next call.

        Nothing waits for a picture before all are drawn: one is rasterised while the next one is
        prepared.
        """
        assert self._state is not None, "set_light comes first"
        self._targets.tidy()
        frames = frames_of([self._shot(request) for request in requests], self._state, self._far_m)
        if self._frames.size < frames.blocks.nbytes:
            self._frames.release()
            self._frames = self._ctx.buffer(reserve=frames.blocks.nbytes, dynamic=True)
        self._frames.write(frames.blocks)
        if self._around is not None and len(posed):
            self._model_light.send(self._around, posed.p_m)
        batch = _Batch(requests, posed, self._static, frames.views)
        return [self._draw(batch, index) for index in range(len(requests))]

    def _shot(self, request: ViewRequest) -> Shot:
        gain = self._gain(request)
        if not self._linear:
            gain = gain ** (1.0 / GAMMA)
        times = request.t_ns, request.before_ns, request.open_s
        return Shot(
            request.camera,
            request.T_world_camera,
            request.previous or request.T_world_camera,
            gain,
            *times,
        )

    def _gain(self, request: ViewRequest) -> float:
        """Return the factor on all light: the camera's own, and that for snow."""
        if self._state is None or not self._weather.ground_snow or request.layer:
            return request.gain
        roofed = self._state.roofed(request.T_world_camera.p_m[None])
        return request.gain * float(snow_gain(self._state.environment, self._weather, roofed)[0])

    def _place(self, index: int) -> int:
        """Return the slot of a view's framebuffers: views that are read at once share theirs."""
        return 0 if self._readback.early else index

    def _draw(self, batch: _Batch, index: int) -> RenderedView:
        request = batch.requests[index]
        if self._shadow is not None and self._sun_follows and PassOutput.COLOUR in request.outputs:
            self._shadow.draw(
                self._static, self._models, ModelDraws(batch.posed, request.shown[None], [None])
            )
        size = (request.camera.width_px, request.camera.height_px)
        splats = self._splats if request.layer in ("", SCENE_LAYER) else None
        if PassOutput.COLOUR not in request.outputs or (self._samples <= 1 and splats is None):
            target = self._targets.get(size, request.outputs, slot=self._place(index))
            self._pass(target, batch, index, request.outputs)
            return RenderedView(
                size, places_of(target, request.outputs), self._readback, alpha=request.alpha
            )
        return self._two_passes(size, batch, index, splats)

    def _two_passes(
        self, size: tuple[int, int], batch: _Batch, index: int, splats: SplatLayer | None
    ) -> RenderedView:
        """Draw colour with many samples and splats, the rest with one.

        An edge never averages ids, depth or flow.
        """
        if splats is None:
            colour = self._smooth_colour(size, batch, index)
        else:
            colour = self._colour_with(splats, size, batch, index)
        places = {PassOutput.COLOUR: (colour, 0)}
        rest = batch.requests[index].outputs & ~PassOutput.COLOUR
        if rest:
            target = self._targets.get(size, rest, slot=self._place(index))
            self._pass(target, batch, index, rest)
            places |= places_of(target, rest)
        return RenderedView(size, places, self._readback, alpha=batch.requests[index].alpha)

    def _smooth_colour(
        self, size: tuple[int, int], batch: _Batch, index: int, *, proxy: bool = True
    ) -> moderngl.Framebuffer:
        many = self._targets.get(size, PassOutput.COLOUR, self._samples)
        self._pass(many, batch, index, PassOutput.COLOUR, proxy=proxy)
        one = self._targets.get(size, PassOutput.COLOUR, slot=self._place(index))
        self._ctx.copy_framebuffer(one, many)
        return one

    def _colour_with(
        self, splats: SplatLayer, size: tuple[int, int], batch: _Batch, index: int
    ) -> moderngl.Framebuffer:
        """Draw splats over the meshes without their proxy, hidden by nearer ones of these."""
        request = batch.requests[index]
        outputs = PassOutput.Z if self._samples > 1 else PassOutput.COLOUR | PassOutput.Z
        target = self._targets.get(size, outputs, slot=self._place(index))
        self._pass(target, batch, index, outputs, proxy=False)
        depth = {PassOutput.Z: places_of(target, outputs)[PassOutput.Z]}
        z_m = RenderedView(size, depth, self._readback).z_m()
        if self._samples > 1:
            target = self._smooth_colour(size, batch, index, proxy=False)
            outputs = PassOutput.COLOUR
        count = len(places_of(target, outputs))
        write_first(target, count, 1)
        detail_px = DETAIL_PX if self.profile.lod_px else 0.0
        gain = self._gain(request) ** (1.0 / GAMMA)
        pose = request.T_world_camera
        air = self._air(request)
        shade = self._shade_on_splats(size, batch, index)
        splats.draw(
            target, request.camera, pose, z_m, gain, detail_px=detail_px, air=air, shade=shade
        )
        self._particles_over(target, batch, index, count)
        write_first(target, count, count)
        return target

    def _shade_on_splats(
        self, size: tuple[int, int], batch: _Batch, index: int
    ) -> moderngl.Texture | None:
        """Return the factor on the light of splats in a view; None = nothing shades any."""
        if self._shade is None:
            return None
        request = batch.requests[index]
        view = batch.view(index)
        if self._sun_follows and self._shadow is not None:
            moving = ModelDraws(batch.posed, request.shown[None], [None])
            self._shadow.draw(self._static, self._models, moving, proxy=False)
            self._shadow.use()
        self._frames.bind_to_uniform_block(FRAME, FRAME_BYTES * index, FRAME_BYTES)
        if self._sun_follows:
            return self._shade.from_sun(size, view)
        return self._shade.below(size, view, request.blobs)

    @property
    def _sun_follows(self) -> bool:
        """The sun's shadow map has the actors of every picture."""
        assert self._state is not None
        return self.profile.moving_shadows and bool(self._state.texel)

    def _air(self, request: ViewRequest) -> Air | None:
        """Return the air before a camera; None = it is clear."""
        state = self._state
        weather = self._weather
        extinction, scattered = air_of(weather)
        if state is None or extinction == 0.0 or request.layer:
            return None
        eye_m = request.T_world_camera.p_m[None]
        roofed = state.roofed(eye_m)
        light = (
            scattered
            * airlight(state.environment, state.lamps, eye_m, roofed)[0]
            * self._gain(request)
        )
        return Air(
            extinction * (1.0 - falling_share(weather) * float(roofed[0])),
            light,
            self._linear,
            self._toned,
        )

    def _particles_over(
        self, target: moderngl.Framebuffer, batch: _Batch, index: int, count: int
    ) -> None:
        """Draw what falls over the splats, hidden by the models and by the proxy in the place of
        the splats.
        """
        ctx = self._ctx
        request = batch.requests[index]
        if request.layer or not self._particles.any(self._weather):
            return
        write_first(target, count, 0)
        target.use()
        target.clear(depth=1.0)
        ctx.enable_only(ctx.DEPTH_TEST | ctx.CULL_FACE)
        ctx.front_face = "cw"
        ctx.depth_func = "<"
        self._frames.bind_to_uniform_block(FRAME, FRAME_BYTES * index, FRAME_BYTES)
        depth = PassOptions(shading=0, outputs=0)
        self._models.bind_joints()
        self._models.draw(batch.models, index, depth)
        self._static.draw(batch.static(proxy=True), index, depth)
        write_first(target, count, 1)
        target.use()  # the mask of a single attachment counts from here on
        cast("Any", ctx).blend_func = (
            ctx.SRC_ALPHA,
            ctx.ONE_MINUS_SRC_ALPHA,
            ctx.ONE,
            ctx.ONE_MINUS_SRC_ALPHA,
        )
        ctx.enable(ctx.BLEND)
        target.depth_mask = False
        self._particles.draw(self._weather, request, self._cover)
        target.depth_mask = True
        ctx.disable(ctx.BLEND)

    def _pass(
        self,
        target: moderngl.Framebuffer,
        batch: _Batch,
        index: int,
        outputs: PassOutput,
        *,
        proxy: bool = True,
    ) -> None:
        ctx = self._ctx
        request = batch.requests[index]
        options = self._options(request, outputs)
        target.use()
        target.clear(depth=1.0)
        # Backs that are seen are surfaces of their own.
        ctx.enable_only(ctx.DEPTH_TEST | ctx.CULL_FACE)
        ctx.front_face = "cw"  # counter-clockwise in the world, mirrored by the image's downward y
        ctx.depth_func = "<"
        self._frames.bind_to_uniform_block(FRAME, FRAME_BYTES * index, FRAME_BYTES)
        if self._shadow is not None:
            self._shadow.use()
        if self._roofs is not None:
            self._roofs.use()
        self._model_light.use()
        self._models.bind_joints()
        self._models.draw(batch.models, index, options)
        self._static.draw(batch.static(proxy=proxy), index, options)
        self._draw_background(request, options)
        if PassOutput.COLOUR in outputs:
            self._draw_over(target, batch, index, options, proxy=proxy)

    def _options(self, request: ViewRequest, outputs: PassOutput) -> PassOptions:
        colour = PassOutput.COLOUR in outputs
        state = self._state
        weather = self._weather
        assert state is not None
        shading = int(self.profile.shading) if colour else 0
        # A layer alone is laid over other pictures.
        shown = colour and not request.layer and weather is not FINE
        lying = {
            "WETNESS": weather.ground_wetness,
            "SNOW": weather.ground_snow,
            "LEAVES": weather.ground_leaves,
        }
        ground = tuple(f"GROUND_{name}" for name, amount in lying.items() if shown and amount > 0.0)
        falls = shown and self._roofs is not None and weather.falls
        return PassOptions(
            shading,
            int(outputs),
            colour and bool(state.texel),
            colour and bool(state.lamps),
            air=shown and air_of(weather)[0] > 0.0,
            ground=ground,
            wind=any(weather.wind_mps),
            roofs=self._roofs is not None and (bool(ground) or falls),
            falls=falls,
            probed=colour and self._around is not None,
            toned=colour and self._toned,
        )

    def _draw_background(self, request: ViewRequest, options: PassOptions) -> None:
        """Draw the sky wherever nothing was drawn; nothing behind a single layer."""
        ctx = self._ctx
        options = PassOptions(
            int(self.profile.shading), options.outputs, air=options.air, toned=options.toned
        )
        program = self._programs.sky(options, nothing=bool(request.layer))
        if program not in self._sky:
            used = "in_p" if "in_p" in program else ""
            self._sky[program] = ctx.vertex_array(program, [(self._corners, "2f", used)])
        ctx.depth_func = "<="
        ctx.disable(ctx.CULL_FACE)
        self._sky[program].render(vertices=3)

    def _draw_over(
        self,
        target: moderngl.Framebuffer,
        batch: _Batch,
        index: int,
        options: PassOptions,
        *,
        proxy: bool,
    ) -> None:
        """Draw dark patches below actors, and translucent parts: colour only, depth stays."""
        ctx = self._ctx
        blobs = batch.requests[index].blobs
        count = options.outputs.bit_count()
        # Alpha adds up as it does in a premultiplied picture.
        cast("Any", ctx).blend_func = (
            ctx.SRC_ALPHA,
            ctx.ONE_MINUS_SRC_ALPHA,
            ctx.ONE,
            ctx.ONE_MINUS_SRC_ALPHA,
        )
        ctx.enable(ctx.BLEND)
        target.depth_mask = False
        write_first(target, count, 1)
        if len(blobs) and not self._sun_follows:
            ctx.polygon_offset = (-2.0, -32.0)
            self._patches.draw(blobs)
            ctx.polygon_offset = (0.0, 0.0)
        ctx.enable(ctx.CULL_FACE)
        parts = [
            *batch.translucent(index, proxy=proxy),
            *self._models.translucent(batch.models, index),
        ]
        draw_translucent(ctx, parts, options)
        # Else they come after the splats.
        if not batch.requests[index].layer and self._splats is None:
            self._particles.draw(self._weather, batch.requests[index], self._cover)
        target.depth_mask = True
        write_first(target, count, count)
        ctx.disable(ctx.BLEND)
