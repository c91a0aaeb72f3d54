"""The lab's flight controller that speaks MSP, as a process."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.test_lab_run import lab
from tests.support.events import receiving
from vil_adapters.msp_imu.config import MspImuConfig
from vil_adapters.msp_imu.source import MspImuSource
from vil_bridge.core.types import ImuSample
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.process


async def test_the_drones_imu_is_asked_on_both_wires(tmp_path: Path) -> None:
    (port,) = free_ports(1, socket.SOCK_STREAM)
    motive = free_ports(2, socket.SOCK_DGRAM)
    link = tmp_path / "msp"
    with lab(
        tmp_path,
        "--msp",
        str(link),
        "--msp-port",
        str(port),
        "--motive",
        f"{motive[0]},{motive[1]}",
    ):
        for keys in ({"device": str(link)}, {"host": "127.0.0.1", "port": port}):
            config = MspImuConfig.model_validate({"acc_lsb_per_g": 2048.0, **keys})
            async with receiving(MspImuSource("imu", config)) as got:
                await got.until(lambda got=got: len(got.of(ImuSample)) >= 20)  # type: ignore[misc]
            forces = np.linalg.norm([s.f_mps2 for s in got.of(ImuSample)], axis=1)
            assert 8.0 < np.median(forces) < 12.0, "it flies"
