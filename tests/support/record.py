"""Help for the tests of recordings.

Events to record, a recorder without a bridge, and what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tests.support.frame_headers import frame_header
from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.frame_header import HeaderPose
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ClockExchange,
    ImuSample,
    Markers,
    SkeletonFrame,
    SkeletonModel,
    SourceEvent,
    SourceFrame,
    SourceReset,
)
from vil_bridge.interfaces.ports import CameraInfo
from vil_bridge.recording.metadata import RecordedActor, RecordingFacts
from vil_bridge.recording.recorder import Recorder
from vil_bridge.recording.write_queue import WaitingPicture

HERE = Transform.identity()
CAMERA = CameraInfo(
    CameraModel("front", 32, 24, 1.2), "drone", HERE, HERE, 30.0, {"rgb": ("compensated", "raw")}
)
FACTS = RecordingFacts(
    bridge="test",
    version="1.2.3",
    config_text="version: 1\n",
    utc_offset_ns=WallClock.of_run().offset_ns,
    sources=("mocap", "imu"),
    actors=(
        RecordedActor(
            "drone", "mocap", "body", False, Transform.of((1.0, 2.0, 3.0)), HERE, "imu", HERE
        ),
        RecordedActor("human", "mocap", "Actor", True, HERE, HERE),
    ),
    cameras=(CAMERA,),
)
MODEL = SkeletonModel(
    "Actor", ("hip", "head"), (-1, 0), np.array([[0.0, 0.0, 0.0], [0.0, 0.1, 0.7]]), 1.05
)


def frame_at(number: int, t_ns: int) -> SourceFrame:
    """A frame with a body, a skeleton and two markers."""
    noise = np.random.default_rng(number)
    return SourceFrame(
        source="mocap",
        frame_number=number,
        t_foreign_ns=t_ns + 7_000_000_000,
        t_arrival_ns=t_ns,
        subjects=("body", "wand"),
        p_m=noise.normal(size=(2, 3)),
        q_xyzw=np.tile([0.0, 0.0, 0.0, 1.0], (2, 1)),
        tracked=np.array([True, False]),
        skeletons=(
            SkeletonFrame(
                MODEL, noise.normal(size=(2, 3)), noise.normal(size=(2, 4)), np.array([True, True])
            ),
        ),
        markers=Markers(("body/1", ""), noise.normal(size=(2, 3)), np.array([True, False])),
        latency_ns=1_500_000,
    )


def some_events(count: int) -> list[SourceEvent]:
    """Of every kind, in turn, stamped now."""
    events: list[SourceEvent] = []
    for i in range(count):
        t_ns = now_ns()
        noise = np.random.default_rng(1000 + i)
        events.append(frame_at(i, t_ns))
        events.append(
            ImuSample(
                "imu", None if i % 2 else t_ns, t_ns, noise.normal(size=3), noise.normal(size=3)
            )
        )
        if i % 10 == 0:
            events.append(ClockExchange("mocap", t_ns - 300, t_ns + 7_000_000_000, t_ns))
        if i % 50 == 49:
            events.append(SourceReset("imu", "restarted", clock=bool(i % 100 == 99)))
    return events


def picture(
    frame_id: int, variant: str = "compensated", size: tuple[int, int] = (24, 32)
) -> WaitingPicture:
    """A grey one whose brightness is its number."""
    pose = HeaderPose([float(frame_id), 0.0, 0.0], [0.0, 0.0, 0.0, 1.0])
    header = frame_header(frame_id, variant=variant, pose_rendered=pose, pose_display=pose)
    return WaitingPicture(
        "front", header, np.full((*size, 3), frame_id % 256, np.uint8), header.t_display_ns
    )


@contextmanager
def recorder(path: Path) -> Iterator[Recorder]:
    """One that takes an event's arrival for its capture."""
    recording = Recorder(path, FACTS, lambda event: getattr(event, "t_arrival_ns", None))
    try:
        yield recording
    finally:
        recording.stop(30.0)


def record(path: Path, events: list[SourceEvent], pictures: int = 0) -> Recorder:
    """A finished recording of those events and pictures."""
    with recorder(path) as recording:
        for event in events:
            recording.queue.enqueue_event(event)
        for i in range(pictures):
            recording.queue.enqueue_picture(picture(i))
    return recording


def same(a: SourceEvent, b: SourceEvent) -> bool:
    """Equal to the last bit."""
    return _plain(a) == _plain(b)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    fields = getattr(type(value), "__dataclass_fields__", None)
    return (
        value
        if fields is None
        else (type(value), *(_plain(getattr(value, name)) for name in fields))
    )
