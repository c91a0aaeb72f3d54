"""Ticks of a camera whose pictures are late: when that is known, and what is shown instead."""

from __future__ import annotations

from typing import Final, NamedTuple

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.compensation import CameraFrame

_TOLERANCE: Final = 0.25
"""A picture is late when it is not there this part of a period after the usual time."""


class LateTick(NamedTuple):
    """Tick whose picture is late.

    Attributes:
        frame_id: of the picture that is shown instead: between those of two requests, the same for
            a stereo pair.
        t_use_ns: instant for which the tick's own picture was to be shown.
    """

    rendering: CameraFrame
    frame_id: int
    t_use_ns: int


class LateTicks:
    """Finds the late ticks of one camera; belongs to its relay's thread.

    Args:
        camera: with its ticks, its usual delay and its limit.

    Attributes:
        shown: newest picture that the renderer made for its and all earlier ticks, and the instant
            that it shows; None = nothing may be shown again. The relay sets it.
    """

    def __init__(self, camera: BridgeCamera) -> None:
        self._camera = camera
        self._period_ns = round(NS_PER_S / camera.rate_hz)
        self._tolerance_ns = round(_TOLERANCE * self._period_ns)
        self.shown: tuple[CameraFrame, int] | None = None
        self._accounted: tuple[CameraFrame, int] | None = None
        self._served_ns = 0
        self._shown_ns = 0

    def due_ns(self, delivery_ns: int) -> int | None:
        """Return when the next picture will be late, unless it comes before.

        None = nothing may be shown again.

        Args:
            delivery_ns: the part of the camera's delay after the warp.
        """
        if self.shown is None:
            return None
        if self.shown is not self._accounted:
            self._accounted, self._shown_ns = self.shown, self.shown[1]
            self._serve(self.shown[0].frame.request.t_request_ns)
        ticks = self._camera.ticks
        tick_ns = ticks[0] if ticks else self._served_ns + self._period_ns
        return tick_ns + self._camera.delay.value_ns - delivery_ns + self._tolerance_ns

    def next(self, t_ns: int, delivery_ns: int) -> LateTick | None:
        """Return the newest tick that is late by now; those before it are left out.

        None as well where a newer instant was shown already, and from the limit on.
        """
        ticks = self._camera.ticks
        late_ns = None
        while (due_ns := self.due_ns(delivery_ns)) is not None and due_ns <= t_ns:
            if ticks:
                late_ns = self._served_ns = ticks.popleft()
            else:  # no picture is due yet
                self._served_ns += self._period_ns
            self._forget_too_old()
        if late_ns is None or self.shown is None:
            return None
        t_use_ns = late_ns + self._camera.delay.value_ns
        if t_use_ns <= self._shown_ns:
            return None
        self._shown_ns = t_use_ns
        rendering = self.shown[0]
        request = rendering.frame.request  # requests are numbered by their nanosecond
        frame_id = request.frame_id + 1 + (late_ns - request.t_request_ns) // NS_PER_MS
        return LateTick(rendering, frame_id, t_use_ns)

    def _forget_too_old(self) -> None:
        if self.shown is None:
            return
        t_use_ns = self._served_ns + self._camera.delay.value_ns
        if t_use_ns - self.shown[0].images[0].view.t_pose_ns > self._camera.repeat_ns:
            self.shown = None

    def _serve(self, t_request_ns: int) -> None:
        ticks = self._camera.ticks
        while ticks and ticks[0] <= t_request_ns:
            ticks.popleft()
        self._served_ns = t_request_ns
