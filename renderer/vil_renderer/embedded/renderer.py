"""The embedded renderer as a library: from poses to pictures and geometric measurements."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.near_surface import MOST_SURFACES, NearSurface
from vil_bridge.core.types import (
    BoolArray,
    CameraModel,
    ImageArray,
    Landmark,
    Lighting,
    Modality,
    RenderedImage,
    View,
    WorldSnapshot,
)
from vil_bridge.core.weather import FINE, Weather
from vil_bridge.interfaces.scene_queries import PictureBefore
from vil_bridge.optics.tone_curve import TONE_CURVE
from vil_renderer.embedded.actors import ActorModels
from vil_renderer.embedded.actors.moving_objects import MovingObjects
from vil_renderer.embedded.engine.context import describe
from vil_renderer.embedded.engine.opengl import OpenGL
from vil_renderer.embedded.engine.profiles import PROFILES, Profile, profile_named
from vil_renderer.embedded.engine.quality_controller import QualityController
from vil_renderer.embedded.engine.scene_pass import ScenePass, ViewRequest
from vil_renderer.embedded.engine.splat_layer import SplatLayer
from vil_renderer.embedded.engine.targets import RenderedView
from vil_renderer.embedded.geometry.collision import CollisionWorld
from vil_renderer.embedded.geometry.ray_world import RayWorld
from vil_renderer.embedded.geometry.separation import Sphere
from vil_renderer.embedded.geometry.sky_cover import SkyCover
from vil_renderer.embedded.lighting.daylight import lamps_text, lit
from vil_renderer.embedded.lighting.ground_shade import GroundShade
from vil_renderer.embedded.optics.camera import FAR_M
from vil_renderer.embedded.posed_models import PosedGroup, PosedModels
from vil_renderer.embedded.postprocess.camera_effects import AutoExposure, open_time_s
from vil_renderer.embedded.postprocess.images import (
    FULL_SCALE_M,
    drawn_camera,
    output_images,
    outputs_for,
    outputs_needed,
)
from vil_renderer.embedded.scene import Scene
from vil_renderer.embedded.scenefile import load_scene, scene_names
from vil_renderer.embedded.sensors.beacons import visible_beacons
from vil_renderer.embedded.sensors.rangefinder import range_below_m
from vil_renderer.embedded.static_scene import StaticScene
from vil_renderer.embedded.view_batches import view_batches

logger = logging.getLogger(__name__)

NO_ACTORS: Final = WorldSnapshot(0, ())
COLLISION_RADIUS_M: Final = 0.15
_CAMERAS: Final = 256
"""Cameras whose previous picture is remembered."""
_LEAP_M: Final = 3.0
_LEAP_COS: Final = 0.5
_PAUSE_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _PreviousView:
    """A camera's previous picture: its pose, its time, and all models."""

    T_world_camera: Transform
    t_ns: int
    posed: PosedModels


class EmbeddedRenderer:
    """Renderer of one scene with the actors of a snapshot. Use it from the thread that made it.

    Args:
        scene: a procedural scene's name, a scene file, or a scene.
        profile: quality, one of :data:`~.engine.profiles.PROFILES`, or one of your own, without
            plainer ones.
        budget_s: time that the pictures of one request may take; a plainer profile is used while
            they take more. None = whatever it takes.
        device: which GPU, in CUDA's order; None = the first one, else the CPU unless
            CUDA_VISIBLE_DEVICES names a GPU. An :class:`~.engine.opengl.OpenGL` is shared: its
            programs are compiled once, and it stays open.
        depth_reach_m: value of DEPTH32 pictures where nothing is hit; surfaces are drawn as far, at
            least 1000 m.
        baked: static surfaces have the light of all bounces, from the cache or worked out now
            (minutes).

    Attributes:
        scene: what is drawn.
        info: renderer and version strings of OpenGL, its limits, the scene's name
            (``shipped_scene`` too where it is one), and the profile in use.

    Raises:
        RendererError: no such scene, profile or GPU, or no OpenGL; the message names what to
            install.
        AssetError: the scene's splats cannot be read.
    """

    def __init__(
        self,
        scene: str | Path | Scene = "hall",
        profile: str | Profile = "low",
        *,
        budget_s: float | None = None,
        device: int | OpenGL | None = None,
        depth_reach_m: float = FULL_SCALE_M,
        baked: bool = False,
    ) -> None:
        self._depth_reach_m = depth_reach_m
        self._profiles: Mapping[str, Profile] = PROFILES
        if isinstance(profile, Profile):
            requested = profile
            self._profiles = {profile.name: profile}
        else:
            requested = profile_named(profile)
        self.scene = scene if isinstance(scene, Scene) else load_scene(scene)
        self._static = StaticScene(self.scene, baked=baked)
        self._actors, self._moving = _models(self.scene)
        self._quality = QualityController(tuple(self._profiles), requested.name, budget_s)
        self._opengl = device if isinstance(device, OpenGL) else OpenGL(device)
        self._shared = self._opengl is device
        self._ctx = self._opengl.ctx
        self._passes: dict[str, ScenePass] = {}
        self._lighting: Lighting | None = None
        self._weather = self.scene.weather
        self._weathered = False
        self._collisions: CollisionWorld | None = None
        self._previous: dict[str, _PreviousView] = {}
        self._exposures: dict[str, AutoExposure] = {}
        self._posed: tuple[WorldSnapshot, PosedModels] | None = None
        with self._ctx:
            self._splats = SplatLayer(self._ctx, self.scene) if self.scene.splats else None
            self.info: dict[str, Any] = {
                **describe(self._ctx),
                "scene": self.scene.name,
                "rays": self.rays is not None,
            }
            if scene in scene_names():
                self.info["shipped_scene"] = scene
            if baked:
                self.info[TONE_CURVE] = True
            if self.scene.weather != FINE:
                self.info["weather"] = asdict(self.scene.weather)
            if (lamps := lamps_text(self.scene.lamps)) is not None:
                self.info["lamps"] = lamps
            self._warm_up()
        self._report_profile()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release all its memory; on a GPU once the last picture is gone, since it lies there."""
        if not self._shared:
            self._opengl.close()
            return
        with self._opengl.releasing():
            self._passes.clear()
            self._splats = None

    @property
    def rays(self) -> RayWorld | None:
        """The scene to cast rays into, None without Embree."""
        return self._static.rays

    @property
    def instances(self) -> Mapping[str, int]:
        """Instance ids in the pictures by name: the scene's objects and every actor seen so far."""
        return {thing.name: thing.instance for thing in self.scene.objects} | dict(
            self._actors.instances
        )

    def reserve_instance(self, name: str, instance: int | None) -> None:
        """Give the actor of a name an instance id.

        None = one of its own, above those of the scene's objects.
        """
        self._actors.reserve(name, instance)
        self._posed = None

    def take_out(self, names: frozenset[str]) -> None:
        """Draw the scene without some of its objects from now on, in a fraction of the time of a
        new renderer.
        """
        moved = any(thing.movable and thing.name in names for thing in self.scene.objects)
        self._static.take_out(names)
        self.scene = self._static.scene
        if moved:
            self._actors, self._moving = _models(self.scene)
        self._collisions = self._posed = None
        self._previous.clear()
        with self._ctx:
            self._bake()

    def render(
        self, views: Sequence[View], snapshot: WorldSnapshot, before: PictureBefore | None = None
    ) -> tuple[RenderedImage, ...]:
        """Return pictures of the due views, in their order.

        Views of one camera and pose (RGB and depth, say) are drawn once. Flow is the motion since
        ``before``. None = since the camera's previous picture, the one of the last call that drew a
        camera of that name.
        """
        started_s = time.perf_counter()
        posed = self.pose(snapshot)
        seen = self._seen(views, before)
        shade = GroundShade(posed, self.rays)
        groups: dict[tuple[object, ...], list[int]] = {}
        for index, view in enumerate(views):
            if view.due:
                groups.setdefault(_pass_key(view), []).append(index)
        made: dict[int, tuple[ImageArray, BoolArray | None]] = {}
        with self._ctx:  # several renderers may live in one process
            self._set_light(snapshot.lighting)
            self._set_weather(self.weather(snapshot))
            for batch in view_batches(views, groups.values(), early=self._opengl.readback.early):
                passes = [_views_at(views, members) for members in batch]
                pictures = self._draw(passes, [seen[members[0]] for members in batch], posed, shade)
                for pixels, members in zip(pictures, batch, strict=True):
                    made.update({i: pixels[views[i].modality] for i in members})
        self._remember(views, posed)
        self._quality.record(time.perf_counter() - started_s, started_s)
        self._report_profile()
        return tuple(RenderedImage(views[i], *made[i]) for i in sorted(made))

    def weather(self, snapshot: WorldSnapshot) -> Weather:
        """Return the weather at a snapshot."""
        lighting = snapshot.lighting
        if lighting is None or lighting.weather is None:
            return self.scene.weather
        return lighting.weather

    def pose(self, snapshot: WorldSnapshot) -> PosedModels:
        """Return all moving models at a snapshot, and update the ray world to it.

        Stored, since the pictures and the queries of one request need the same.
        """
        if self._posed is None or self._posed[0] is not snapshot:
            posed = self._posed_at(snapshot)
            self._posed = snapshot, posed
            if self.rays is not None:
                self.rays.update(posed)
        return self._posed[1]

    def _posed_at(self, snapshot: WorldSnapshot) -> PosedModels:
        posed = self._actors.pose(snapshot)
        if self._moving is None:
            return posed
        moving = self._moving.pose(snapshot.t_ns, posed.rows)
        return PosedModels([*posed.groups, *map(PosedGroup.of, moving)])

    # --- questions about the geometry ----------------------------------------------------------

    def collision(self, view: View, snapshot: WorldSnapshot = NO_ACTORS) -> bool:
        """Return whether a sphere of 0.15 m at the camera touches the scene or an actor that the
        view shows.
        """
        world = self.collisions(snapshot)
        hide = frozenset(view.hide)
        return world.touches_sphere(view.T_world_camera.p_m, COLLISION_RADIUS_M, hide)

    def near(self, view: View, snapshot: WorldSnapshot = NO_ACTORS) -> list[NearSurface]:
        """Return at most 16 surfaces within the view's reach of the camera, nearest first, shown
        actors included.
        """
        sphere = Sphere(view.T_world_camera.p_m, view.reach_m)
        found = self.collisions(snapshot).contacts("", sphere, frozenset(view.hide))
        nearest = sorted(found, key=lambda contact: -contact.depth_m)[:MOST_SURFACES]
        return [
            NearSurface(view.camera.name, c.other, c.p_world_m, c.normal_world) for c in nearest
        ]

    def range_m(self, view: View, snapshot: WorldSnapshot = NO_ACTORS) -> float | None:
        """Return the range along the camera's down axis, metres.

        None beyond 20 m or without rays.
        """
        self.pose(snapshot)
        if self.rays is None:
            return None
        weather = self.weather(snapshot)
        t_ns = view.t_pose_ns
        return range_below_m(
            self.rays, view.T_world_camera, frozenset(view.hide), weather=weather, t_ns=t_ns
        )

    def landmarks(self, view: View, snapshot: WorldSnapshot = NO_ACTORS) -> tuple[Landmark, ...]:
        """Return the IR beacons that the camera sees; none without rays."""
        posed = self.pose(snapshot)
        if self.rays is None:
            return ()
        return visible_beacons(
            self.rays, posed, view.camera, view.T_world_camera, frozenset(view.hide)
        )

    def collisions(self, snapshot: WorldSnapshot = NO_ACTORS) -> CollisionWorld:
        """Return the collision world at a snapshot; built on the first call."""
        if self._collisions is None:
            self._collisions = CollisionWorld(self.scene)
        self._collisions.update(self.pose(snapshot))
        return self._collisions

    # --- drawing -------------------------------------------------------------------------------

    def _draw(
        self,
        passes: Sequence[tuple[View, ...]],
        seen: Sequence[_PreviousView | None],
        posed: PosedModels,
        shade: GroundShade,
    ) -> list[dict[Modality, tuple[ImageArray, BoolArray | None]]]:
        """Return the pictures of passes, each of views that differ in their modality only."""
        requests = [
            self._request(same, was, posed, shade) for same, was in zip(passes, seen, strict=True)
        ]
        rendered = self._scene_pass().draw(requests, posed)
        return [self._images(*each) for each in zip(passes, rendered, seen, strict=True)]

    def _request(
        self,
        views: tuple[View, ...],
        seen: _PreviousView | None,
        posed: PosedModels,
        shade: GroundShade,
    ) -> ViewRequest:
        view = views[0]
        camera = view.camera
        exposure = self._exposures.get(camera.name) or AutoExposure()
        shown = posed.shown(view.hide, view.layer)
        before: PosedModels | None = None
        previous: Transform | None = None
        before_ns = view.t_pose_ns
        interval_ns: int | None = None
        if seen is not None:
            before = seen.posed
            previous = seen.T_world_camera
            before_ns = seen.t_ns
            interval_ns = view.t_pose_ns - seen.t_ns
        gain = 2.0**camera.effects.exposure_ev
        if camera.effects.auto_exposure:
            gain *= exposure.gain
        return ViewRequest(
            camera=drawn_camera(camera),
            T_world_camera=view.T_world_camera,
            outputs=outputs_needed(camera, {view.modality for view in views}),
            shown=shown,
            before=before,
            previous=previous,
            layer=view.layer,
            alpha=any(view.modality is Modality.RGBA for view in views),
            gain=gain,
            blobs=shade.of(shown),
            t_ns=view.t_pose_ns,
            before_ns=before_ns,
            open_s=open_time_s(camera.effects, interval_ns),
        )

    def _images(
        self, views: tuple[View, ...], picture: RenderedView, seen: _PreviousView | None
    ) -> dict[Modality, tuple[ImageArray, BoolArray | None]]:
        camera = views[0].camera
        t_ns = views[0].t_pose_ns
        exposure = self._exposures.get(camera.name) or AutoExposure()
        if camera.effects.auto_exposure:
            self._exposures[camera.name] = exposure
        interval_ns = None if seen is None else t_ns - seen.t_ns
        modalities = {view.modality for view in views}
        return output_images(
            picture,
            camera,
            modalities,
            interval_ns=interval_ns,
            exposure=exposure,
            t_ns=t_ns,
            depth_reach_m=self._depth_reach_m,
            tone_curve=TONE_CURVE in self.info,
        )

    def _warm_up(self) -> None:
        """Draw once, small.

        Programs are compiled and textures sent before the first request, not during it.
        """
        camera = CameraModel("warm-up", 16, 16, 1.0)
        outputs = outputs_for((Modality.RGB, Modality.DEPTH))
        self._scene_pass().prepare(self._actors.expected)
        self._scene_pass().draw([ViewRequest(camera, Transform.identity(), outputs)], PosedModels())

    def _scene_pass(self) -> ScenePass:
        name = self._quality.profile
        if name not in self._passes:
            far_m = max(FAR_M, self._depth_reach_m)
            profile = self._profiles[name]
            mesh = self._static.mesh
            light = self._static.light
            made = ScenePass(self._opengl, mesh, light, profile, self._splats, far_m=far_m)
            self._passes[name] = made
            made.set_weather(self._weather, self._cover())
            made.set_light(*lit(self.scene.environment, self.scene.lamps, self._lighting))
        return self._passes[name]

    def _set_light(self, lighting: Lighting | None) -> None:
        # The light of both is the same.
        light = None if lighting is None else replace(lighting, weather=None)
        if light != self._lighting and (light, self._lighting) != (Lighting(), None):
            self._lighting = light
            self._bake()

    def _set_weather(self, weather: Weather) -> None:
        if weather != self._weather:
            self._weather = weather
            for scene_pass in self._passes.values():
                scene_pass.set_weather(weather, self._cover())

    def _cover(self) -> SkyCover | None:
        """Return the roofs; None until there is weather."""
        self._weathered |= self._weather != FINE
        return self._static.sky_cover if self._weathered else None

    def _bake(self) -> None:
        for scene_pass in self._passes.values():
            scene_pass.static_light = self._static.light
            scene_pass.set_weather(self._weather, self._cover())
            scene_pass.set_light(*lit(self.scene.environment, self.scene.lamps, self._lighting))

    def _report_profile(self) -> None:
        quality = self._quality
        if self.info.get("profile") != quality.profile and "profile" in self.info:
            logger.warning(
                "quality profile %s: %s",
                quality.profile,
                quality.reason or "the budget holds again",
            )
        self.info |= {
            "profile": quality.profile,
            "profile_wanted": quality.wanted,
            "profile_reason": quality.reason,
        }

    # --- the previous picture -----------------------------------------------------------------

    def _seen(
        self, views: Sequence[View], before: PictureBefore | None
    ) -> list[_PreviousView | None]:
        """Return what the picture of each view looks back to."""
        if before is None:
            return [self._previous_of(view) for view in views]
        posed = self._posed_at(before.snapshot)
        return [_PreviousView(T, before.snapshot.t_ns, posed) for T in before.T_world_cameras]

    def _previous_of(self, view: View) -> _PreviousView | None:
        """Return the camera's previous picture.

        None after a leap or a pause, since the motion is unknown then.
        """
        seen = self._previous.get(view.camera.name)
        if seen is None or not 0 <= view.t_pose_ns - seen.t_ns <= _PAUSE_NS:
            return None
        now = view.T_world_camera
        was = seen.T_world_camera
        ahead = float(now.rotation()[:, 2] @ was.rotation()[:, 2])
        if float(np.linalg.norm(now.p_m - was.p_m)) > _LEAP_M or ahead < _LEAP_COS:
            return None
        return seen

    def _remember(self, views: Sequence[View], posed: PosedModels) -> None:
        for name, view in {view.camera.name: view for view in views if view.due}.items():
            self._previous.pop(name, None)  # the oldest one comes first
            self._previous[name] = _PreviousView(view.T_world_camera, view.t_pose_ns, posed)
        while len(self._previous) > _CAMERAS:
            oldest = next(iter(self._previous))
            del self._previous[oldest]
            self._exposures.pop(oldest, None)


def _models(scene: Scene) -> tuple[ActorModels, MovingObjects | None]:
    """Return the models of actors, and of objects that move if there are any."""
    actors = ActorModels(scene)
    if not any(thing.movable for thing in scene.objects):
        return actors, None
    return actors, MovingObjects(scene)


def _views_at(views: Sequence[View], members: Sequence[int]) -> tuple[View, ...]:
    """Return the views at some places of a request."""
    return tuple(views[i] for i in members)


def _pass_key(view: View) -> tuple[object, ...]:
    T = view.T_world_camera
    return (view.camera, T.p_m.tobytes(), T.q_xyzw.tobytes(), frozenset(view.hide), view.layer)
