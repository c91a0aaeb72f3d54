"""An independent client, PyPI ``motioncapture``, which holds the vendor's open SDK, reads the
same poses.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.independent import motioncapture_reads
from tests.support.motions import Dance
from vil_adapters.vicon.config import TrackerEmulatorConfig
from vil_adapters.vicon.emulator import TrackerEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import MotionFrame

pytestmark = pytest.mark.process


pytest.importorskip("motioncapture", reason="the independent client is not installed")


class Still(Dance):
    """The same instant for ever, so that frames of both sides can be compared without a clock."""

    def at(self, t_ns: int) -> MotionFrame:
        return super().at(987_654_321)


@pytest.mark.parametrize(
    "server",
    [{}, {"up_axis": "y"}, {"unknown_blocks": True, "split_bytes": 5}],
    ids=["plain", "y-up", "odd"],
)
async def test_motioncapture_reads_the_same_poses(server: dict[str, object]) -> None:
    motion = Still(subjects=("drone", "gate", "wand"), occluded={"gate"})
    config = TrackerEmulatorConfig.model_validate({"port": 0, "rate_hz": 100.0} | server)
    async with (
        TrackerEmulator(config, motion, now_ns()) as tracker,
        motioncapture_reads("vicon", {"hostname": f"127.0.0.1:{tracker.port}"}) as frame,
    ):
        # The first frames come before the descriptions that the client asks for then, and long
        # after them it must still know the descriptions, which are not repeated.
        found = [await frame() for _ in range(40)]
    truth = motion.at(0)
    for bodies in found[-20:]:
        assert bodies.keys() == {"drone", "wand"}, "occluded bodies, and persons, are not listed"
        for row, name in ((0, "drone"), (2, "wand")):
            sign = np.sign(np.dot(bodies[name][3:], truth.q_xyzw[row]))
            expected = np.concatenate((truth.p_m[row], sign * truth.q_xyzw[row]))
            assert bodies[name] == pytest.approx(expected, abs=1e-6)
