"""An independent client reads the same poses from the emulator.

PyPI ``motioncapture`` holds the vendor's open SDK. It runs in a child process, since it has no time-out.
"""

from __future__ import annotations

import asyncio
import json
import sys

import numpy as np
import pytest

from tests.receiving import Dance
from vil_adapters.vicon.config import TrackerEmulatorConfig
from vil_adapters.vicon.emulator import TrackerEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import MotionFrame

pytest.importorskip("motioncapture", reason="the independent client is not installed")

CLIENT = """
import json, os, sys
import motioncapture
out = os.dup(1)
os.dup2(2, 1)  # the library prints
mocap = motioncapture.connect("vicon", {"hostname": sys.argv[1]})
while True:
    mocap.waitForNextFrame()
    bodies = {
        name: [*map(float, body.position), body.rotation.x, body.rotation.y, body.rotation.z, body.rotation.w]
        for name, body in mocap.rigidBodies.items()
    }
    os.write(out, (json.dumps(bodies) + "\\n").encode())
"""


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
    async with TrackerEmulator(config, motion, now_ns()) as tracker:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, f"127.0.0.1:{tracker.port}", stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        try:
            async with asyncio.timeout(20):
                # The first frames come before the descriptions that the client asks for then, and long after
                # them it must still know the descriptions, which are not repeated.
                found = [json.loads(await child.stdout.readline()) for _ in range(40)]
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()
    truth = motion.at(0)
    for bodies in found[-20:]:
        assert bodies.keys() == {"drone", "wand"}, "occluded bodies, and persons, are not listed"
        for row, name in ((0, "drone"), (2, "wand")):
            sign = np.sign(np.dot(bodies[name][3:], truth.q_xyzw[row]))
            expected = np.concatenate((truth.p_m[row], sign * truth.q_xyzw[row]))
            assert bodies[name] == pytest.approx(expected, abs=1e-6)
