"""An independent NatNet client, PyPI ``motioncapture``, reads the same poses from the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.independent import motioncapture_reads
from tests.support.optitrack import SpinMotion
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import zup_to_yup

pytestmark = pytest.mark.process


pytest.importorskip("motioncapture", reason="the independent client is not installed")


@pytest.mark.parametrize("version", ["3.0", "3.1", "4.0", "4.1"])
async def test_motioncapture_reads_the_same_poses(version: str) -> None:
    motion = SpinMotion(still_ns=987_654_321, marked=True, occluded={"gate"})
    config = MotiveEmulatorConfig(
        command_port=0,
        data_port=0,
        transport="multicast",
        version=version,
        rate_hz=100.0,
        force_plates=1,
        devices=1,
    )
    async with MotiveEmulator(config, motion, now_ns()) as motive:
        keys = {
            "hostname": "127.0.0.1",
            "interface_ip": "127.0.0.1",
            "port_command": str(motive.command_port),
        }
        async with motioncapture_reads("optitrack", keys) as frame:
            bodies = await frame()
    truth = motion.at(0)
    p_yup_m, q_yup = zup_to_yup(truth.p_m[0], truth.q_xyzw[0])
    assert bodies.keys() == {"drone"}, "untracked bodies are not listed"
    assert bodies["drone"] == pytest.approx(np.concatenate((p_yup_m, q_yup)), abs=1e-6)
