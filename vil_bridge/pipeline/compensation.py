"""Late warp of one camera's frames, and the headers of its pictures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from vil_bridge.core.frame_header import FrameHeader, FrameStamps, HeaderPose, HeaderRace
from vil_bridge.core.geometry import Transform
from vil_bridge.core.motion import BodyMotion, pose_covariance_upper
from vil_bridge.core.types import (
    FloatArray,
    ImageArray,
    Landmark,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    Stamps,
    TrackingState,
    View,
)
from vil_bridge.interfaces.ports import COMPENSATED
from vil_bridge.pipeline.actor_motions import moving_actors
from vil_bridge.pipeline.camera import BridgeCamera, CameraPose, DisplayTarget
from vil_bridge.pipeline.warp.compensator import Compensator
from vil_bridge.pipeline.warp.frame_warp import FrameWarp, Method
from vil_bridge.pipeline.warp.modality_remap import FlowHistory
from vil_bridge.pipeline.warp.moving_actors import MovingActor, MovingScene
from vil_bridge.pipeline.warp.plane_fit import FittedPlane
from vil_bridge.pipeline.warp.rolling_shutter import ShutterPoses
from vil_bridge.world.world import World

_LEAST_DEPTH_M: Final = 0.1


@dataclass(frozen=True, slots=True)
class RenderedPose:
    """Pose and time of the picture that a renderer drew for a camera before."""

    T_world_camera: Transform
    t_pose_ns: int


class CameraFrame(NamedTuple):
    """One camera's part of a rendered frame; ``before`` = the picture drawn before it."""

    frame: RenderedFrame
    images: tuple[RenderedImage, ...]
    before: RenderedPose | None

    def pixels(self, *modalities: Modality) -> ImageArray | None:
        """Return the picture of the first of these modalities that it has; None = of none."""
        found = {image.view.modality: image.pixels for image in self.images}
        return next((found[modality] for modality in modalities if modality in found), None)


class WarpedFrame:
    """Frame with the instant that it is shown for.

    Nothing is computed before a picture asks for it.

    Attributes:
        frame_id: of its request, or a later one where a rendering is shown again.
    """

    def __init__(
        self,
        frame_id: int,
        camera: BridgeCamera,
        compensator: Compensator,
        rendering: CameraFrame,
        target: DisplayTarget,
        flow: tuple[FlowHistory | None, FlowHistory | None],
    ) -> None:
        self.frame_id = frame_id
        self.target = target
        self.view = view = rendering.images[0].view
        poses = tuple(camera.mounted(carrier.T_world_body) for carrier in target.carriers)
        self.exposure = ShutterPoses(poses or (view.T_world_camera,))
        self._camera = camera
        self._compensator = compensator
        self._rendering = rendering
        self._flow = flow

    @cached_property
    def _depth(self) -> ImageArray | None:
        return self._rendering.pixels(Modality.DEPTH, Modality.DEPTH32)

    @cached_property
    def _instance(self) -> ImageArray | None:
        if not self._camera.moving_actors:
            return None
        return self._rendering.pixels(Modality.INSTANCE)

    @cached_property
    def _raw(self) -> FrameWarp:
        T_world_render = self.view.T_world_camera
        return FrameWarp(
            self._camera.geometry,
            T_world_render,
            ShutterPoses((T_world_render,)),
            "none",
            depth=self._depth,
        )

    @cached_property
    def _plane(self) -> FittedPlane | None:
        """The plane in the render camera's axes; None = none that this camera could be before."""
        if self.target.plane is None:
            return None
        plane = self.target.plane.seen_from(self._camera.T_body_optical)
        return None if plane.d_m < _LEAST_DEPTH_M else plane

    @cached_property
    def _compensated(self) -> FrameWarp:
        target = self.target
        camera = self._camera
        T_world_render = self.view.T_world_camera
        moving: MovingScene | None = None
        if self._instance is not None:
            moving = MovingScene(target.actors, self._instance)
        return self._compensator.frame(
            camera.geometry,
            T_world_render,
            self.exposure,
            target.mode,
            self._depth,
            self._plane,
            moving,
        )

    def _warp(self, compensated: bool) -> FrameWarp:
        """Return what makes the compensated pictures, or what shows them as rendered."""
        if compensated:
            return self._compensated
        return self._raw

    @property
    def pose(self) -> CameraPose:
        """Pose of the camera at the instant shown; the pose rendered for when nothing is warped."""
        if self.target.mode == "none":
            return CameraPose(
                self.view.T_world_camera, self.view.t_pose_ns, self.view.pose_method, None
            )
        carrier = self.target.carriers[len(self.target.carriers) // 2]
        return CameraPose(
            self.exposure.middle, self.target.t_ns, carrier.method, carrier.imu_age_ns
        )

    def picture(self, image: RenderedImage, *, compensated: bool) -> ImageArray:
        """Return one picture as readers get it, without a mask: unknown values are not a number."""
        if not compensated and image.valid is None and self._camera.geometry.window is not None:
            return self._camera.geometry.cut(image.pixels)
        pixels, valid = self._warp(compensated).show(
            image.view.modality, image.pixels, image.valid, self._flow[compensated]
        )
        if valid is None:
            return pixels
        return np.where(valid[..., None], pixels, np.float32(np.nan))

    def texture(self, *, compensated: bool) -> ImageArray | None:
        """Return the gray or RGB picture for a depth sensor to match; None = none was rendered."""
        seen = [
            image
            for image in self._rendering.images
            if image.view.modality in (Modality.GRAY, Modality.RGB)
        ]
        if not seen:
            return None
        return self.picture(seen[0], compensated=compensated)

    def landmarks(self, marks: tuple[Landmark, ...], *, compensated: bool) -> list[list[Any]]:
        """Return beacons where the picture shows them.

        Name, column and row in pixels, z-depth in metres.
        """
        if not marks:
            return []
        warp = self._warp(compensated)
        placed = ((mark.name, warp.place(mark.u_px, mark.v_px, mark.depth_m)) for mark in marks)
        return [[name, *place] for name, place in placed if place is not None]

    def header(self) -> dict[str, Any]:
        """Return what was done, for the frame's header; after the picture was made."""
        warp = self._compensated
        pose = self.pose
        plane = warp.plane
        if warp.method == "reproject":
            plane = self._plane  # there for readers that go on from here
        d_m: float | None = None
        normal: list[float] | None = None
        if plane is not None:
            d_m = plane.d_m
            if plane.fitted:
                normal = plane.normal.tolist()
        lacking = ""
        if warp.method != self.target.mode:
            lacking = "no depth picture"
        if warp.method == "reproject" and self._camera.moving_actors and self._instance is None:
            lacking = "no instance picture"
        done: dict[str, Any] = {
            "method": warp.method,
            "fallback": self.target.fallback or lacking or None,
            "d_m": d_m,
            "normal": normal,
            "angle_rad": warp.angle_rad,
            "valid_fraction": warp.valid_fraction,
            "pose_method": pose.method,
            "render_pose_method": self.view.pose_method,
            "imu_age_ns": pose.imu_age_ns,
            "horizon_ns": pose.t_ns - self.view.t_pose_ns,
            "margin_deg": round(math.degrees(self._camera.margin_rad), 6),
            "rolling_shutter_ms": self._camera.rolling_shutter_ns / 1e6,
        }
        if self._camera.moving_actors:
            done["moved_actors"] = list(warp.moved_actors)
        return done


class Compensation:
    """One camera's late warp, for its relay's thread."""

    def __init__(self, camera: BridgeCamera, world: World) -> None:
        self._camera = camera
        self._world = world
        self._compensator = Compensator(camera.plane_depth_m)
        self._flow_shown: tuple[ShutterPoses, int] | None = None

    def frame(self, frame_id: int, rendering: CameraFrame, t_use_ns: int) -> WarpedFrame:
        """Return a frame with the instant that it is shown for.

        Args:
            frame_id: of its request, or a later one to show it again.
            rendering: this camera's part of it.
            t_use_ns: when the picture will be used; a stereo pair takes what its first relay says.
        """
        target = self._camera.display_times.of(frame_id, lambda: self._decide(t_use_ns, rendering))
        before: RenderedPose | None = None
        if any(image.view.modality is Modality.FLOW for image in rendering.images):
            before = rendering.before
        histories = self._histories(rendering.images[0].view, before)
        return WarpedFrame(frame_id, self._camera, self._compensator, rendering, target, histories)

    def record_flow(self, shown: WarpedFrame) -> None:
        """Record that a warped flow picture was handed over: the next one looks back to it."""
        if shown.target.mode == "none":
            exposure = ShutterPoses((shown.view.T_world_camera,))
        else:
            exposure = shown.exposure
        self._flow_shown = exposure, shown.view.t_pose_ns

    def _decide(self, t_ns: int, rendering: CameraFrame) -> DisplayTarget:
        camera = self._camera
        if camera.compensate == "none":
            return DisplayTarget(t_ns, (), "none", None, "")
        carriers = tuple(
            camera.carrier_at(self._world, t_ns + offset_ns) for offset_ns in camera.row_offsets_ns
        )
        mode: Method = camera.compensate
        fallback = ""
        if not camera.fixed:
            state = self._world.state_of(camera.actor)
            # Only seen here when old poses are held.
            if state in (TrackingState.STALE, TrackingState.LOST):
                mode = "none"
                fallback = f"tracking {state}"
        plane = None
        if mode in ("homography", "reproject"):
            depth = rendering.pixels(Modality.DEPTH, Modality.DEPTH32)
            seen = self._compensator.plane(depth, camera.geometry.K_rendered)
            plane = seen.seen_from(camera.T_body_optical.inverse())
        actors: tuple[MovingActor, ...] = ()
        if camera.moving_actors and mode == "reproject":
            shown = [
                self._world.snapshot(t_ns + offset_ns, quick=True)
                for offset_ns in camera.row_offsets_ns
            ]
            actors = moving_actors(rendering.frame.request.snapshot, shown, camera.hides)
        return DisplayTarget(t_ns, carriers, mode, plane, fallback, actors)

    def _histories(
        self, view: View, before: RenderedPose | None
    ) -> tuple[FlowHistory | None, FlowHistory | None]:
        """Return what flow looks back to, as rendered and as compensated."""
        if before is None:
            return None, None
        raw = FlowHistory(before.T_world_camera, ShutterPoses((before.T_world_camera,)))
        if self._flow_shown is None:
            return raw, None
        shown, t_content_ns = self._flow_shown
        step_ns = view.t_pose_ns - before.t_pose_ns
        share = (view.t_pose_ns - t_content_ns) / step_ns if step_ns > 0 else 1.0
        return raw, FlowHistory(before.T_world_camera, shown, share)


class HeaderWriter:
    """Writer of one camera's headers, for its relay's thread.

    Attributes:
        T_body_camera: mount of the camera, in every header once it has been moved; set by any
            thread.
        race: returns the carrier's race at an instant (bridge time); None = it does not race.
    """

    def __init__(self, camera: BridgeCamera, world: World) -> None:
        self.T_body_camera: dict[str, Any] | UnsetType = UNSET
        self.race: Callable[[int], HeaderRace] | None = None
        self._camera = camera
        self._world = world
        self._K = camera.model.intrinsics_px
        self._moved: tuple[int, dict[str, Any]] | None = None

    def picture(
        self, frame: RenderedFrame, image: RenderedImage, shown: WarpedFrame, variant: str
    ) -> FrameHeader:
        """Return the header of a picture that was just made, without ``motion`` and
        ``stamps_ns``.
        """
        view = image.view
        pose = shown.pose
        compensated = variant == COMPENSATED
        # The protocol computes beacons and range for the first camera of the request.
        first = view.camera.name == frame.request.views[0].camera.name
        moved = compensated and pose.T_world_camera is not view.T_world_camera
        rendered = HeaderPose.of(view.T_world_camera)
        t_display_ns = view.t_pose_ns
        if compensated:
            t_display_ns = pose.t_ns
        header = self._base(shown.frame_id, t_display_ns, view.modality, variant)
        if compensated:
            header.compensation = shown.header()
        header.compensated = moved
        header.t_use_ns, header.t_oldest_ns = shown.target.t_ns, self.oldest_ns(frame.request)
        header.t_render_ns = view.t_pose_ns
        if shown.frame_id != frame.request.frame_id:
            header.render_age_ns = pose.t_ns - view.t_pose_ns
        header.pose_rendered = rendered
        header.pose_display = rendered
        if moved:
            header.pose_display = HeaderPose.of(pose.T_world_camera)
        header.collision = frame.collision if view.collision else None
        if first:
            header.landmarks = shown.landmarks(frame.landmarks, compensated=compensated)
            header.range_m = frame.range_m
        return header

    def blank(self, modality: Modality, variant: str, t_ns: int) -> FrameHeader:
        """Return the header of a black picture of a lost carrier."""
        header = self._base(t_ns, t_ns, modality, variant)
        header.blank = True
        header.t_use_ns = t_ns
        header.t_oldest_ns = t_ns
        return header

    def complete(self, header: FrameHeader, stamps: Stamps) -> None:
        """Add what only readers of the picture need.

        Motion and race of the carrier, and the stamps.
        """
        if not self._camera.fixed:
            t_ns = header.t_display_ns
            if self._moved is None or self._moved[0] != t_ns:  # a frame's pictures say the same
                self._moved = t_ns, self._motion(t_ns)
            header.motion = self._moved[1]
        if self.race is not None:
            header.race = self.race(header.t_display_ns)
        header.stamps_ns = FrameStamps(
            stamps.capture, stamps.arrival, stamps.request, stamps.image, stamps.warp
        )

    def oldest_ns(self, request: RenderRequest) -> int:
        """Return the instant from which a picture's age counts.

        The capture, unless old poses are shown on purpose.
        """
        if self._camera.on_loss == "hold" or request.t_capture_ns is None:
            return request.t_request_ns
        return request.t_capture_ns

    def _base(
        self, frame_id: int, t_display_ns: int, modality: Modality, variant: str
    ) -> FrameHeader:
        camera = self._camera
        model = self._camera.model
        tracking = "fixed"
        if not camera.fixed:
            tracking = str(self._world.state_of(camera.actor))
        return FrameHeader(
            camera=model.name,
            width=model.width_px,
            height=model.height_px,
            K=self._K,
            T_body_camera=self.T_body_camera,
            frame_id=frame_id,
            t_display_ns=t_display_ns,
            tracking=tracking,
            compensation={"method": "none"},
            modality=str(modality),
            variant=variant,
        )

    def _motion(self, t_ns: int) -> dict[str, Any]:
        """Return the carrier's twist at an instant, and from where a reader's own IMU goes on."""
        motion = self._world.motion_at(self._camera.actor, t_ns)
        covariance: list[float] | None = None
        if motion.covariance is not None:
            covariance = pose_covariance_upper(motion.covariance)
        return {
            "v_world_mps": motion.v_world_mps.tolist(),
            "w_body_radps": motion.w_body_radps.tolist(),
            "gyro_bias_radps": _plain(motion.gyro_bias_radps),
            "gyro_scale": _plain(motion.gyro_scale),
            "accel_bias_mps2": _plain(motion.accel_bias_mps2),
            "imu_late_ns": motion.imu_late_ns,
            "pose_covariance": covariance,
            "measured": self._measured(motion),
        }

    def _measured(self, motion: BodyMotion) -> dict[str, Any]:
        """Return the carrier at the newest instant of which there are measurements, before or after
        ``motion``'s.

        Between two poses far apart, or beyond the newest ones, a pose is a guess.
        """
        newest = self._world.newest(self._camera.actor)
        if newest is not None:
            known_ns = newest[1] + 1  # at the pose itself mocap alone is asked
            if motion.imu_age_ns is not None:
                known_ns = max(known_ns, motion.t_ns - motion.imu_age_ns)
            motion = self._world.motion_at(self._camera.actor, known_ns, covariance=False)
        return {
            "t_ns": motion.t_ns,
            "p_m": motion.T_world_body.p_m.tolist(),
            "q_xyzw": motion.T_world_body.q_xyzw.tolist(),
            "v_world_mps": motion.v_world_mps.tolist(),
            "w_body_radps": motion.w_body_radps.tolist(),
        }


def _plain(values: FloatArray | None) -> list[float] | None:
    return None if values is None else values.tolist()
