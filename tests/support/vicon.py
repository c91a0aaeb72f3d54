"""Help for the Vicon tests: golden bytes, motions with markers, a running pair."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.events import Received, receiving
from tests.support.motions import DANCER, Dance
from vil_adapters.vicon.config import TrackerEmulatorConfig, ViconConfig
from vil_adapters.vicon.emulator import TrackerEmulator
from vil_adapters.vicon.source import ViconSource
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import Markers, MotionFrame, SourceFrame
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion

RATE_HZ = 100.0


def golden(name: str) -> bytes:
    """A vector of tests/golden/vicon."""
    return bytes.fromhex(
        (Path(__file__).parents[1] / "golden" / "vicon" / f"{name}.hex").read_text()
    )


@dataclass
class Marked(Dance):
    """The dance with two markers on the drone (the second one hidden), one on the actor and one
    that is loose.
    """

    def at(self, t_ns: int) -> MotionFrame:
        frame = super().at(t_ns)
        p_m = (
            np.array([[0.05, 0.0, 0.1], [0.0, 0.05, 0.1], [0.0, 0.0, 1.7], [3.0, 2.0, 1.0]])
            + frame.p_m[0]
        )
        labels = ("drone/front", "drone/left", "Actor/top", "")
        tracked = np.array([True, False, True, True])
        return MotionFrame(
            frame.subjects,
            frame.p_m,
            frame.q_xyzw,
            frame.tracked,
            frame.skeletons,
            Markers(labels, p_m, tracked),
        )


@asynccontextmanager
async def filmed(
    motion: MocapMotion | None = None,
    faults: str = "",
    source: dict[str, Any] | None = None,
    **server: Any,
) -> AsyncIterator[tuple[TrackerEmulator, Received]]:
    """An emulator on a free port and a source that receives from it."""
    config = TrackerEmulatorConfig(**{"port": 0, "rate_hz": RATE_HZ, "latency_ms": 1.0} | server)
    tracker = TrackerEmulator(config, motion or Dance(), now_ns(), Faults.parse(faults))
    async with (
        tracker,
        receiving(ViconSource("lab", ViconConfig(port=tracker.port, **source or {}))) as received,
    ):
        yield tracker, received


def motion_ns(tracker: TrackerEmulator, frame: SourceFrame) -> int:
    """Time of the motion at which the frame was captured."""
    assert frame.t_foreign_ns is not None
    t_ns = frame.t_arrival_ns
    for _ in range(3):
        t_ns += frame.t_foreign_ns - tracker.foreign_ns(t_ns)
    return t_ns - tracker.epoch_ns


def assert_true(
    tracker: TrackerEmulator, motion: Dance, frames: list[SourceFrame], tolerance_m: float
) -> None:
    """Every pose is the motion's at the instant that the frame number tells."""
    assert frames
    for frame in frames:
        truth = motion.at(motion_ns(tracker, frame))
        assert frame.subjects == truth.subjects
        np.testing.assert_allclose(frame.p_m, truth.p_m, atol=tolerance_m)
        assert_same_attitude(frame.q_xyzw, truth.q_xyzw, tolerance_m)
        assert frame.tracked.all()
        (seen,), (real,) = frame.skeletons, truth.skeletons
        assert (seen.model.bones, seen.model.parents) == (DANCER.bones, DANCER.parents)
        np.testing.assert_allclose(seen.model.offsets_m, DANCER.offsets_m, atol=1e-9)
        np.testing.assert_allclose(seen.p_m, real.p_m, atol=tolerance_m)
        assert_same_attitude(seen.q_xyzw, real.q_xyzw, tolerance_m)
        assert seen.tracked.all()


def assert_same_attitude(q: Any, q_true: Any, tolerance: float) -> None:
    chord = np.minimum(np.linalg.norm(q - q_true, axis=-1), np.linalg.norm(q + q_true, axis=-1))
    assert chord.max() <= max(tolerance, 1e-7)


def elapsed_s(since_ns: int) -> float:
    return (now_ns() - since_ns) / NS_PER_S
