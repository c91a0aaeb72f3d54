"""The VIO in the loop: right stamps and wrong ones on a rendered session, and the same on a live flight.

VIL_VIO_S=60 makes the live flight as long as that, and then saves both streams and compares the four ways of stamping
(docs/guides/vio.md has figures); by default it is short, which weighs what goes wrong at the start of a flight more.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.common import ROOT, free_ports, needs_gl
from tests.support.programs import Program, output
from vil_adapters.simulated import BRISK, DroneMotion
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, Modality, View, WorldSnapshot
from vil_bridge.pipeline.camera import T_FLU_OPTICAL
from vil_bridge.protocols.euroc import EurocCamera, EurocImu, EurocWriter
from vil_renderer.embedded import EmbeddedRenderer

pytestmark = [pytest.mark.process, pytest.mark.gl]
pytest.importorskip("gtsam", reason="the example's estimator: install the extra dev")

SECONDS = float(os.environ.get("VIL_VIO_S", "8"))
LONG = SECONDS >= 60
EXAMPLES = ROOT / "examples" / "vio"
RENDERED_S, RATE_HZ, IMU_HZ = 10, 12, 250
MODEL = CameraModel("front", 320, 240, math.radians(70.0))
T_IMU_CAMERA = Transform.of((0.12, 0.0, 0.03)) @ T_FLU_OPTICAL


def example(name: str, *arguments: object, timeout_s: float = 100.0) -> str:
    """Run one of the scripts; returns what it prints."""
    return output(sys.executable, EXAMPLES / f"{name}.py", *arguments, limit_s=timeout_s)


def ate_percent(truth: Path, estimate: Path) -> float:
    found: dict[str, Any] = json.loads(example("evaluate", truth, estimate, "--json"))
    assert found["poses"] > 30 and found["path_m"] > 5.0
    return float(found["ate_percent"])


def rendered(folder: Path) -> Path:
    """A session of perfect pictures with true stamps; the clock begins at 1000 s."""
    motion = DroneMotion(path=BRISK, imu_rate_hz=IMU_HZ)
    camera = EurocCamera(MODEL, T_IMU_CAMERA, RATE_HZ)
    begin_ns = 1000 * 10**9
    with EurocWriter(folder, {"cam0": camera}, EurocImu(IMU_HZ)) as writer, EmbeddedRenderer("hall") as renderer:
        for t_ns, w_radps, f_mps2 in motion.imu_between(-1, (RENDERED_S + 1) * 10**9):
            writer.add_imu(begin_ns + t_ns, w_radps, f_mps2)
        for n in range(RATE_HZ * RENDERED_S):
            t_ns = round(n / RATE_HZ * 1e9)
            T = motion.truth(t_ns)
            view = View(MODEL, Modality.GRAY, T @ T_IMU_CAMERA, t_ns)
            pixels = renderer.render((view,), WorldSnapshot(t_ns, ()))[0].pixels
            writer.add_image("cam0", begin_ns + t_ns, np.ascontiguousarray(pixels))
            writer.add_truth(begin_ns + t_ns, T, np.zeros(3))
    return folder


@pytest.mark.long
def test_pictures_with_right_stamps_are_told_from_pictures_20_ms_wrong(tmp_path: Path) -> None:
    needs_gl()
    session = rendered(tmp_path)
    truth = session / "mav0" / "state_groundtruth_estimate0" / "data.csv"
    for name, shift_ms in (("right", 0), ("late", 20)):
        example("offline", session, tmp_path / f"{name}.txt", "--shift-ms", shift_ms)
    right, late = (ate_percent(truth, tmp_path / f"{name}.txt") for name in ("right", "late"))
    print(f"ATE: right {right:.2f} %, 20 ms late {late:.2f} %")
    assert right < 1.0
    assert late > 3.0 * right


@contextmanager
def lab(folder: Path) -> Iterator[str]:
    """A flight; yields the stream's endpoint while the drone still rests."""
    (port,) = free_ports(1, socket.SOCK_STREAM)
    with Program(sys.executable, EXAMPLES / "lab.py", folder, "--port", port) as child:
        yield f"tcp://127.0.0.1:{port}"
    assert child.said("resting"), child.text()


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.timeout(240)
def test_the_vio_flies_on_the_live_stream(tmp_path: Path) -> None:
    needs_gl()
    with lab(tmp_path) as endpoint:
        options = ("--imu", tmp_path / "imu_onboard", "--seconds", SECONDS + 5.0)
        print(example("live", endpoint, tmp_path / "live", *options, timeout_s=SECONDS + 120.0))
    assert not (tmp_path / "imu_onboard").exists(), "the lab takes its serial ports with it"
    percent = ate_percent(tmp_path / "live_truth.txt", tmp_path / "live.txt")
    print(f"ATE {percent:.2f} %")
    assert percent <= (2.0 if LONG else 5.0)


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(not LONG, reason="minutes of flight: set VIL_VIO_S=60")
def test_four_ways_to_stamp_a_live_session(tmp_path: Path) -> None:
    needs_gl()
    session = tmp_path / "session"
    with lab(tmp_path) as endpoint:
        streams = ("--stream", "front:compensated", "--stream", "plain:raw", "--imu", tmp_path / "imu_onboard")
        example("save", endpoint, session, *streams, "--seconds", SECONDS + 5.0, timeout_s=SECONDS + 120.0)
    ways: dict[str, tuple[object, ...]] = {
        "compensated": (),
        "raw": ("--camera", "cam1"),
        "compensated, 20 ms wrong": ("--shift-ms", 20),
        "raw, stamped on arrival": ("--camera", "cam1", "--arrival"),
    }
    found = {}
    for way, options in ways.items():
        example("offline", session, tmp_path / "estimate.txt", *options, timeout_s=300.0)
        truth = session / ("truth_cam1.txt" if "cam1" in options else "truth_cam0.txt")
        found[way] = ate_percent(truth, tmp_path / "estimate.txt")
    print(", ".join(f"{way}: {percent:.2f} %" for way, percent in found.items()))
    compensated, raw, shifted, arrival = found.values()
    assert compensated <= 2.0 and raw <= 2.0
    assert shifted > 1.5 * compensated and arrival > 3.0 * raw
