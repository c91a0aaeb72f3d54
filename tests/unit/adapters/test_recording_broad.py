"""Two real recordings (a real OptiTrack room and the IMU that was tracked in it)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.common import data_dir
from vil_adapters.recording import EurocMotion
from vil_bridge.core.geometry import q_conj, q_exp, q_log, q_mul

S = 1_000_000_000
MS = 1_000_000


@pytest.fixture(scope="module")
def broad_12() -> EurocMotion:
    """Read once: nothing that plays a recording changes it."""
    return EurocMotion.demo(data_dir("broad_12_slow_translation"), 30)


def _changes(motion: EurocMotion, begin_ms: int, end_ms: int) -> list[int]:
    """Milliseconds at which tracking begins or ends."""
    tracked = [bool(motion.at(t * MS).tracked[0]) for t in range(begin_ms, end_ms)]
    return [begin_ms + i for i in range(1, len(tracked)) if tracked[i] != tracked[i - 1]]


def test_broad_12_shows_its_real_events_within_thirty_seconds(broad_12: EurocMotion) -> None:
    motion = broad_12
    assert motion.mocap_rate_hz == pytest.approx(1000 / 7)
    assert motion.imu_rate_hz == pytest.approx(1000 / 3.5)
    assert sum(w.duration_ns for w in motion.playlist) == 30 * S
    assert motion.motion_begin_ns() / S == pytest.approx(36.0, abs=0.2)
    # Acquired after 1.2 s, the gap of 28 ms 21 ms later, lost for the last three seconds.
    assert _changes(motion, 0, 3000) == [1200, 1222, 1249]
    assert _changes(motion, 26_000, 30_000) == [27001]
    assert not motion.at(0).tracked[0]


def test_broad_07_shows_its_real_events_within_thirty_seconds() -> None:
    motion = EurocMotion.demo(data_dir("broad_07_fast_rotation"), 30)
    assert sum(w.duration_ns for w in motion.playlist) == 30 * S
    assert _changes(motion, 0, 3000) == [1200]
    assert _changes(motion, 26_000, 30_000) == [27190]


def test_the_real_gyroscope_agrees_with_the_real_poses(broad_12: EurocMotion) -> None:
    """Wrong axes, quaternion order, time or joints would each turn the two apart by tens of
    degrees.
    """
    motion = broad_12
    rest = motion.imu_between(-1, 2 * S)
    bias_radps = np.mean([w for _, w, _ in rest], axis=0)
    assert np.mean([f[2] for _, _, f in rest]) == pytest.approx(9.81, abs=0.1)
    for begin_ns in range(3 * S, 24 * S, 3 * S):
        samples = motion.imu_between(begin_ns, begin_ns + S)
        start, end = motion.truth(begin_ns), motion.truth(samples[-1][0])
        assert start is not None and end is not None
        q, t_ns = start.q_xyzw, begin_ns
        for sample_ns, w_radps, _ in samples:
            q = q_mul(q, q_exp((w_radps - bias_radps) * (sample_ns - t_ns) / S))
            t_ns = sample_ns
        assert np.degrees(np.linalg.norm(q_log(q_mul(q_conj(end.q_xyzw), q)))) < 1.5
