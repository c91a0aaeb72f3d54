"""The official VRPN library (in PyPI ``motioncapture``) reads the same poses from the emulator.

It runs in a child process, since it has no time-out. It asks by UDP to be connected to unless its
host name begins with ``tcp://``.
"""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from tests.vrpn_support import Circling
from vil_adapters.vrpn.config import VrpnEmulatorConfig
from vil_adapters.vrpn.emulator import VrpnEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import MotionFrame

pytest.importorskip("motioncapture", reason="the independent client is not installed")

CLIENT = """
import json, os, sys
import motioncapture
out = os.dup(1)
os.dup2(2, 1)  # the library prints
mocap = motioncapture.connect("vrpn", {"hostname": sys.argv[1]})
while True:
    mocap.waitForNextFrame()
    bodies = {
        name: [*map(float, body.position), body.rotation.x, body.rotation.y, body.rotation.z, body.rotation.w]
        for name, body in mocap.rigidBodies.items()
    }
    os.write(out, (json.dumps(bodies) + "\\n").encode())
"""


class Still(Circling):
    """The same instant for ever, so that both sides can be compared without a clock."""

    def at(self, t_ns: int) -> MotionFrame:
        return super().at(2_345_678_901)


@pytest.mark.parametrize("scheme", ["", "tcp://"], ids=["connect-back", "tcp"])
async def test_the_official_library_reads_the_same_poses(scheme: str) -> None:
    motion = Still("cf1", "wand")
    async with VrpnEmulator(VrpnEmulatorConfig(port=0), motion, now_ns()) as server:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, f"{scheme}127.0.0.1:{server.port}", stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        try:
            async with asyncio.timeout(20):
                bodies: dict[str, list[float]] = {}
                while bodies.keys() != set(motion.subjects):
                    bodies = json.loads(await child.stdout.readline())
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()
    truth = motion.at(0)
    for i, name in enumerate(motion.subjects):
        assert bodies[name] == pytest.approx([*truth.p_m[i], *truth.q_xyzw[i]], abs=1e-6)
    assert server.counters["malformed"] == 0
