"""Rendered frames to the sinks: delay line, compensation, hand-over; one thread does all this for a camera."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from vil_bridge.compensate.compensator import Compensator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.pixels import empty_picture
from vil_bridge.core.ports import FrameSink
from vil_bridge.core.types import (
    ImageArray,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    Stamps,
)
from vil_bridge.observe.meter import Meter
from vil_bridge.pipeline.camera import COMPENSATED, RAW, BridgeCamera, CameraPose, RunningDelay
from vil_bridge.pipeline.ledger import FrameLedger
from vil_bridge.pipeline.threads import POLL_MS
from vil_bridge.world.world import World

__all__ = ["CameraRelay"]

_SHOWN: Final = (Modality.RGB, Modality.GRAY, Modality.RGBA)
"""What people can look at."""
_LINE_LIMIT: Final = 64
_FIRST_DELIVERY_NS: Final = 3_000_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One camera's part of a frame on its way through the delay line."""

    due_ns: int
    frame: RenderedFrame
    images: tuple[RenderedImage, ...]


class CameraRelay:
    """One camera's images from the renderers that may draw it to its sink, in the order in which they were asked for.

    Attributes:
        delivered: images handed to the sink by variant.
        dropped: images that were not, by reason.
        newest: header, picture and time of the newest frame, read by somebody or not.
    """

    def __init__(self, camera: BridgeCamera, world: World, sink: FrameSink, ledger: FrameLedger, meter: Meter) -> None:
        self.camera = camera
        self.delivered: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.newest: tuple[dict[str, Any], ImageArray, int] | None = None
        self._world = world
        self._sink = sink
        self._ledger = ledger
        self._meter = meter
        self._compensator = Compensator(camera.plane_depth_m)
        model = camera.model
        self._constant_header = {
            "camera": model.name,
            "width": model.width_px,
            "height": model.height_px,
            "K": list(model.intrinsics_px),
        }
        self._line: deque[_Waiting] = deque()
        self._lock = threading.Lock()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._last_frame_id = 0
        self._delivery = RunningDelay(_FIRST_DELIVERY_NS)
        self._blank_requested_ns: int | None = None

    def fileno(self) -> int:
        """Readable when there is something to do."""
        return self._wake_fd

    def wake(self) -> None:
        """From any thread: a frame came in or a reader gave credit."""
        os.eventfd_write(self._wake_fd, 1)

    def offer(self, frame: RenderedFrame) -> None:
        """Take this camera's part of a frame (link threads).

        What a later request has overtaken is dropped: the last answers of a renderer that lost the camera.
        """
        images = tuple(i for i in frame.images if i.view.camera.name == self.camera.name)
        if not images:
            return
        with self._lock:
            if frame.request.frame_id <= self._last_frame_id:
                self.dropped["overtaken"] += 1
                return
            self._last_frame_id = frame.request.frame_id
            if len(self._line) >= _LINE_LIMIT:
                self._line.popleft()
                self.dropped["delay_line_full"] += 1
            self._line.append(_Waiting(frame.t_image_ns + self.camera.extra_delay_ns, frame, images))
        self.wake()

    def offer_blank(self, t_ns: int) -> None:
        """Ask for a black picture that says the carrier is lost (scheduler, policy ``blank``)."""
        self._blank_requested_ns = t_ns
        self.wake()

    def received(self, frame_id: int, t_received_ns: int) -> None:
        """The far end reported a frame (loop thread)."""
        stamps = self._ledger.received(frame_id, t_received_ns)
        if stamps is not None and stamps.warp is not None and t_received_ns > stamps.warp:
            self._delivery.add(t_received_ns - stamps.warp)

    def step(self) -> int:
        """Process what is due; returns milliseconds until the next call is useful at the latest."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)
        self._sink.flush()
        self._ledger.settle()
        blank_ns, self._blank_requested_ns = self._blank_requested_ns, None
        if blank_ns is not None:
            self._deliver_blank(blank_ns)
        waiting = self._take_due()
        if waiting is not None:
            self._process(waiting)
        with self._lock:
            if not self._line:
                return POLL_MS
            return min(POLL_MS, max(0, (self._line[0].due_ns - now_ns() + 999_999) // 1_000_000))

    def close(self) -> None:
        """Release the descriptor; the relay must not be used again."""
        os.close(self._wake_fd)

    def _take_due(self) -> _Waiting | None:
        newest = None
        with self._lock:
            while self._line and self._line[0].due_ns <= now_ns():
                if newest is not None:
                    self.dropped["superseded"] += 1
                newest = self._line.popleft()
        return newest

    def _process(self, waiting: _Waiting) -> None:
        request = waiting.frame.request
        t_warp_ns = now_ns()
        self._meter.mark(t_warp_ns)
        if t_warp_ns - self._oldest_ns(request) > self.camera.max_age_ns:
            self.dropped["too_old"] += 1
            return
        if not self.camera.usable(self._world):
            self.dropped["tracking_lost"] += 1
            return
        t_use_ns = t_warp_ns + self._delivery.value_ns
        self.camera.delay.add(t_use_ns - request.t_request_ns)
        depth = next((i.pixels for i in waiting.images if i.view.modality is Modality.DEPTH), None)
        stamps = Stamps(
            request.t_capture_ns, request.t_arrival_ns, request.t_request_ns, waiting.frame.t_image_ns, t_warp_ns
        )
        for image in waiting.images:
            modality = str(image.view.modality)
            raw = self._raw_header(waiting.frame, image, t_use_ns)
            if image.view.modality in _SHOWN:
                self.newest = (raw, image.pixels, t_warp_ns)
            if self._sink.wanted(modality, RAW):
                self._hand_over(raw, _with_gaps(image), stamps)
            if self._sink.wanted(modality, COMPENSATED):
                self._deliver_compensated(waiting.frame, image, depth, t_use_ns, stamps)
        self._ledger.settle()

    def _oldest_ns(self, request: RenderRequest) -> int:
        """What a picture's age counts from: the capture, unless old poses are shown on purpose."""
        if self.camera.on_loss == "hold" or request.t_capture_ns is None:
            return request.t_request_ns
        return request.t_capture_ns

    def _raw_header(self, frame: RenderedFrame, image: RenderedImage, t_use_ns: int) -> dict[str, Any]:
        shown = CameraPose(image.view.T_world_camera, image.view.t_pose_ns, "rendered", None)
        return self._header(frame, image, RAW, shown) | {"t_use_ns": t_use_ns}

    def _deliver_compensated(
        self,
        frame: RenderedFrame,
        image: RenderedImage,
        depth: ImageArray | None,
        t_use_ns: int,
        stamps: Stamps,
    ) -> None:
        view = image.view
        now_pose = self.camera.pose_at(self._world, t_use_ns)
        result = self._compensator.compensate(
            image.pixels,
            view.camera.K,
            view.T_world_camera,
            now_pose.T_world_camera,
            mode=self.camera.compensate,
            depth=depth,
            modality=view.modality,
        )
        header = self._header(frame, image, COMPENSATED, now_pose)
        header["t_use_ns"] = now_pose.t_ns
        header["compensation"] = {
            "method": result.method,
            "d_m": result.d_m,
            "angle_rad": result.angle_rad,
            "valid_fraction": result.valid_fraction,
            "pose_method": now_pose.method,
            "render_pose_method": view.pose_method,
            "imu_age_ns": now_pose.imu_age_ns,
            "horizon_ns": now_pose.t_ns - view.t_pose_ns,
        }
        if view.modality in _SHOWN:
            self.newest = (header, result.pixels, now_ns())
        self._hand_over(header, result.pixels, stamps)

    def _header(self, frame: RenderedFrame, image: RenderedImage, variant: str, shown: CameraPose) -> dict[str, Any]:
        view = image.view
        # The protocol computes beacons and range for the first camera of the request.
        first = view.camera.name == frame.request.views[0].camera.name
        rendered = _pose_dict(view.T_world_camera)
        return self._base_header(frame.request.frame_id, shown.t_ns) | {
            "modality": str(view.modality),
            "t_oldest_ns": self._oldest_ns(frame.request),
            "variant": variant,
            "compensated": variant == COMPENSATED,
            "t_render_ns": view.t_pose_ns,
            "pose_rendered": rendered,
            "pose_display": rendered
            if shown.T_world_camera is view.T_world_camera
            else _pose_dict(shown.T_world_camera),
            "collision": frame.collision if view.collision else None,
            "landmarks": [[m.name, m.u_px, m.v_px, m.depth_m] for m in frame.landmarks] if first else [],
            "range_m": frame.range_m if first else None,
        }

    def _base_header(self, frame_id: int, t_display_ns: int) -> dict[str, Any]:
        return {
            **self._constant_header,
            "compensated": False,
            "frame_id": frame_id,
            "t_display_ns": t_display_ns,
            "tracking": "fixed" if self.camera.fixed else str(self._world.state_of(self.camera.actor)),
            "compensation": {"method": "none"},
            "motion": None if self.camera.fixed else self._motion(t_display_ns),
        }

    def _motion(self, t_ns: int) -> dict[str, Any]:
        """The carrier's twist at the instant shown, from which a reader's own IMU goes on."""
        motion = self._world.motion_at(self.camera.actor, t_ns)
        return {
            "v_world_mps": motion.v_world_mps.tolist(),
            "w_body_radps": motion.w_body_radps.tolist(),
            "gyro_bias_radps": None if motion.gyro_bias_radps is None else motion.gyro_bias_radps.tolist(),
        }

    def _deliver_blank(self, t_ns: int) -> None:
        kinds = [(m, variant) for m in self.camera.modalities for variant in self.camera.variants_of(m)]
        for modality, variant in kinds:
            black = empty_picture(self.camera.model, modality)
            kind = {"modality": str(modality), "variant": variant, "blank": True}
            header = self._base_header(t_ns, t_ns) | kind | {"t_use_ns": t_ns, "t_oldest_ns": t_ns}
            if modality in _SHOWN:
                self.newest = (header, black, t_ns)
            self._hand_over(header, black, Stamps(request=t_ns))

    def _hand_over(self, header: dict[str, Any], pixels: ImageArray, stamps: Stamps) -> None:
        header["stamps_ns"] = {
            "capture": stamps.capture,
            "arrival": stamps.arrival,
            "request": stamps.request,
            "image": stamps.image,
            "warp": stamps.warp,
        }
        self._sink.offer(header, pixels)
        self.delivered[header["modality"] + "/" + header["variant"]] += 1


def _pose_dict(pose: Transform) -> dict[str, list[float]]:
    return {"p_m": pose.p_m.tolist(), "q_xyzw": pose.q_xyzw.tolist()}


def _with_gaps(image: RenderedImage) -> ImageArray:
    """The picture for readers, who get no mask beside it: what is not known is not a number."""
    if image.valid is None:
        return image.pixels
    return np.where(image.valid[..., None], image.pixels, np.float32(np.nan))
