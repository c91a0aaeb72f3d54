"""The VIO in the loop.

Right stamps and wrong ones, warped pictures and undelayed ones, and a live flight.

VIL_VIO_S=60 makes the flights as long as that, compares the four ways of stamping on a live one,
and takes the median of five simulated ones (docs/guides/vio.md has figures); by default they are
short, which weighs what goes wrong at the start of a flight more.
"""

from __future__ import annotations

import json
import math
import os
import socket
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.common import ROOT, needs_gl, wait_until
from tests.support.programs import Program, output
from vil_adapters.motions.drone import BRISK, DroneMotion, ImuErrors
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform
from vil_bridge.core.types import CameraModel, Modality, View, WorldSnapshot
from vil_bridge.protocols.euroc import EurocCamera, EurocImu, EurocWriter
from vil_renderer.embedded import EmbeddedRenderer
from vil_simulation.demo.child_processes import free_ports

pytestmark = [pytest.mark.process, pytest.mark.gl]
pytest.importorskip("gtsam", reason="the example's estimator: install the extra dev")

SECONDS = float(os.environ.get("VIL_VIO_S", "8"))
LONG = SECONDS >= 60
REST_S = 17.0
"""Of a live flight, with a reserve."""
EXAMPLES = ROOT / "examples" / "vio"
RENDERED_S, RATE_HZ, TRUTH_HZ, IMU_HZ = 10, 12, 120, 250
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
    """A session of perfect pictures with true stamps, and an IMU that motors shake.

    The clock begins at 1000 s.
    """
    motors = ImuErrors(gyro_vibration_radps=0.1, accel_vibration_mps2=2.0)
    motion = DroneMotion(path=BRISK, imu=motors, imu_rate_hz=IMU_HZ)
    camera = EurocCamera(MODEL, T_IMU_CAMERA, RATE_HZ)
    begin_ns = 1000 * 10**9
    with (
        EurocWriter(folder, {"cam0": camera}, EurocImu(IMU_HZ)) as writer,
        EmbeddedRenderer("hall") as renderer,
    ):
        for t_ns, w_radps, f_mps2 in motion.imu_between(-1, (RENDERED_S + 1) * 10**9):
            writer.add_imu(begin_ns + t_ns, w_radps, f_mps2)
        for n in range(TRUTH_HZ * RENDERED_S):
            t_ns = round(n / TRUTH_HZ * 1e9)
            writer.add_truth(begin_ns + t_ns, motion.truth(t_ns), np.zeros(3))
        for n in range(RATE_HZ * RENDERED_S):
            t_ns = round(n / RATE_HZ * 1e9)
            view = View(MODEL, Modality.GRAY, motion.truth(t_ns) @ T_IMU_CAMERA, t_ns)
            pixels = renderer.render((view,), WorldSnapshot(t_ns, ()))[0].pixels
            writer.add_image("cam0", begin_ns + t_ns, np.ascontiguousarray(pixels))
    return folder


@pytest.mark.long
def test_pictures_with_right_stamps_are_told_from_pictures_20_ms_wrong(tmp_path: Path) -> None:
    needs_gl()
    session = rendered(tmp_path)
    for name, shift_ms in (("right", 0), ("late", 20)):
        example("offline", session, tmp_path / f"{name}.txt", "--shift-ms", shift_ms)
    right, late = (ate_percent(session, tmp_path / f"{name}.txt") for name in ("right", "late"))
    print(f"ATE: right {right:.2f} %, 20 ms late {late:.2f} %")
    assert right < 1.0
    assert late > 3.0 * right


@contextmanager
def lab(folder: Path, *options: object) -> Iterator[str]:
    """A flight; yields the stream's endpoint while the drone still rests."""
    (port,) = free_ports(1, socket.SOCK_STREAM)
    with Program(sys.executable, EXAMPLES / "lab.py", folder, "--port", port, *options) as child:
        yield f"tcp://127.0.0.1:{port}"
    assert options or child.said("resting"), child.text()


def simulated(folder: Path, number: int) -> tuple[float, float]:
    """Fly in simulated time.

    Returns the errors, in percent, on pictures warped late and on undelayed ones.
    """
    (http_port,) = free_ports(1, socket.SOCK_STREAM)
    flight, session, undelayed = folder / "lab" / "flight", folder / "session", folder / "undelayed"
    options = ("--simulated", SECONDS + 12.0, "--number", number, "--http-port", http_port)
    with lab(folder / "lab", *options) as endpoint:
        wait_until(lambda: (flight / "mav0" / "imu0" / "data.csv").is_file(), 60.0)
        source = (
            "--imu",
            flight,
            "--http",
            f"http://127.0.0.1:{http_port}",
            "--stream",
            "front:compensated:late",
        )
        example(
            "save",
            endpoint,
            session,
            *source,
            "--seconds",
            SECONDS + 9.0,
            timeout_s=10.0 * SECONDS + 120.0,
        )
    example("undelayed", session, undelayed, timeout_s=10.0 * SECONDS + 120.0)
    for folder_of_pictures in (session, undelayed):
        example(
            "offline",
            folder_of_pictures,
            folder_of_pictures / "estimate.txt",
            timeout_s=10.0 * SECONDS + 120.0,
        )
    return ate_percent(session, session / "estimate.txt"), ate_percent(
        session, undelayed / "estimate.txt"
    )


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.timeout(6000 if LONG else 900)
def test_pictures_warped_late_are_worth_undelayed_ones(tmp_path: Path) -> None:
    """Nothing depends on the machine's speed.

    Time is simulated, and all positions are the emulator's.
    """
    needs_gl()
    flights = [
        simulated(tmp_path / str(number), number) for number in ((1, 2, 3, 4, 5) if LONG else (1,))
    ]
    for warped, undelayed in flights:
        print(f"ATE: warped late {warped:.3f} %, undelayed {undelayed:.3f} %")
    warped, undelayed = (statistics.median(errors) for errors in zip(*flights, strict=True))
    assert max(warped, undelayed) <= (0.5 if LONG else 5.0), "a short flight is mostly its start"
    assert not LONG or warped <= 1.15 * undelayed


@pytest.mark.alone
@pytest.mark.long
def test_the_vio_flies_on_the_live_stream(tmp_path: Path) -> None:
    needs_gl()
    with lab(tmp_path) as endpoint:
        options = ("--imu", tmp_path / "imu_onboard", "--seconds", SECONDS + REST_S)
        print(example("live", endpoint, tmp_path / "live.txt", *options, timeout_s=SECONDS + 120.0))
    assert not (tmp_path / "imu_onboard").exists(), "the lab takes its serial ports with it"
    percent = ate_percent(tmp_path / "flight", tmp_path / "live.txt")
    print(f"ATE {percent:.2f} %")
    assert percent <= (2.0 if LONG else 5.0)


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="minutes of flight: set VIL_VIO_S=60")
def test_four_ways_to_stamp_a_live_session(tmp_path: Path) -> None:
    needs_gl()
    session, flight = tmp_path / "session", tmp_path / "flight"
    with lab(tmp_path) as endpoint:
        streams = (
            "--stream",
            "front:compensated",
            "--stream",
            "plain:raw",
            "--imu",
            tmp_path / "imu_onboard",
        )
        seconds = ("--truth", flight, "--seconds", SECONDS + REST_S)
        example("save", endpoint, session, *streams, *seconds, timeout_s=SECONDS + 120.0)
    ways: dict[str, tuple[object, ...]] = {
        "compensated": (),
        "raw": ("--camera", "cam1"),
        "compensated, 20 ms wrong": ("--shift-ms", 20),
        "raw, stamped on arrival": ("--camera", "cam1", "--arrival"),
    }
    found = {}
    for way, options in ways.items():
        example("offline", session, tmp_path / "estimate.txt", *options, timeout_s=300.0)
        found[way] = ate_percent(session, tmp_path / "estimate.txt")
    print(", ".join(f"{way}: {percent:.2f} %" for way, percent in found.items()))
    compensated, raw, shifted, arrival = found.values()
    assert compensated <= 2.0 and raw <= 2.0
    assert shifted > 1.5 * compensated and arrival > 3.0 * raw
