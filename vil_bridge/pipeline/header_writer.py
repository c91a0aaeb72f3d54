"""Headers of one camera's pictures."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from vil_bridge.core.frame_header import FrameHeader, FrameStamps, HeaderPose
from vil_bridge.core.types import Modality, RenderedFrame, RenderedImage, RenderRequest, Stamps
from vil_bridge.pipeline.camera import COMPENSATED, BridgeCamera
from vil_bridge.pipeline.compensation import WarpedFrame
from vil_bridge.world.world import World

__all__ = ["HeaderWriter"]


class HeaderWriter:
    """Writer of one camera's headers, for its relay's thread.

    Attributes:
        T_body_camera: mount of the camera, in every header once it has been moved; set by any thread.
    """

    def __init__(self, camera: BridgeCamera, world: World) -> None:
        self.T_body_camera: dict[str, Any] | UnsetType = UNSET
        self._camera = camera
        self._world = world

    def picture(self, frame: RenderedFrame, image: RenderedImage, shown: WarpedFrame, variant: str) -> FrameHeader:
        """Return the header of a picture that was just made, without ``motion`` and ``stamps_ns``."""
        view, pose = image.view, shown.pose
        compensated = variant == COMPENSATED
        # The protocol computes beacons and range for the first camera of the request.
        first = view.camera.name == frame.request.views[0].camera.name
        moved = compensated and pose.T_world_camera is not view.T_world_camera
        rendered = HeaderPose.of(view.T_world_camera)
        header = self._base(
            frame.request.frame_id, pose.t_ns if compensated else view.t_pose_ns, view.modality, variant
        )
        if compensated:
            header.compensation = shown.header()
        header.compensated = moved
        header.t_use_ns, header.t_oldest_ns = shown.agreed.t_ns, self.oldest_ns(frame.request)
        header.t_render_ns = view.t_pose_ns
        header.pose_rendered = rendered
        header.pose_display = HeaderPose.of(pose.T_world_camera) if moved else rendered
        header.collision = frame.collision if view.collision else None
        if first:
            header.landmarks = shown.landmarks(frame.landmarks, compensated=compensated)
            header.range_m = frame.range_m
        return header

    def blank(self, modality: Modality, variant: str, t_ns: int) -> FrameHeader:
        """Return the header of a black picture of a lost carrier."""
        header = self._base(t_ns, t_ns, modality, variant)
        header.blank, header.t_use_ns, header.t_oldest_ns = True, t_ns, t_ns
        return header

    def complete(self, header: FrameHeader, stamps: Stamps) -> None:
        """Add what only readers of the picture need: the carrier's motion at the instant shown, and the stamps."""
        if not self._camera.fixed:
            header.motion = self._motion(header.t_display_ns)
        header.stamps_ns = FrameStamps(stamps.capture, stamps.arrival, stamps.request, stamps.image, stamps.warp)

    def oldest_ns(self, request: RenderRequest) -> int:
        """Return the instant from which a picture's age counts: the capture, unless old poses are shown on purpose."""
        if self._camera.on_loss == "hold" or request.t_capture_ns is None:
            return request.t_request_ns
        return request.t_capture_ns

    def _base(self, frame_id: int, t_display_ns: int, modality: Modality, variant: str) -> FrameHeader:
        camera, model = self._camera, self._camera.model
        return FrameHeader(
            camera=model.name,
            width=model.width_px,
            height=model.height_px,
            K=model.intrinsics_px,
            T_body_camera=self.T_body_camera,
            frame_id=frame_id,
            t_display_ns=t_display_ns,
            tracking="fixed" if camera.fixed else str(self._world.state_of(camera.actor)),
            compensation={"method": "none"},
            modality=str(modality),
            variant=variant,
        )

    def _motion(self, t_ns: int) -> dict[str, Any]:
        """Return the carrier's twist at an instant, from which a reader's own IMU goes on."""
        v_world_mps, w_body_radps = self._world.twist_at(self._camera.actor, t_ns)
        predictor = self._world.predictor(self._camera.actor)
        return {
            "v_world_mps": v_world_mps.tolist(),
            "w_body_radps": w_body_radps.tolist(),
            "gyro_bias_radps": None if predictor is None else predictor.bias.bias_radps.tolist(),
        }
