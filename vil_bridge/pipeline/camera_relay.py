"""Rendered frames to the sinks: delay line, compensation, hand-over.

One thread does all this for a camera.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_MS, machine_ns, now_ns, sooner
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import (
    ImageArray,
    Modality,
    RenderedFrame,
    RenderedImage,
    Stamps,
)
from vil_bridge.interfaces.ports import COMPENSATED, RAW, FrameSink, GraySink
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.optics.pixel_formats import empty_picture
from vil_bridge.pipeline.camera import BridgeCamera, RunningDelay
from vil_bridge.pipeline.compensation import (
    CameraFrame,
    Compensation,
    HeaderWriter,
    RenderedPose,
    WarpedFrame,
)
from vil_bridge.pipeline.frame_ledger import FrameLedger
from vil_bridge.pipeline.late_ticks import LateTick, LateTicks
from vil_bridge.pipeline.poll_thread import POLL_MS
from vil_bridge.pipeline.renderer_load import PictureFreeze
from vil_bridge.pipeline.sensor.stage import sensor_stage
from vil_bridge.protocols.image_codecs import as_gray
from vil_bridge.world.world import World

_SHOWN: Final = (Modality.RGB, Modality.GRAY, Modality.RGBA)
"""Modalities that a preview can show."""
_LINE_LIMIT: Final = 64
_FIRST_DELIVERY_NS: Final = 3_000_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    """One camera's part of a frame on its way through the delay line."""

    due_ns: int
    rendering: CameraFrame


class CameraRelay:
    """One camera's images from the renderers that may draw it to its sink, in the order in which
    they were asked for.

    Where the renderer is late, its last image is warped once more for the tick that has none.
    Neither meter nor ledger nor ``delivered`` count such a picture.

    Args:
        meter: counts the pictures that were fit to be shown, with or without a reader; black ones
            are not.
        on_rendered: gets every frame at once, before its delays (link threads).

    Attributes:
        headers: writes the headers of its pictures.
        rendered: pictures that came from the renderers.
        freeze: says whether the renderer repeats its pictures.
        refused_age_ns: age of the newest picture that was too old.
        delivered: images handed to the sink by variant.
        repeated: ticks for which a rendering was shown again.
        dropped: images that were not, by reason.
        warped: compensated images, by method and by how the pose was found.
        newest: header, picture and time of the newest frame, with or without a reader.
        on_rendered: gets every rendered frame at once, before its delays; None = none wants them.
    """

    def __init__(
        self,
        camera: BridgeCamera,
        world: World,
        sink: FrameSink,
        ledger: FrameLedger,
        meter: Meter,
        on_rendered: Callable[[RenderedFrame], None] | None = None,
    ) -> None:
        self.camera = camera
        self.rendered = 0
        self.repeated = 0
        self.refused_age_ns = 0
        self.freeze = PictureFreeze()
        if isinstance(camera.plane_depth_m, (int, float)):
            self.freeze = PictureFreeze(camera.plane_depth_m)
        self.delivered: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.warped: Counter[str] = Counter()
        self.newest: tuple[FrameHeader, ImageArray, int] | None = None
        self._world = world
        # The compensated picture is the one that a vehicle flies on: it does not wait for the
        # other.
        self._kinds = tuple(kind for kind in (COMPENSATED, RAW) if kind in camera.variants)
        self._sink = sink
        self._wants_gray = _gray_test(sink)
        self._ledger = ledger
        self._meter = meter
        self.on_rendered = on_rendered
        self.headers = HeaderWriter(camera, world)
        self._compensation = Compensation(camera, world)
        self._sensors = sensor_stage(camera)
        self._late_ticks = LateTicks(camera)
        self._delay_line: deque[_Waiting] = deque()
        self._lock = threading.Lock()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._woken = False
        self._thread = 0
        self._last_frame_id = 0
        self._newest_drawn: RenderedPose | None = None
        self._last_due_ns = 0
        self._delivery = RunningDelay(_FIRST_DELIVERY_NS)
        self._blank_requested_ns: int | None = None

    def fileno(self) -> int:
        """Readable when there is something to do."""
        return self._wake_fd

    def wake(self) -> None:
        """Wake the relay: a frame came in or a reader gave credit; any thread."""
        with self._lock:  # so that the relay does not look between the two
            if not self._woken:
                self._woken = True
                os.eventfd_write(self._wake_fd, 1)

    def offer(self, frame: RenderedFrame) -> None:
        """Take this camera's part of a frame (link threads).

        What a later request has overtaken is dropped: the last answers of a renderer that lost the
        camera.
        """
        images = tuple(i for i in frame.images if i.view.camera.name == self.camera.name)
        if not images:
            return
        with self._lock:
            if frame.request.frame_id <= self._last_frame_id:
                self._drop("overtaken")
                return
            self._last_frame_id = frame.request.frame_id
            if len(self._delay_line) >= _LINE_LIMIT:
                self._delay_line.popleft()
                self._drop("delay_line_full")
            self._delay_line.append(
                _Waiting(self._due_ns(frame), CameraFrame(frame, images, self._newest_drawn))
            )
            self._newest_drawn = RenderedPose(
                images[0].view.T_world_camera, images[0].view.t_pose_ns
            )
        if self.on_rendered is not None:
            self.on_rendered(frame)
        if threading.get_ident() != self._thread:  # which calls step() anyhow
            self.wake()

    def _due_ns(self, frame: RenderedFrame) -> int:
        """Return the end of the artificial delay.

        The jitter is that of both cameras of a pair and keeps the order.
        """
        jitter_ns = self.camera.extra_jitter_ns
        if jitter_ns:
            jitter_ns = int(
                np.random.default_rng(frame.request.frame_id).integers(-jitter_ns, jitter_ns)
            )
        self._last_due_ns = max(
            self._last_due_ns, frame.t_image_ns + self.camera.extra_delay_ns + jitter_ns
        )
        return self._last_due_ns

    def offer_blank(self, t_ns: int) -> None:
        """Ask for a black picture that says the carrier is lost (scheduler, policy ``blank``)."""
        self._blank_requested_ns = t_ns
        self.wake()

    def record_reception(self, frame_id: int, t_received_ns: int) -> None:
        """Handle a reader's report of a frame (loop thread)."""
        stamps = self._ledger.record_reception(frame_id, t_received_ns)
        if stamps is not None and stamps.warp is not None and t_received_ns > stamps.warp:
            self._delivery.add(t_received_ns - stamps.warp)

    def step(self) -> int:
        """Process what is due; returns milliseconds until the next call is useful at the latest."""
        self._thread = threading.get_ident()
        if self._woken:
            with self._lock:
                self._woken = False
                os.eventfd_read(self._wake_fd)
        blank_ns = self._blank_requested_ns
        self._blank_requested_ns = None
        if blank_ns is not None:
            self._deliver_blank(blank_ns)
        waiting = self._pop_due()
        if waiting is not None:
            self._process(waiting.rendering)
        elif late := self._late_ticks.next(now_ns(), self._delivery.value_ns):
            self._show_again(late)
        sink_due_ns = self._sink.flush()
        self._ledger.settle()
        return self._wait_ms(sink_due_ns)

    def _wait_ms(self, sink_due_ns: int | None) -> int:
        """Return when delay line or sink are due or a tick late, whichever is sooner.

        No tick is while time stands.
        """
        due_ns = sooner(self.due_ns, sink_due_ns)
        late_ns = self._late_ticks.due_ns(self._delivery.value_ns)
        wait_ns = POLL_MS * NS_PER_MS if due_ns is None else due_ns - now_ns()
        if (
            late_ns is not None
            and (t_machine_ns := bridge_clock().mapping.when(late_ns)) is not None
        ):
            wait_ns = min(wait_ns, t_machine_ns - machine_ns())
        return min(POLL_MS, max(0, (wait_ns + NS_PER_MS - 1) // NS_PER_MS))

    @property
    def due_ns(self) -> int | None:
        """End of the delay of the oldest waiting frame, None = none waits."""
        with self._lock:
            return self._delay_line[0].due_ns if self._delay_line else None

    def close(self) -> None:
        """Release the descriptor; the relay must not be used again."""
        os.close(self._wake_fd)

    def _pop_due(self) -> _Waiting | None:
        newest = None
        with self._lock:
            while self._delay_line and self._delay_line[0].due_ns <= now_ns():
                if newest is not None:
                    self._drop("superseded")
                newest = self._delay_line.popleft()
        return newest

    def _drop(self, reason: str) -> None:
        self.dropped[reason] += 1

    def _process(self, rendering: CameraFrame) -> None:
        frame, images, _ = rendering
        request = frame.request
        t_warp_ns = now_ns()
        self.rendered += 1
        self._late_ticks.shown = None
        if self.freeze.check(images[0], request.t_request_ns):
            self._drop("picture_frozen")
            return
        age_ns = t_warp_ns - self.headers.oldest_ns(request)
        if age_ns > self.camera.max_age_ns:
            self.refused_age_ns = age_ns
            self._drop("too_old")
            return
        if not self.camera.usable(self._world):
            self._drop("tracking_lost")
            return
        t_use_ns = t_warp_ns + self._delivery.value_ns
        self.camera.delay.add(t_use_ns - request.t_request_ns)
        shown = self._compensation.frame(request.frame_id, rendering, t_use_ns)
        if self.camera.repeat_ns and COMPENSATED in self._kinds:
            self._late_ticks.shown = rendering, shown.target.t_ns
        stamps = _stamps(frame, t_warp_ns)
        for image in images:
            modality = image.view.modality
            wanted = [kind for kind in self._kinds if self._sink.wanted(str(modality), kind)]
            for_preview = (RAW,) if modality in _SHOWN else ()
            # A sensor makes gray from its colours.
            sees_gray = modality is Modality.RGB and self._sensors is None
            if sees_gray and wanted and all(self._wants_gray(kind) for kind in wanted):
                image = replace(image, pixels=as_gray(image.pixels))
            made = [
                self._deliver(frame, image, shown, k, stamps, k in wanted)
                for k in wanted or for_preview
            ]
            if modality in _SHOWN:
                self.newest = (*made[0], now_ns())
        self._ledger.record_output(request.frame_id, stamps)
        self._meter.mark(now_ns())

    def _show_again(self, late: LateTick) -> None:
        """Warp the last rendering to the instant of a late tick, for those that read compensated
        pictures.

        Nothing that must not be shown as new is: too old, tracking lost, held, and after a frozen
        picture nothing.
        """
        frame, images, _ = late.rendering
        t_warp_ns = now_ns()
        too_old = t_warp_ns - self.headers.oldest_ns(frame.request) > self.camera.max_age_ns
        if too_old or not self.camera.usable(self._world):
            return
        shown = self._compensation.frame(late.frame_id, late.rendering, late.t_use_ns)
        if shown.target.mode == "none":
            return
        stamps = _stamps(frame, t_warp_ns)
        for image in images:
            if self._sink.wanted(str(image.view.modality), COMPENSATED):
                self._hand_over(*self._make(frame, image, shown, COMPENSATED, stamps), stamps)
                self._record_flow(image, shown)
        self.repeated += 1

    def _deliver(
        self,
        frame: RenderedFrame,
        image: RenderedImage,
        shown: WarpedFrame,
        variant: str,
        stamps: Stamps,
        wanted: bool,
    ) -> tuple[FrameHeader, ImageArray]:
        """Make a picture and its header, and hand it over if it is wanted."""
        header, pixels = self._make(frame, image, shown, variant, stamps)
        if variant == COMPENSATED:
            self.warped[
                f"{header.compensation['method']}/{header.compensation['pose_method']}"
            ] += 1
        if wanted:
            self._hand_over(header, pixels, stamps)
            self.delivered[f"{header.modality}/{header.variant}"] += 1
            if variant == COMPENSATED:
                self._record_flow(image, shown)
        return header, pixels

    def _make(
        self,
        frame: RenderedFrame,
        image: RenderedImage,
        shown: WarpedFrame,
        variant: str,
        stamps: Stamps,
    ) -> tuple[FrameHeader, ImageArray]:
        compensated = variant == COMPENSATED
        pixels = shown.picture(image, compensated=compensated)
        header = self.headers.picture(frame, image, shown, variant)
        if self._sensors is not None:
            pixels = self._sensors.picture(
                image.view.modality,
                pixels,
                header.t_display_ns,
                lambda: shown.texture(compensated=compensated),
                tone_curve=frame.tone_curve,
            )
        stamps.output = stamps.output or now_ns()  # of the frame's first picture
        return header, pixels

    def _record_flow(self, image: RenderedImage, shown: WarpedFrame) -> None:
        if image.view.modality is Modality.FLOW:
            self._compensation.record_flow(shown)

    def _deliver_blank(self, t_ns: int) -> None:
        kinds = [(m, variant) for m in self.camera.modalities for variant in self.camera.variants]
        for modality, variant in kinds:
            black = empty_picture(self.camera.model, modality)
            header = self.headers.blank(modality, variant, t_ns)
            if modality in _SHOWN:
                self.newest = (header, black, t_ns)
            self._hand_over(header, black, Stamps(request=t_ns))
            self.delivered[f"{header.modality}/{header.variant}"] += 1

    def _hand_over(self, header: FrameHeader, pixels: ImageArray, stamps: Stamps) -> None:
        self.headers.complete(header, stamps)
        self._sink.offer(header, pixels)


def _stamps(frame: RenderedFrame, t_warp_ns: int) -> Stamps:
    request = frame.request
    return Stamps(
        request.t_capture_ns,
        request.t_arrival_ns,
        request.t_request_ns,
        frame.t_image_ns,
        t_warp_ns,
    )


def _gray_test(sink: FrameSink) -> Callable[[str], bool]:
    """Return the function that says whether gray suffices for a sink, of RGB of a variant."""
    if isinstance(sink, GraySink):
        return sink.wants_gray
    return lambda _variant: False


class FanOut:
    """A :class:`~vil_bridge.interfaces.ports.FrameSink` that hands each picture to those that want
    its kind.

    Sinks come and go while pictures flow, from any thread: one that was removed is not called any
    more.
    """

    def __init__(self, sinks: Sequence[FrameSink]) -> None:
        self._sinks: tuple[tuple[FrameSink, Callable[[str], bool]], ...] = ()
        self._lock = threading.RLock()
        for sink in sinks:
            self.add(sink)

    def add(self, sink: FrameSink) -> None:
        """Hand it pictures from the next one on."""
        with self._lock:
            if all(known is not sink for known, _ in self._sinks):
                self._sinks = (*self._sinks, (sink, _gray_test(sink)))

    def remove(self, sink: FrameSink) -> None:
        """Hand it no more pictures; closing it is left to the caller."""
        with self._lock:
            self._sinks = tuple(known for known in self._sinks if known[0] is not sink)

    def wanted(self, modality: str, variant: str) -> bool:
        """Return True when one of the sinks wants this kind."""
        # A generator costs more, several times for each picture.
        for sink, _ in self._sinks:  # noqa: SIM110
            if sink.wanted(modality, variant):
                return True
        return False

    def wants_gray(self, variant: str) -> bool:
        """Return True when gray suffices for all sinks that want RGB of this variant."""
        asked = False
        # Plain loops here and below: generators cost more, for each picture.
        for sink, wants_gray in self._sinks:
            if sink.wanted(Modality.RGB, variant):
                if not wants_gray(variant):
                    return False
                asked = True
        return asked

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Hand a picture over.

        An RGB picture that became gray only to those for whom it suffices.
        """
        became_gray = header.modality == Modality.RGB and pixels.ndim == 2
        with self._lock:
            for sink, wants_gray in self._sinks:
                if sink.wanted(*header.kind) and (not became_gray or wants_gray(header.variant)):
                    sink.offer(header, pixels)

    def flush(self) -> int | None:
        """Let all send what became possible; return when one of them wants to be called again."""
        with self._lock:
            due_ns: int | None = None
            for sink, _ in self._sinks:
                due_ns = sooner(due_ns, sink.flush())
        return due_ns

    def close(self) -> None:
        """Close all."""
        with self._lock:
            for sink, _ in self._sinks:
                sink.close()
