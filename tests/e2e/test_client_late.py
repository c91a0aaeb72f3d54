"""The reader that has the vehicle's IMU.

Pictures of the moment of the call, and the bridge's where samples fail.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.support.common import ROOT, wait_until, wait_until_most
from tests.support.stream_rig import INFO, StreamRig, header
from tests.support.turning_vehicle import COVARIANCE, DOWN, PICTURE, RATE_RADPS, Turning, camera_x
from vil_bridge.client import Frame, Receiver
from vil_bridge.client_warp import ImuRing, LateWarper
from vil_bridge.core.clock import NS_PER_MS

pytestmark = pytest.mark.wire


@pytest.fixture
def vehicle() -> Iterator[Turning]:
    made = Turning()
    with made.reading():
        wait_until(lambda: covers(made.ring, time.monotonic_ns() - 10 * NS_PER_MS))
        yield made


def covers(ring: ImuRing, t_ns: int) -> bool:
    """Return whether samples cover the time before ``t_ns``.

    A busy machine may delay the thread that reads the IMU.
    """
    try:
        return ring.between(t_ns - 60 * NS_PER_MS, t_ns)[-1] == 0
    except LookupError:
        return False


IDS: Final = itertools.count(1)


def shown(rig: StreamRig, receiver: Receiver, vehicle: Turning) -> Frame:
    """The frame of the next picture.

    The first ones are missed until the reader's connection stands.
    """
    found: list[Frame] = []

    def came() -> bool:
        vehicle.offer(rig, next(IDS))
        frame = receiver.next(0.2)
        found.extend([] if frame is None else [frame])
        return bool(found)

    wait_until(came, what=lambda: receiver.problem)
    return found[0]


def moved(rig: StreamRig, receiver: Receiver, vehicle: Turning) -> Frame:
    """The frame of the next picture that samples could move.

    A busy machine may keep the IMU's thread waiting.
    """
    found: list[Frame] = []

    def came() -> bool:
        found.append(shown(rig, receiver, vehicle))
        late = found[-1].compensation["late"]
        assert late["motion"] == "inertial" or "inertial samples" in late["problem"]
        return bool(late["motion"] == "inertial")

    wait_until(came)
    return found[-1]


def reading(rig: StreamRig, imu: Any) -> Receiver:
    return Receiver(rig.endpoint, color="rgb", encoding="raw", imu=imu, timeout_s=60.0)


def test_a_picture_shows_the_moment_of_the_call(vehicle: Turning) -> None:
    with StreamRig() as rig, reading(rig, vehicle.ring) as receiver:
        frames: list[Frame] = []

        def covered() -> bool:
            t_called_ns = time.monotonic_ns()
            frame = moved(rig, receiver, vehicle)
            assert t_called_ns <= frame.t_ns <= time.monotonic_ns() and 0.0 <= frame.age_s < 60.0
            frames.append(frame)
            late = frame.compensation["late"]
            assert (late["motion"], late["problem"], late["method"]) == (
                "inertial",
                "",
                "homography",
            )
            assert (
                late["moved_ns"] > 0
                and 0 <= late["imu_age_ns"] < 40 * NS_PER_MS
                and late["d_m"] == 8.0
            )
            # Turned since the instant that was measured, by the rate without its bias, whatever was
            # foretold.
            error_rad = RATE_RADPS * frame.clock_uncertainty_ns * 1e-9 + 1e-4
            assert frame.pose_display is not None
            turned = np.linalg.norm(
                camera_x(frame.pose_display.q_xyzw) - vehicle.camera_x(frame.t_ns)
            )
            error_ns = abs(frame.t_bridge_ns - frame.t_ns)
            assert frame.motion is not None and np.allclose(
                frame.motion.w_body_radps, (0, 0, RATE_RADPS)
            )
            assert np.linalg.norm(frame.motion.v_world_mps) < 1e-3
            return error_ns <= frame.clock_uncertainty_ns and bool(turned < error_rad)

        wait_until_most(covered)
        assert [f.t_ns for f in frames] == sorted({f.t_ns for f in frames})
        assert receiver.counters["warped"] == len(frames)
        assert (
            not frames[-1].image.flags.writeable
            and np.abs(frames[-1].image.astype(int) - PICTURE).max() > 50
        )
        assert frames[-1].motion is not None and frames[-1].motion.pose_covariance is not None
        covariance = frames[-1].motion.pose_covariance
        assert np.array_equal(covariance, covariance.T)
        assert covariance[np.triu_indices(6)].tolist() == COVARIANCE


def test_without_samples_the_bridges_picture_comes_and_says_so(vehicle: Turning) -> None:
    with StreamRig() as rig, reading(rig, vehicle.ring) as receiver:
        moved(rig, receiver, vehicle)
        vehicle.silent.set()
        time.sleep(0.05)
        unwarped = receiver.counters["unwarped"]
        frame = shown(rig, receiver, vehicle)
        late = frame.compensation["late"]
        assert (
            late["motion"] == "none"
            and "inertial samples are" in late["problem"]
            and "ms old" in late["problem"]
        )
        assert (
            np.array_equal(frame.image, PICTURE) and receiver.counters["unwarped"] == unwarped + 1
        )
        assert frame.pose_display is not None and frame.pose_display.q_xyzw.tolist() == DOWN.q_xyzw
        vehicle.silent.clear()
        moved(rig, receiver, vehicle)


LENS: Final = {"model": "plumb_bob", "coefficients": [0.1, 0.0, 0.0, 0.0, 0.0]}


@pytest.mark.parametrize(
    "described", [{"height": 240}, {"width": 40_000, "distortion": LENS}, {"width": 1 << 40}]
)
def test_a_picture_of_another_size_than_its_camera_stays_the_bridges(
    described: dict[str, Any], vehicle: Turning, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in described.items():
        monkeypatch.setitem(INFO, key, value)
    with StreamRig() as rig, reading(rig, vehicle.ring) as receiver:
        frame = shown(rig, receiver, vehicle)
        late = frame.compensation["late"]
        size = f"{INFO['width']} x {INFO['height']}"
        assert late == {
            "motion": "none",
            "problem": f"the camera is described with {size} pixels, not 640 x 480",
        }
        assert np.array_equal(frame.image, PICTURE) and not receiver.counters["malformed"]


def test_a_bridges_picture_behind_a_moved_one_is_late(vehicle: Turning) -> None:
    """Moved pictures may be ahead of what the bridge shows; what is handed out never steps back."""
    with StreamRig() as rig, reading(rig, vehicle.ring) as receiver:
        ahead = moved(rig, receiver, vehicle)
        shown_ns = ahead.metadata["t_display_ns"] + 1
        assert shown_ns < ahead.t_bridge_ns
        rig.offer(
            PICTURE, header(next(IDS), width=640, height=480, t_display_ns=shown_ns, motion=None)
        )
        wait_until(lambda: receiver.next(0.01) is None and receiver.counters["late"] == 1)


def test_a_warper_of_ones_own_is_used(vehicle: Turning) -> None:
    warper = LateWarper(vehicle.ring, d_m=math.inf, gyro_bias_radps=[0.01, 0.0, RATE_RADPS])
    with StreamRig() as rig, reading(rig, warper) as receiver:
        frame = moved(rig, receiver, vehicle)
        assert frame.compensation["late"]["d_m"] == math.inf
        assert frame.motion is not None and np.allclose(frame.motion.w_body_radps, 0.0)


def test_what_cannot_be_moved_is_refused_at_once() -> None:
    for wrong in ({"variant": "raw"}, {"modality": "depth"}):
        with pytest.raises(ValueError, match="imu moves compensated pictures of"):
            Receiver("tcp://127.0.0.1:1", imu=ImuRing(), **wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="imu must be an ImuRing or a LateWarper"):
        Receiver("tcp://127.0.0.1:1", imu=[])


def test_the_second_file_is_named_where_it_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "vil_bridge" / "client.py", tmp_path)
    spec = importlib.util.spec_from_file_location("client", tmp_path / "client.py")
    assert spec is not None and spec.loader is not None
    alone = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "client", alone)
    spec.loader.exec_module(alone)
    with pytest.raises(
        ImportError, match=f"imu needs client_warp.py next to client.py: copy it to {tmp_path} too"
    ):
        alone.Receiver("tcp://127.0.0.1:1", imu=ImuRing())
    shutil.copy(ROOT / "vil_bridge" / "client_warp.py", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    alone.Receiver("tcp://127.0.0.1:1", imu=ImuRing()).close()
    monkeypatch.delitem(sys.modules, "client_warp")
