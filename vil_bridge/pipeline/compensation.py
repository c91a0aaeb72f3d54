"""What one camera's frames are shown for, the warp to there, and what their headers say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ImageArray, Landmark, Modality, RenderedImage, TrackingState, View
from vil_bridge.pipeline.camera import BridgeCamera, CameraPose
from vil_bridge.pipeline.display_times import DisplayTarget
from vil_bridge.pipeline.warp.compensator import Compensator
from vil_bridge.pipeline.warp.frame_warp import FrameWarp
from vil_bridge.pipeline.warp.modality_remap import FlowHistory
from vil_bridge.pipeline.warp.rolling_shutter import ShutterPoses
from vil_bridge.world.world import World

__all__ = ["Compensation", "RenderedPose", "WarpedFrame"]

_LEAST_DEPTH_M: Final = 0.1


@dataclass(frozen=True, slots=True)
class RenderedPose:
    """The picture that a renderer drew for a camera before: where, and for when."""

    T_world_camera: Transform
    t_pose_ns: int


class WarpedFrame:
    """A frame with the instant that it is shown for; nothing is computed before a picture asks for it."""

    def __init__(
        self,
        camera: BridgeCamera,
        compensator: Compensator,
        view: View,
        depth: ImageArray | None,
        agreed: DisplayTarget,
        flow: tuple[FlowHistory | None, FlowHistory | None],
    ) -> None:
        self.agreed = agreed
        self.view = view
        sight = camera.sight
        self.exposure = ShutterPoses(tuple(camera.mounted(carrier.T_world_body) for carrier in agreed.carriers))
        plane = None if agreed.plane is None else agreed.plane.seen_from(camera.T_body_optical)
        if plane is not None and plane.d_m < _LEAST_DEPTH_M:
            plane = None
        self._camera = camera
        self._warps = (
            FrameWarp(sight, view.T_world_camera, ShutterPoses((view.T_world_camera,)), "none", depth=depth),
            compensator.frame(sight, view.T_world_camera, self.exposure, agreed.mode, depth, plane),
        )
        self._flow = flow

    @property
    def pose(self) -> CameraPose:
        """Where the camera is at the instant shown; where it was rendered for when nothing is warped."""
        if self._warps[True].method == "none":
            return CameraPose(self.view.T_world_camera, self.view.t_pose_ns, self.view.pose_method, None)
        carrier = self.agreed.carriers[len(self.agreed.carriers) // 2]
        return CameraPose(self.exposure.middle, self.agreed.t_ns, carrier.method, carrier.imu_age_ns)

    def picture(self, image: RenderedImage, *, compensated: bool) -> ImageArray:
        """One picture as readers get it, who have no mask beside it: what is not known is not a number."""
        warp = self._warps[compensated]
        pixels, valid = warp.show(image.view.modality, image.pixels, image.valid, self._flow[compensated])
        return pixels if valid is None else np.where(valid[..., None], pixels, np.float32(np.nan))

    def landmarks(self, marks: tuple[Landmark, ...], *, compensated: bool) -> list[list[Any]]:
        """Beacons where the picture shows them: name, u, v in pixels, z-depth in metres."""
        warp = self._warps[compensated]
        placed = ((mark.name, warp.place(mark.u_px, mark.v_px, mark.depth_m)) for mark in marks)
        return [[name, *place] for name, place in placed if place is not None]

    def header(self) -> dict[str, Any]:
        """What was done, for the frame's header; after the picture was made."""
        warp, pose = self._warps[True], self.pose
        done = "" if warp.method == self.agreed.mode else "no depth picture"
        return {
            "method": warp.method,
            "fallback": self.agreed.fallback or done or None,
            "d_m": None if warp.plane is None else warp.plane.d_m,
            "normal": warp.plane.normal.tolist() if warp.plane is not None and warp.plane.fitted else None,
            "angle_rad": warp.angle_rad,
            "valid_fraction": warp.valid_fraction,
            "pose_method": pose.method,
            "render_pose_method": self.view.pose_method,
            "imu_age_ns": pose.imu_age_ns,
            "horizon_ns": pose.t_ns - self.view.t_pose_ns,
            "margin_deg": round(float(np.degrees(self._camera.margin_rad)), 6),
            "rolling_shutter_ms": self._camera.rolling_shutter_ns / 1e6,
        }


class Compensation:
    """One camera's late warp, for its relay's thread."""

    def __init__(self, camera: BridgeCamera, world: World) -> None:
        self._camera = camera
        self._world = world
        self._compensator = Compensator(camera.plane_depth_m)
        self._flow_shown: tuple[ShutterPoses, int] | None = None

    def frame(
        self, frame_id: int, images: tuple[RenderedImage, ...], t_use_ns: int, before: RenderedPose | None
    ) -> WarpedFrame:
        """What a frame is shown for.

        Args:
            frame_id: of its request.
            images: this camera's.
            t_use_ns: when the picture will be used; a stereo pair takes what its first relay says.
            before: the picture drawn before this one; None = there was none.
        """
        view = images[0].view
        found = {image.view.modality: image.pixels for image in images}
        depth = found.get(Modality.DEPTH, found.get(Modality.DEPTH32))
        agreed = self._camera.instants.of(frame_id, lambda: self._decide(t_use_ns, depth))
        return WarpedFrame(self._camera, self._compensator, view, depth, agreed, self._histories(view, before))

    def delivered_flow(self, shown: WarpedFrame) -> None:
        """A warped flow picture was handed over: the next one looks back to it."""
        exposure = shown.exposure if shown.agreed.mode != "none" else ShutterPoses((shown.view.T_world_camera,))
        self._flow_shown = exposure, shown.view.t_pose_ns

    def _decide(self, t_ns: int, depth: ImageArray | None) -> DisplayTarget:
        camera = self._camera
        carriers = tuple(camera.carrier_at(self._world, t_ns + offset_ns) for offset_ns in camera.row_offsets_ns)
        mode, fallback = camera.compensate, ""
        if not camera.fixed and mode != "none":
            state = self._world.state_of(camera.actor)
            if state in (TrackingState.STALE, TrackingState.LOST):  # only seen here when old poses are held
                mode, fallback = "none", f"tracking {state}"
        plane = None
        if mode == "homography" or (mode == "reproject" and depth is None):
            seen = self._compensator.plane(depth, camera.sight.K_rendered)
            plane = seen.seen_from(camera.T_body_optical.inverse())
        return DisplayTarget(t_ns, carriers, mode, plane, fallback)

    def _histories(self, view: View, before: RenderedPose | None) -> tuple[FlowHistory | None, FlowHistory | None]:
        """What flow looks back to, as rendered and as compensated."""
        if before is None:
            return None, None
        raw = FlowHistory(before.T_world_camera, ShutterPoses((before.T_world_camera,)))
        if self._flow_shown is None:
            return raw, None
        shown, t_content_ns = self._flow_shown
        step_ns = view.t_pose_ns - before.t_pose_ns
        share = (view.t_pose_ns - t_content_ns) / step_ns if step_ns > 0 else 1.0
        return raw, FlowHistory(before.T_world_camera, shown, share)
