"""Events of two sources, each with its own clock, become tracks of one time.

hand-eye calibration on them.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.support.align import Shaken
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.geometry import Transform, q_conj, q_from_euler_zyx, q_log, q_mul
from vil_bridge.core.types import ClockExchange, ImuSample, SourceFrame, SourceReset
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.registry import resolve
from vil_bridge.runtime.supervisor import Status
from vil_bridge.setup.align.hand_eye import calibrate
from vil_bridge.setup.align.sampling import SampleRecorder

S = 1_000_000_000
MS = 1_000_000
T0 = 5_000 * S
"""Bridge time at the start of the motion."""

CONFIG = BridgeConfig.model_validate(
    {
        "version": 1,
        "rooms": {"lab": {}},
        "sources": {
            "motive": {"type": "optitrack", "room": "lab"},
            "imu": {"type": "mavlink-imu", "device": "/dev/null"},
        },
        "actors": {
            "drone": {"kind": "vehicle", "source": "motive", "subject": "drone", "imu": "imu"}
        },
    },
    context={"resolve": resolve},
)
MOTION = Shaken(Transform.of((0.04, -0.03, 0.08), q_from_euler_zyx(2.0, 0.3, -1.0)))


def motive_ns(t_ns: int) -> int:
    """The mocap computer's clock: an hour ahead, 40 ppm fast."""
    return t_ns + 3600 * S + round(40e-6 * t_ns)


def imu_clock_ns(t_ns: int) -> int:
    """The autopilot's clock: on for half a minute, 30 ppm slow."""
    return t_ns + 30 * S - round(30e-6 * t_ns)


def feed(recorder: SampleRecorder, seconds: float, *, begin_s: float = 0.0) -> None:
    """Frames at 100 Hz with 1 to 9 ms of delay, samples at 200 Hz with up to 20 ms, exchanges at
    4 Hz.
    """
    rng = np.random.default_rng(0)
    for k in range(round(begin_s * 200), round(seconds * 200)):
        t_ns = k * 5 * MS
        if k % 50 == 0:
            for name, clock_ns in (("motive", motive_ns), ("imu", imu_clock_ns)):
                way_ns = 200_000 + int(rng.exponential(100_000))
                recorder.handle(
                    ClockExchange(name, T0 + t_ns - way_ns, clock_ns(t_ns), T0 + t_ns + 200_000)
                )
        if k % 2 == 0:
            seen = MOTION.at(t_ns)
            tracked = np.array([k % 40 != 0])
            p = seen.p_m if tracked[0] else np.zeros((1, 3))
            arrival_ns = T0 + t_ns + int(rng.uniform(1, 9) * MS)
            recorder.handle(
                SourceFrame(
                    "motive", k, motive_ns(t_ns), arrival_ns, seen.subjects, p, seen.q_xyzw, tracked
                )
            )
        for sample_ns, w, f in MOTION.imu_between(t_ns - 5 * MS, t_ns):
            arrival_ns = T0 + sample_ns + int(rng.uniform(1, 20) * MS)
            recorder.handle(ImuSample("imu", imu_clock_ns(sample_ns), arrival_ns, w, f))


@pytest.fixture(scope="module")
def recorded() -> SampleRecorder:
    recorder = SampleRecorder(CONFIG, ["drone"], imu=True)
    feed(recorder, 20.0)
    return recorder


def test_capture_times_are_those_of_the_bridge_and_arrival_jitter_is_gone(
    recorded: SampleRecorder,
) -> None:
    poses, imu = recorded.poses("drone"), recorded.imu("imu")
    assert len(poses) == 2000 - 100 and len(imu.t_ns) == 3999 + 1
    grid = np.arange(2000) * 10 * MS
    late_ns = poses.t_ns - T0 - grid[np.arange(2000) % 20 != 0]
    assert np.abs(late_ns).max() < 0.3 * MS
    assert np.abs(imu.t_ns - T0 - np.arange(4000) * 5 * MS).max() < 0.3 * MS


def test_untracked_poses_are_not_kept(recorded: SampleRecorder) -> None:
    assert np.linalg.norm(recorded.poses("drone").p_room_m, axis=1).min() > 0.0


def test_the_mounting_follows_from_what_was_received(recorded: SampleRecorder) -> None:
    found = calibrate(recorded.poses("drone"), recorded.imu("imu"))
    error = q_log(q_mul(q_conj(MOTION.T_imu_markers.q_xyzw), found.T_imu_markers.q_xyzw))
    assert np.degrees(np.linalg.norm(error)) < 0.1
    np.testing.assert_allclose(found.T_imu_markers.p_m, MOTION.T_imu_markers.p_m, atol=0.001)
    assert abs(found.offset_ns) < 1 * MS


def test_a_clock_that_restarts_leaves_only_what_comes_after() -> None:
    recorder = SampleRecorder(CONFIG, ["drone"], imu=True)
    feed(recorder, 2.0)
    recorder.handle(SourceReset("motive", "described anew", clock=False))
    assert len(recorder.poses("drone")) == 190
    recorder.handle(SourceReset("motive", "restarted"))
    assert len(recorder.poses("drone")) == 0
    assert len(recorder.imu("imu").t_ns) == 400
    feed(recorder, 3.0, begin_s=2.0)
    assert len(recorder.poses("drone")) == 95


async def test_a_source_with_a_bug_and_one_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The absent one is retried while somebody listens.

    The bug ends the listening, and is not hidden.
    """
    from vil_bridge import registry
    from vil_bridge.daemon import source_session as listening

    class Source:
        def __init__(self, name: str) -> None:
            self.name = name

        async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
            raise SourceUnavailable("not there") if self.name == "imu" else ZeroDivisionError

    monkeypatch.setattr(registry, "create", lambda _section, name, _config: Source(name))
    async with listening.listening(CONFIG, ["imu"], lambda _: None) as statuses:
        while not statuses["imu"].report().retries:
            await asyncio.sleep(0)
    with pytest.raises(ZeroDivisionError):
        async with listening.listening(CONFIG, ["motive"], lambda _: None):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
