"""A second independent NatNet client, PyPI ``natnet``, reads the same poses from the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.natnet_client import read_by_natnet
from tests.support.optitrack import SpinMotion
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import zup_to_yup
from vil_bridge.core.types import MotionFrame

pytestmark = pytest.mark.process


pytest.importorskip("natnet", reason="the independent client is not installed")


def assert_poses(rows: list[list[float]], p_m: Any, q_xyzw: Any) -> None:
    p_yup_m, q_yup = zup_to_yup(p_m, q_xyzw)
    assert np.array(rows) == pytest.approx(np.hstack((p_yup_m, q_yup)), abs=1e-6)


@pytest.mark.parametrize("version", ["3.0", "3.1", "4.0"])
async def test_natnet_reads_the_same_poses(version: str) -> None:
    """Bodies, skeleton and markers, to 1e-6 as float32 allows."""
    motion = SpinMotion(still_ns=987_654_321, marked=True, occluded={"gate"})
    multicast = version == "3.1"
    transport: Any = "multicast" if multicast else "unicast"
    config = MotiveEmulatorConfig(
        command_port=0, data_port=0, rate_hz=100.0, version=version, transport=transport
    )
    async with MotiveEmulator(config, motion, now_ns()) as motive:
        told = await read_by_natnet(motive.command_port, motive.data_port, multicast=multicast)
    truth: MotionFrame = motion.at(0)
    assert told["names"] == {"1": "drone", "2": "gate"}
    assert_poses([told["bodies"]["1"][:7]], truth.p_m[:1], truth.q_xyzw[:1])
    assert [told["bodies"][i][7] for i in "12"] == [True, False]
    assert told["bones"] == ["Hip", "Ab", "Head", "LThigh", "LShin"]
    assert_poses(told["skeleton"], truth.skeletons[0].p_m, truth.skeletons[0].q_xyzw)
    assert truth.markers is not None
    places = np.array(told["labeled"])
    assert places[:, :3] == pytest.approx(
        zup_to_yup(truth.markers.p_m, np.zeros((8, 4)))[0], abs=1e-6
    )
    assert places[:, 3].tolist() == [0, 1, *[0] * 6]
    assert told["sets"] == ["drone", "gate", "Actor", "all"]
