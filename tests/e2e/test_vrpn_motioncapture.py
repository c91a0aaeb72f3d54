"""The official VRPN library (in PyPI ``motioncapture``) reads the same poses from the emulator.

It asks by UDP to be connected to unless its host name begins with ``tcp://``.
"""

from __future__ import annotations

import pytest

from tests.support.independent import Bodies, motioncapture_reads
from tests.support.motions import Circling
from vil_adapters.vrpn.config import VrpnEmulatorConfig
from vil_adapters.vrpn.emulator import VrpnEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import MotionFrame

pytestmark = pytest.mark.process


pytest.importorskip("motioncapture", reason="the independent client is not installed")


class Still(Circling):
    """The same instant for ever, so that both sides can be compared without a clock."""

    def at(self, t_ns: int) -> MotionFrame:
        return super().at(2_345_678_901)


@pytest.mark.parametrize("scheme", ["", "tcp://"], ids=["connect-back", "tcp"])
async def test_the_official_library_reads_the_same_poses(scheme: str) -> None:
    motion = Still("cf1", "wand")
    async with (
        VrpnEmulator(VrpnEmulatorConfig(port=0), motion, now_ns()) as server,
        motioncapture_reads("vrpn", {"hostname": f"{scheme}127.0.0.1:{server.port}"}) as frame,
    ):
        bodies: Bodies = {}
        while bodies.keys() != set(motion.subjects):
            bodies = await frame()
    truth = motion.at(0)
    for i, name in enumerate(motion.subjects):
        assert bodies[name] == pytest.approx([*truth.p_m[i], *truth.q_xyzw[i]], abs=1e-6)
    assert server.counters["malformed"] == 0
