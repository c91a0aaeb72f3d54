"""Recordings as a source.

Played at their own pace, stamped in their own clock, with their own gaps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import numpy as np

from vil_adapters.recording.config import RecordingConfig
from vil_adapters.recording.formats import open_recording
from vil_adapters.recording.model import MotionFile
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import ImuSample, SourceFrame, SourceReset
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.runtime.delay_line import DelayLine
from vil_bridge.runtime.supervisor import Status


class RecordingSource:
    """Playback of one recording, once or in a loop (implements ``PoseSource``).

    Raises:
        ConfigError: the recording cannot be read; raised at once, before anything runs.
    """

    def __init__(self, name: str, config: RecordingConfig) -> None:
        self.name = name
        self._config = config
        self.recording = open_recording(
            config.path,
            config.format,
            subject=config.subject,
            unit_m=config.unit_m,
            up_axis=config.up_axis,
        )
        self._played = False

    async def run(self, emit: Emit, status: Status, context: SourceContext) -> None:
        """Play until cancelled; after the end of a recording that does not loop, wait."""
        recording = self.recording
        markers = 0
        if recording.markers is not None:
            markers = len(recording.markers.labels)
        status.facts.update(
            recording=recording.title,
            format=recording.format,
            rate_hz=recording.rate_hz,
            duration_s=recording.duration_ns / NS_PER_S,
            subjects=list(recording.subjects),
            skeletons=[model.name for model in recording.skeleton_models],
            markers=markers,
            imu=recording.imu is not None,
        )
        if self._config.start == "first_picture" and not self._played:
            status.waiting("waits for the first picture of a renderer (start: first_picture)")
            await self._stand(emit, context)
            emit(SourceReset(self.name, "the recording begins"))
        while True:
            if self._played:
                emit(SourceReset(self.name, "the recording begins again"))
            self._played = True
            await _Pass(self.name, recording, self._config.speed, emit, status).play()
            if not self._config.loop:
                status.waiting(f"{recording.title} has ended; set loop to play it again")
                await asyncio.Event().wait()

    async def _stand(self, emit: Emit, context: SourceContext) -> None:
        """Show the first row at the nominal rate until a picture has come.

        Cameras on its bodies need their poses.
        """
        recording = self.recording
        start_ns = now_ns()

        def show(number: int) -> None:
            t_ns = now_ns()
            line.enqueue(max(t_ns, start_ns + number * recording.period_ns), number + 1)
            emit(
                _frame(
                    self.name, recording, number, 0, int(recording.t_ns[0]) + t_ns - start_ns, t_ns
                )
            )

        line = DelayLine(show)
        try:
            line.enqueue(start_ns, 1)
            await context.first_picture.passed()
        finally:
            line.close()


class _Pass:
    """One time through the recording."""

    def __init__(
        self, name: str, recording: MotionFile, speed: float, emit: Emit, status: Status
    ) -> None:
        self._name = name
        self._recording = recording
        self._speed = speed
        self._emit = emit
        self._status = status
        self._instants: Iterator[int] = recording.instants()
        self._number = 0
        self._imu = recording.imu
        if speed != 1.0:  # felt at another speed, the same motion has other rates and forces
            self._imu = None
        self._imu_row = 0
        if self._imu is not None:
            self._imu_row = int(np.searchsorted(self._imu.t_ns, recording.t_ns[0]))
        self._start_ns = now_ns()
        # Bridge time of the first row, for those who compare with the file.
        status.facts["started_ns"] = self._start_ns
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # One line for both, so that samples and frames come in one order of time on a busy machine
        # too.
        self._line: DelayLine[Callable[[], None]] = DelayLine(self._deliver)

    async def play(self) -> None:
        """Return one period after the last frame."""
        try:
            self._await_sample()
            self._await_frame(next(self._instants))
            await self._done
        finally:
            self._line.close()

    def _deliver(self, act: Callable[[], None]) -> None:
        if self._done.done():
            return
        try:
            act()
        except Exception as exc:
            self._done.set_exception(exc)

    def _await_frame(self, instant_ns: int | None) -> None:
        if instant_ns is None:
            end_ns = self._recording.duration_ns + self._recording.period_ns
            self._line.enqueue(self._due_ns(end_ns), lambda: self._done.set_result(None))
        else:
            self._line.enqueue(
                self._due_ns(instant_ns), lambda: self._await_frame(self._newest_due(instant_ns))
            )

    def _await_sample(self) -> None:
        """Wait for the next inertial sample, if one comes before the last frame."""
        if self._imu is None or self._imu_row == len(self._imu.t_ns):
            return
        instant_ns = int(self._imu.t_ns[self._imu_row] - self._recording.t_ns[0])
        if instant_ns <= self._recording.duration_ns:
            self._line.enqueue(self._due_ns(instant_ns), lambda: self._sample_due(instant_ns))

    def _sample_due(self, instant_ns: int) -> None:
        """Emit a sample at its own time, unless it went with a frame; wait for the next one."""
        self._emit_inertial(instant_ns, now_ns())
        self._await_sample()

    def _newest_due(self, instant_ns: int) -> int | None:
        """Emit it; returns the first instant that is not due yet."""
        t_ns = now_ns()
        self._number += 1
        following_ns = next(self._instants, None)
        while following_ns is not None and self._due_ns(following_ns) <= t_ns:
            self._status.counters["superseded"] += 1
            self._number += 1
            instant_ns = following_ns
            following_ns = next(self._instants, None)
        self._emit_inertial(instant_ns, t_ns)
        self._emit(self._frame(instant_ns, t_ns))
        self._status.facts["position_s"] = instant_ns / NS_PER_S
        self._status.running()
        return following_ns

    def _emit_inertial(self, until_ns: int, t_arrival_ns: int) -> None:
        """Emit the samples up to an instant: those before a frame come before it."""
        if self._imu is None:
            return
        t_ns, w_radps, f_mps2 = self._imu
        end = int(np.searchsorted(t_ns, int(self._recording.t_ns[0]) + until_ns, side="right"))
        for row in range(self._imu_row, end):
            self._emit(
                ImuSample(self._name, int(t_ns[row]), t_arrival_ns, w_radps[row], f_mps2[row])
            )
        self._imu_row = max(self._imu_row, end)

    def _due_ns(self, instant_ns: int) -> int:
        return self._start_ns + round(instant_ns / self._speed)

    def _frame(self, instant_ns: int, t_arrival_ns: int) -> SourceFrame:
        """Return a frame stamped in the recording's clock, which runs at the speed of the
        playback.
        """
        t_foreign_ns = int(self._recording.t_ns[0]) + round(instant_ns / self._speed)
        return _frame(
            self._name, self._recording, self._number, instant_ns, t_foreign_ns, t_arrival_ns
        )


def _frame(
    source: str,
    recording: MotionFile,
    number: int,
    instant_ns: int,
    t_foreign_ns: int,
    t_arrival_ns: int,
) -> SourceFrame:
    """Return what the recording shows at an instant after its first row, with the stamps given."""
    seen = recording.at(instant_ns)
    return SourceFrame(
        source=source,
        frame_number=number,
        t_foreign_ns=t_foreign_ns,
        t_arrival_ns=t_arrival_ns,
        subjects=seen.subjects,
        p_m=seen.p_m,
        q_xyzw=seen.q_xyzw,
        tracked=seen.tracked,
        skeletons=seen.skeletons,
        markers=seen.markers,
    )
