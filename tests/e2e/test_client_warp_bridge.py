"""Augmented reality through a whole bridge.

A layer that it rendered, laid over a real camera's picture onboard.

The camera's carrier flies a recorded track; its inertial samples are that track's derivatives. The
real camera has a lens, another place, another rate, and its pictures are up to 20 ms older or newer
than the layer's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
import pytest
import yaml

from tests.support.bridge_rig import drawn_bridge
from tests.support.common import ROOT
from tests.support.embedded import rotation
from tests.support.events import until
from tests.support.onboard import ALPHA, COLOUR, check_overlay, drawn, rgba
from tests.support.programs import Program, output, run
from tests.support.stream_rig import photo
from vil_bridge.client import Frame, Receiver
from vil_bridge.client_warp import ImuRing, LateWarper, composite
from vil_bridge.config.presets import preset_text
from vil_bridge.core.camera_model import Distortion, LensModel
from vil_bridge.core.geometry import (
    GRAVITY_MPS2,
    T_FLU_OPTICAL,
    Transform,
    q_conj,
    q_from_euler_zyx,
    q_from_matrix,
    q_log,
    q_mul,
)
from vil_bridge.core.types import (
    FloatArray,
    ImageArray,
    Modality,
    RenderedImage,
    View,
    WorldSnapshot,
)
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.optics.lens import distort
from vil_renderer.flightgoggles.server import RenderedRequest

pytestmark = pytest.mark.process


EXAMPLE: Final = ROOT / "examples" / "onboard" / "augment.py"
SIZE_PX: Final = (640, 480)
CONFIG: Final = """
version: 1
rooms: {{room: {{}}}}
sources: {{track: {{type: motion-file, path: "{track}", subject: drone, room: room}}}}
actors: {{drone: {{kind: vehicle, source: track, subject: drone}}}}
renderers: {{drawn: {{type: flightgoggles, pose_port: 0, image_port: 0}}}}
cameras:
  front:
    actor: drone
    renderer: drawn
    width_px: 640
    height_px: 480
    T_body_camera: {{p_m: [0.1, 0.02, 0.03], ypr_deg: [2, -3, 4]}}
    modalities: [rgba, gray]
    layer: actors
    rate_hz: 25
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: 0}}
realtime: {{fifo_priority: 0}}
"""
LENS: Final = Distortion(LensModel.PLUMB_BOB, (-0.25, 0.06, 1e-3, -5e-4, 0.0))
REAL: Final[dict[str, Any]] = {
    "width": 376,
    "height": 240,
    "fx": 229.0,
    "fy": 228.5,
    "cx": 183.6,
    "cy": 124.2,
    "distortion": {"model": "radtan", "coefficients": list(LENS.coefficients[:4])},
    "T_body_camera": {"p_m": [0.12, 0.0, 0.05], "ypr_deg": [0.0, 2.0, -1.0]},
}
T_BODY_REAL: Final = (
    Transform.of((0.12, 0.0, 0.05), q_from_euler_zyx(*np.radians((0, 2, -1)))) @ T_FLU_OPTICAL
)
UP_MPS2: Final = np.array([0.0, 0.0, GRAVITY_MPS2])
T_BODY_OPTICAL: Final = (
    Transform.of((0.1, 0.02, 0.03), q_from_euler_zyx(*np.radians((2, -3, 4)))) @ T_FLU_OPTICAL
)
IMU: Final = {"p_m": [0.0, 0.0, 0.0], "ypr_deg": [0.0, 0.0, 0.0]}
_SIDE = np.linspace(-0.5, 0.5, 40)
SIGN_M: Final[FloatArray] = np.concatenate(
    [
        np.column_stack((np.full(40, 3.0), y, z))
        for y, z in ((_SIDE, np.full(40, 1.0)), (np.full(40, 0.5), 1.5 + _SIDE))
    ]
    + [
        np.column_stack((np.full(40, 3.0), y, z))
        for y, z in ((-_SIDE, np.full(40, 2.0)), (np.full(40, -0.5), 1.5 - _SIDE))
    ]
)
"""The outline of a sign in the world, 3 m ahead."""


def write_track(folder: Path) -> Path:
    """Two minutes of TUM's columns at 100 Hz: up to 0.4 m/s and 25 degrees a second."""
    lines = []
    for t_s in np.arange(0.0, 120.0, 0.01):
        phase = 2 * np.pi * t_s / 5.0
        p = 0.1 * np.sin(phase), 0.2 * np.cos(phase), 1.5 + 0.1 * np.sin(2 * phase)
        q = q_from_matrix(rotation(12 * np.sin(phase), 5 * np.cos(phase), 15 * np.sin(phase)))
        lines.append(" ".join(f"{value:.9f}" for value in (t_s, *p, *q)))
    path = folder / "track.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def cover_of(
    T_world_optical: Transform,
    intrinsics: tuple[float, ...],
    size_px: tuple[int, int],
    lens: Distortion | None,
) -> FloatArray:
    X = T_world_optical.inverse().apply(SIGN_M)
    fx, fy, cx, cy = intrinsics
    return drawn(distort(lens, X[:, :2] / X[:, 2:]) * (fx, fy) + (cx, cy), size_px)


def studio(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
    """Draws the sign, exactly, for the pose asked."""
    made = []
    for view in (view for view in views if view.due):
        assert view.layer == "actors"
        sign = rgba(cover_of(view.T_world_camera, view.camera.intrinsics_px, SIZE_PX, None))
        made.append(
            RenderedImage(view, sign if view.modality is Modality.RGBA else sign[:, :, 0].copy())
        )
    return RenderedRequest(tuple(made))


def samples(body: Callable[[int], Transform], first_ns: int, last_ns: int) -> ImuRing:
    """Samples of an IMU on the body's origin, by differences."""
    imu, h_ns = ImuRing(), 25_000_000
    for t_ns in range(first_ns, last_ns, 4_000_000):
        before, here, after = body(t_ns - h_ns), body(t_ns), body(t_ns + h_ns)
        w_radps = q_log(q_mul(q_conj(before.q_xyzw), after.q_xyzw)) / (2e-9 * h_ns)
        a_mps2 = (after.p_m - 2 * here.p_m + before.p_m) / (1e-9 * h_ns) ** 2
        assert imu.append(t_ns, w_radps, here.rotation().T @ (a_mps2 + UP_MPS2))
    return imu


async def filmed(bridge: Bridge, frames: Iterator[Frame]) -> Frame:
    """Return the next picture whose surroundings in time the world knows.

    The world keeps the poses of 5 s. A picture that a busy machine delays for longer is left out,
    as is one from before the track, and one whose poses came so late that their velocity was
    carried on for long.
    """
    world = bridge.context.world

    def newest_ns() -> int:
        newest = world.newest("drone")
        return -1 if newest is None else newest[1]

    async with asyncio.timeout(60.0):
        while True:
            frame = await asyncio.to_thread(next, frames)
            await until(lambda: newest_ns() > frame.t_bridge_ns + 300_000_000)  # noqa: B023
            known = frame.motion is not None and newest_ns() < frame.t_bridge_ns + 4_000_000_000
            measured = None if frame.motion is None else frame.motion.measured
            if known and measured is not None and abs(frame.t_ns - measured.t_ns) < 60_000_000:
                return frame


async def test_a_layer_of_the_bridge_over_a_real_picture(tmp_path: Path) -> None:
    real = photo(REAL["height"], REAL["width"])
    intrinsics = REAL["fx"], REAL["fy"], REAL["cx"], REAL["cy"]
    async with drawn_bridge(CONFIG.format(track=write_track(tmp_path)), studio) as bridge:

        def body(t_ns: int) -> Transform:
            return bridge.context.world.motion_at("drone", t_ns).T_world_body

        with Receiver(
            bridge.context.hub.endpoint,
            modality="rgba",
            variant="raw",
            encoding="raw",
            timeout_s=60.0,
        ) as receiver:
            frames = iter(receiver)
            for ahead_ms in (20, -20, 0, 10, -15, 15, 5):
                frame = await filmed(bridge, frames)
                t_ns, ahead_ns = frame.t_bridge_ns, ahead_ms * 1_000_000
                # The bridge says where it measured the vehicle last; what the warp adds is the true
                # motion since.
                assert frame.motion is not None and frame.motion.measured is not None
                first_ns, last_ns = sorted((frame.motion.measured.t_ns - frame.t_ns, ahead_ns))
                imu = samples(body, t_ns + first_ns - 10_000_000, t_ns + last_ns + 10_000_000)
                warper = LateWarper(imu, d_m=2.9, T_body_imu=IMU)
                layer = warper.warp(
                    frame, receiver.camera_info, frame.t_ns + ahead_ns, to_camera=REAL
                )
                assert layer.motion == "inertial"
                T_world_real = body(t_ns + ahead_ns) @ T_BODY_REAL
                cover = cover_of(T_world_real, intrinsics, (REAL["width"], REAL["height"]), LENS)
                check_overlay(composite(real, layer.image), real, cover)


def printed(endpoint: str) -> list[str]:
    """Lines of the example of a late warp."""
    with Program(sys.executable, "examples/onboard/late_frames.py", endpoint, split=True) as child:
        return child.await_text(r"(.*\n){5}")[0].splitlines()


def augmented(endpoint: str, folder: Path) -> ImageArray:
    """The last picture of the example of augmented reality, fed with a grey film."""
    film = cv2.VideoWriter(
        str(folder / "film.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 30.0, (640, 480)
    )
    for _ in range(5):
        film.write(np.full((480, 640, 3), 90, np.uint8))
    film.release()
    output(sys.executable, EXAMPLE, endpoint, "film.avi", cwd=folder, limit_s=120)
    picture = cv2.imread(str(folder / "augmented.png"))
    assert picture is not None
    return np.asarray(picture, np.uint8)


async def test_the_examples_do_what_they_say(tmp_path: Path) -> None:
    async with drawn_bridge(CONFIG.format(track=write_track(tmp_path)), studio) as bridge:
        lines = await asyncio.to_thread(printed, bridge.context.hub.endpoint)
        picture = await asyncio.to_thread(augmented, bridge.context.hub.endpoint, tmp_path)
    assert all("(480, 640)" in line for line in lines)
    assert any(line.endswith("none T_body_imu is not known") for line in lines)
    stamps = [int(line.split()[0]) for line in lines]
    assert stamps == sorted(set(stamps))
    sign = np.abs(picture[:, :, ::-1] - (COLOUR * ALPHA + 90 * (1 - ALPHA))).max(axis=2) <= 3
    assert 0.02 < sign.mean() < 0.2 and abs(picture[5, 5, 0].astype(int) - 90) <= 3


def test_the_augmenting_example_says_that_there_is_no_camera(tmp_path: Path) -> None:
    done = run(sys.executable, EXAMPLE, "tcp://127.0.0.1:1", tmp_path / "none.avi")
    assert (
        done.returncode == 1
        and "none.avi' cannot be opened. Give the number of a camera" in done.stderr
    )


@pytest.mark.long
async def test_the_augmenting_example_runs_with_its_preset(tmp_path: Path) -> None:
    config = yaml.safe_load(preset_text("augmented"))
    config["renderers"]["hall"] |= {"pose_port": 0, "image_port": 0}
    config |= {
        "stream": {"bind": "tcp://127.0.0.1:0"},
        "http": {"port": 0},
        "realtime": {"fifo_priority": 0},
    }
    async with drawn_bridge(yaml.safe_dump(config), studio) as bridge:
        picture = await asyncio.to_thread(augmented, bridge.context.hub.endpoint, tmp_path)
    sign = np.abs(picture[:, :, ::-1] - (COLOUR * ALPHA + 90 * (1 - ALPHA))).max(axis=2) <= 3
    assert 0.02 < sign.mean() < 0.2
