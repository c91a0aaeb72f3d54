"""The vehicle of a recorded flight.

Reads its IMU and its camera's pictures, and says how far these are off.

In real time it is a process of its own, as on a vehicle: ``python -m tests.support.flight_vehicle
ENDPOINT FOLDER OFFSET_NS [send]``, with the offset of the recording from the monotonic clock. It
writes JSON, a line a picture.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tests.support.recorded_flight import F_PX, RecordedFlight, residuals_px
from vil_benchmarks.compensate_points import T_BODY_OPTICAL
from vil_benchmarks.recordings import BenchRecording
from vil_bridge.client import Frame, Receiver
from vil_bridge.client_warp import ImuRing
from vil_bridge.core.geometry import q_conj, q_log, q_mul
from vil_bridge.core.types import FloatArray

_PERIOD_S = 0.001


@dataclass(frozen=True, slots=True)
class Judged:
    """One picture, against the recording.

    Attributes:
        t_s: recording time that it shows.
        error_px: mean over its dots.
        motion: ``inertial``, or ``none`` where it is the bridge's, and the problem.
        held_ms: age of the newest sample at that instant, by mocap's stamps. age_ms: by the
            vehicle's clock.
        clock_ms: error of the reader's clock, where bridge and vehicle have the same.
        pose_px: error of the attitude that the picture is stamped with, at the picture's centre.
        measured_px: that of the attitude that the bridge measured last, measured_ms before.
    """

    t_s: float
    error_px: float
    motion: str
    problem: str
    held_ms: float
    age_ms: float
    clock_ms: float
    pose_px: float
    measured_px: float
    measured_ms: float


def judged(frame: Frame, flight: RecordedFlight, offset_ns: int) -> Judged | None:
    """Return how far a picture is off.

    None where the recording has no truth, or no dot is well inside.
    """
    t_ns, motion, shown = frame.t_ns - offset_ns, frame.motion, frame.pose_display
    if motion is None or motion.measured is None or shown is None:
        return None
    measured = motion.measured
    truth, before = flight.recording.at(t_ns), flight.recording.at(measured.t_ns - offset_ns)
    if truth is None or before is None or not len(errors := residuals_px(frame.image, truth)):
        return None
    late = frame.compensation["late"]
    held_ms = 1e-6 * (late.get("imu_age_ns") or 0)
    return Judged(
        t_s=1e-9 * t_ns,
        error_px=float(errors.mean()),
        motion=late["motion"],
        problem=late["problem"],
        held_ms=held_ms,
        age_ms=held_ms - 1e-6 * (motion.imu_late_ns or 0),
        clock_ms=1e-6 * (frame.t_ns - frame.t_bridge_ns),
        pose_px=_turned_px(shown.q_xyzw, (truth @ T_BODY_OPTICAL).q_xyzw),
        measured_px=_turned_px(measured.T_world_body.q_xyzw, before.q_xyzw),
        measured_ms=1e-6 * (frame.t_ns - measured.t_ns),
    )


def _turned_px(q_xyzw: FloatArray, true_xyzw: FloatArray) -> float:
    return F_PX * float(np.linalg.norm(q_log(q_mul(q_conj(true_xyzw), q_xyzw))))


class SimulatedImu(ImuRing):
    """The ring of an IMU in simulated time.

    At each call it has the samples up to that instant, and none beyond.

    Args:
        flight: whose samples.
        now: returns the recording's offset from bridge time, and how late its stamps are there.
    """

    def __init__(self, flight: RecordedFlight, now: Callable[[], tuple[int, int]]) -> None:
        super().__init__()
        self._flight, self._now, self._row = flight, now, 0

    def between(self, t0_ns: int, t1_ns: int) -> tuple[FloatArray, FloatArray, FloatArray, int]:
        """Read the sensor first: the stamps of an instant are late by as much as is known."""
        offset_ns, late_ns = self._now()
        self._row = self._flight.feed(self.append, self._row, t1_ns - late_ns, offset_ns)
        return super().between(t0_ns, t1_ns)


@contextmanager
def reading_imu(
    flight: RecordedFlight, offset_ns: int, take: Callable[..., object]
) -> Iterator[None]:
    """Have a thread take the samples as the recording's instants come, in real time."""
    over = threading.Event()

    def read() -> None:
        row = 0
        while not over.wait(_PERIOD_S):
            row = flight.feed(take, row, time.monotonic_ns(), offset_ns)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main(endpoint: str, folder: str, offset: str, send: str = "") -> None:
    """Read until the recording is over, then judge.

    What is computed meanwhile would keep the IMU waiting.

    With ``send`` the samples go to the bridge too, which has no others.
    """
    flight, offset_ns = RecordedFlight(BenchRecording.load(Path(folder)), Path(folder)), int(offset)
    end_ns = offset_ns + int(flight.recording.t_ns[-1])
    frames, ring = [], ImuRing()
    with Receiver(endpoint, modality="gray", encoding="raw", imu=ring, name="vehicle") as receiver:

        def take(t_ns: int, w_radps: FloatArray, f_mps2: FloatArray) -> None:
            ring.append(t_ns, w_radps, f_mps2)
            if send:
                receiver.send_imu(t_ns, w_radps, f_mps2)

        with reading_imu(flight, offset_ns, take):
            while time.monotonic_ns() < end_ns:
                if (frame := receiver.next(0.1)) is not None:
                    frames.append(frame)
    for picture in (judged(frame, flight, offset_ns) for frame in frames):
        if picture is not None:
            sys.stdout.write(json.dumps(asdict(picture)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
