"""Help for the tests of work without a clock.

A short recording of a drone that loses sight of its room for a while.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from vil_bridge import __version__
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import ClockExchange, ImuSample, SourceEvent, SourceFrame
from vil_bridge.recording.metadata import RecordingFacts
from vil_bridge.recording.recorder import Recorder

MS = 1_000_000
T0_NS = 5_000_000_000_000
"""Bridge time of the first event: not the time of any machine that runs the tests."""
CLOCK_NS = 77 * 3_600_000_000_000
"""What the room's clock is ahead."""
LATENCY_NS = 6 * MS
PERIOD_NS = 10 * MS
BLIND_NS = (500 * MS, 900 * MS)
"""While nobody sees the drone."""

ROOM = """
scene: a small room
objects:
  - {name: floor, plane: {size_m: [10, 10]}, material: {surface: mat}, class: floor}
  - {name: north, box: {size_m: [10, 0.2, 4]}, p_m: [0, 4, 0], material: {surface: wall_block},
        class: wall}
  - {name: east, box: {size_m: [0.2, 10, 4]}, p_m: [4, 0, 0], material: {surface: wall_brick},
        class: wall}
  - {name: south, box: {size_m: [10, 0.2, 4]}, p_m: [0, -4, 0], material: {surface: wall_block},
        class: wall}
  - {name: west, box: {size_m: [0.2, 10, 4]}, p_m: [-4, 0, 0], material: {surface: wall_brick},
        class: wall}
  - {name: crate, box: {size_m: [0.8, 0.8, 0.8]}, p_m: [1.5, 1, 0.4], material: {surface: crate},
        class: box}
beacons: [{name: East_1, p_m: [3.85, 1, 1.6]}, {name: East_2, p_m: [-3.85, 0, 2]}]
"""

CONFIG = """
version: 1
name: recorded
rooms: {lab: {}}
sources: {mocap: {type: optitrack, room: lab}, imu: {type: mavlink-imu, device: none}}
actors: {drone: {kind: vehicle, source: mocap, subject: Drone}}
renderers: {drawn: {type: flightgoggles}}
cameras:
  front: {actor: drone, renderer: drawn, width_px: 64, height_px: 48, rate_hz: 25,
      modalities: [gray, depth]}
  still: {renderer: drawn, width_px: 48, height_px: 48, rate_hz: 12.5,
      T_body_camera: {p_m: [-3, 0, 1.5]}}
"""


def room_file(folder: Path) -> Path:
    """A scene file."""
    path = folder / "room.yaml"
    path.write_text(ROOM)
    return path


def pose_at(t_s: float) -> Transform:
    """Where the drone really is, that long after the first event."""
    return Transform.of(
        (math.sin(t_s), 0.5 * t_s, 1.2), q_from_euler_zyx(0.8 * t_s, 0.05 * math.sin(3 * t_s), 0.0)
    )


def flight(seconds: float = 1.5, latency_ns: int = LATENCY_NS) -> Iterator[SourceEvent]:
    """Frames of the room, exchanges with its clock, and some samples of an IMU, in the order of
    arrival.
    """
    for number in range(round(seconds * 1e9 / PERIOD_NS)):
        t_ns = T0_NS + number * PERIOD_NS
        if number % 20 == 0:
            yield ClockExchange("mocap", t_ns, t_ns + 100_000 + CLOCK_NS, t_ns + 200_000)
        pose = pose_at(1e-9 * (t_ns - T0_NS))
        seen = not BLIND_NS[0] <= t_ns - T0_NS < BLIND_NS[1]
        rows = np.array([pose.p_m]), np.array([pose.q_xyzw]), np.array([seen])
        yield SourceFrame("mocap", number, t_ns + CLOCK_NS, t_ns + latency_ns, ("Drone",), *rows)
        yield ImuSample("imu", None, t_ns + latency_ns, np.zeros(3), np.array([0.0, 0.0, 9.8]))


def write_recording(
    path: Path,
    config: str = CONFIG,
    events: Iterable[SourceEvent] | None = None,
    ledger: Iterable[tuple[str, bytes]] = (),
) -> Path:
    """A recording as the bridge writes it, Unix time 7 ns ahead of bridge time."""
    facts = RecordingFacts("recorded", __version__, config, 7, ("mocap", "imu"))
    recorder = Recorder(path, facts, lambda _event: None, lambda last: ledger if last else ())
    for event in flight() if events is None else events:
        recorder.queue.enqueue_event(event)
    recorder.stop(60.0)
    report = recorder.report()
    assert (report.state, report.lost) == ("done", {}), report
    return path
