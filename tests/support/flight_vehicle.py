"""The vehicle of a recorded flight: reads its IMU and its camera's pictures, and says how far these are off.

In real time it is a process of its own, as on a vehicle: ``python -m tests.support.flight_vehicle ENDPOINT FOLDER
OFFSET_NS``, with the offset of the recording from the monotonic clock. It writes a line of JSON for each picture.
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

from tests.support.recorded_flight import RecordedFlight, residuals_px
from vil_bridge.client import Frame, Receiver
from vil_bridge.client_warp import ImuRing
from vil_bridge.tools.bench.recordings import BenchRecording

_PERIOD_S = 0.001


@dataclass(frozen=True, slots=True)
class Judged:
    """One picture, against the recording.

    Attributes:
        t_s: recording time that it shows.
        error_px: mean over its dots.
        motion: ``inertial``, or ``none`` where it is the bridge's.
        held_ms: age of the newest sample at that instant, by mocap's stamps. age_ms: by the vehicle's clock.
    """

    t_s: float
    error_px: float
    motion: str
    held_ms: float
    age_ms: float


def judged(frame: Frame, flight: RecordedFlight, offset_ns: int) -> Judged | None:
    """Return how far a picture is off; None where the recording has no truth, or no dot is well inside."""
    t_ns = frame.t_ns - offset_ns
    truth = flight.recording.at(t_ns)
    if truth is None or frame.motion is None or not len(errors := residuals_px(frame.image, truth)):
        return None
    late = frame.compensation["late"]
    held_ns = late.get("imu_age_ns") or 0
    age_ns = held_ns - (frame.motion.imu_late_ns or 0)
    return Judged(1e-9 * t_ns, float(errors.mean()), late["motion"], 1e-6 * held_ns, 1e-6 * age_ns)


@contextmanager
def reading_imu(flight: RecordedFlight, now_ns: Callable[[], int], offset_ns: Callable[[], int]) -> Iterator[ImuRing]:
    """Yield a ring that a thread fills as the recording's instants come."""
    ring, over = ImuRing(), threading.Event()

    def read() -> None:
        row = 0
        while not over.wait(_PERIOD_S):
            row = flight.feed(ring, row, now_ns(), offset_ns())

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield ring
    finally:
        over.set()
        thread.join()


def main(endpoint: str, folder: str, offset: str) -> None:
    """Read until the recording is over, then judge: what is computed meanwhile would keep the IMU waiting."""
    flight, offset_ns = RecordedFlight(BenchRecording.load(Path(folder)), Path(folder)), int(offset)
    end_ns = offset_ns + int(flight.recording.t_ns[-1])
    frames = []
    with (
        reading_imu(flight, time.monotonic_ns, lambda: offset_ns) as ring,
        Receiver(endpoint, modality="gray", encoding="raw", imu=ring) as receiver,
    ):
        while time.monotonic_ns() < end_ns:
            if (frame := receiver.next(0.1)) is not None:
                frames.append(frame)
    for picture in (judged(frame, flight, offset_ns) for frame in frames):
        if picture is not None:
            sys.stdout.write(json.dumps(asdict(picture)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
