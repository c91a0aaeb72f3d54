"""Noise of the lab's poses, by which a body at rest is not taken for a frozen system."""

from __future__ import annotations

import numpy as np

from vil_adapters.lab.motions import MeasuredMotion
from vil_adapters.motions.drone import DroneMotion
from vil_bridge.core.clock import NS_PER_MS


def test_a_body_at_rest_never_repeats_its_pose() -> None:
    truth, measured = DroneMotion(), MeasuredMotion(DroneMotion())
    # Before the start, and before it takes off.
    instants_ns = range(-2000 * NS_PER_MS, 900 * NS_PER_MS, 10 * NS_PER_MS)
    assert len({truth.at(t_ns).p_m.tobytes() for t_ns in instants_ns}) == 1
    p_m = np.array([measured.at(t_ns).p_m[0] for t_ns in instants_ns])
    assert len({row.astype(np.float32).tobytes() for row in p_m}) == len(p_m), (
        "as NatNet sends them"
    )
    assert np.abs(p_m - truth.at(0).p_m).max() < 2e-4
    np.testing.assert_array_equal(measured.at(0).p_m, measured.at(0).p_m)
