"""An independent NatNet client reads the same poses from the emulator.

PyPI ``motioncapture`` (libmotioncapture) runs in a child process, since it has no time-out and would
block the interpreter.
"""

from __future__ import annotations

import asyncio
import json
import sys

import numpy as np
import pytest

from tests.optitrack_support import SpinMotion
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import zup_to_yup

pytest.importorskip("motioncapture", reason="the independent client is not installed")

CLIENT = """
import json, os, sys
import motioncapture
out = os.dup(1)
os.dup2(2, 1)  # the library prints
mocap = motioncapture.connect("optitrack", json.loads(sys.argv[1]))
while True:
    mocap.waitForNextFrame()
    bodies = {
        name: [*map(float, body.position), body.rotation.x, body.rotation.y, body.rotation.z, body.rotation.w]
        for name, body in mocap.rigidBodies.items()
    }
    os.write(out, (json.dumps(bodies) + "\\n").encode())
"""


@pytest.mark.parametrize("version", ["3.0", "3.1", "4.0", "4.1"])
async def test_motioncapture_reads_the_same_poses(version: str) -> None:
    motion = SpinMotion(still_ns=987_654_321, marked=True, occluded={"gate"})
    config = MotiveEmulatorConfig(
        command_port=0, data_port=0, transport="multicast", version=version, rate_hz=100.0, force_plates=1, devices=1
    )
    async with MotiveEmulator(config, motion, now_ns()) as motive:
        keys = {"hostname": "127.0.0.1", "interface_ip": "127.0.0.1", "port_command": str(motive.command_port)}
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, json.dumps(keys), stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        try:
            async with asyncio.timeout(20):
                bodies = json.loads(await child.stdout.readline())
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()
    truth = motion.at(0)
    p_yup_m, q_yup = zup_to_yup(truth.p_m[0], truth.q_xyzw[0])
    assert bodies.keys() == {"drone"}, "untracked bodies are not listed"
    assert bodies["drone"] == pytest.approx(np.concatenate((p_yup_m, q_yup)), abs=1e-6)
