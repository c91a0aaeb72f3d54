"""LCM: messages received by LCM's own library and decoded by what lcm-gen makes of our
definitions.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import simplejpeg
from msgspec import structs

from tests.support.events import until
from tests.support.outputs import CAMERA, INFO, LENS, Flight, header, picture, wall_offset_ns
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SinkError

pytest.importorskip("lcm")

from tests.support.lcm_reader import decoders, hearing
from vil_bridge.outputs.lcm.config import LcmConfig
from vil_bridge.outputs.lcm.output import LcmOutput

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def types(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The reference decoders."""
    return decoders(tmp_path_factory.mktemp("lcm"))


def output_at(url: str, **more: Any) -> LcmOutput:
    return LcmOutput("lcm", LcmConfig(url=url, cameras=("front",), actors=("drone",), **more))


async def test_poses_and_inertial_samples(types: ModuleType) -> None:
    flight = Flight()
    with hearing(types) as heard:
        async with flight.flying(output_at(heard.url)):
            await until(lambda: len(heard.messages["vil/drone/pose"]) >= 10)
            await until(lambda: len(heard.messages["vil/drone/imu"]) >= 30)
            wall_ns = wall_offset_ns()
    poses = list(heard.messages["vil/drone/pose"])
    for pose in poses:
        off_ns, t_ns = min((abs(t + wall_ns - pose.t_ns), t) for t in flight.filmed_ns)
        assert off_ns < 1_000_000
        truth = flight.pose(t_ns)
        assert (pose.actor, pose.p_world_m) == ("drone", tuple(truth.p_m))
        np.testing.assert_allclose(pose.q_xyzw, truth.q_xyzw, atol=1e-12)
    np.testing.assert_allclose(poses[-1].v_world_mps, (0.5, -0.25, 0.125), atol=0.02)
    np.testing.assert_allclose(poses[-1].w_body_radps, (0.2, -0.1, 0.4), atol=0.02)
    assert all(a.t_ns < b.t_ns for a, b in pairwise(poses))
    felt = {sample[0].tobytes(): sample[1] for sample in flight.imu.values()}
    for sample in heard.messages["vil/drone/imu"]:
        assert sample.actor == "drone"
        assert sample.f_mps2 == tuple(felt[np.array(sample.w_radps).tobytes()])


async def test_inertial_samples_do_not_wait_for_slow_poses(types: ModuleType) -> None:
    with hearing(types) as heard:
        async with Flight().flying(output_at(heard.url, rate_hz=1e-3)):
            await until(lambda: len(heard.messages["vil/drone/imu"]) >= 100)
    assert len(heard.messages["vil/drone/pose"]) <= 1


@pytest.mark.parametrize(("images", "color"), [("jpeg", "rgb"), ("raw", "rgb"), ("raw", "gray")])
async def test_pictures(types: ModuleType, images: str, color: str) -> None:
    with hearing(types) as heard:
        output = output_at(heard.url, images=images, color=color)
        sink = output.frame_sink(INFO)
        assert sink is not None
        async with Flight().flying(output):
            await until(lambda: output.status.counters["poses"])
            t_ns = now_ns()
            sink.offer(header(5, t_ns), picture(5))
            await until(lambda: heard.messages["vil/front/image"])
            utc_ns = t_ns + wall_offset_ns()
    (image,) = heard.messages["vil/front/image"]
    assert abs(image.t_ns - utc_ns) < 1_000_000
    assert (image.camera, image.frame_id, image.compensated, image.tracking) == (
        "front",
        5,
        True,
        "tracked",
    )
    assert (image.width, image.height, image.size) == (64, 48, len(image.data))
    assert image.K_px == CAMERA.intrinsics_px
    assert (image.lens, tuple(image.lens_coefficients)) == ("plumb_bob", LENS.coefficients)
    assert (image.p_world_m, image.q_xyzw) == ((1.0, 2.0, 3.0), (0.0, 0.6, 0.0, 0.8))
    if images == "jpeg":
        decoded = simplejpeg.decode_jpeg(image.data).astype(int)
        assert np.abs(decoded - picture(5)).mean() < 2.0
    elif color == "rgb":
        assert image.format == "rgb8"
        np.testing.assert_array_equal(
            np.frombuffer(image.data, np.uint8).reshape(48, 64, 3), picture(5)
        )
    else:
        assert image.format == "mono8"
        luma = picture(5) @ np.array([0.299, 0.587, 0.114])
        assert np.abs(np.frombuffer(image.data, np.uint8).reshape(48, 64) - luma).max() <= 1.0


async def test_a_black_picture_and_a_camera_without_lens(types: ModuleType) -> None:
    with hearing(types) as heard:
        output = output_at(heard.url)
        sink = output.frame_sink(replace(INFO, model=replace(CAMERA, distortion=None)))
        assert sink is not None
        async with Flight().flying(output):
            await until(lambda: output.status.counters["poses"])
            black = header(6, now_ns(), "raw")
            black = structs.replace(
                black, variant="compensated", tracking="lost", blank=True, pose_display=None
            )
            sink.offer(black, np.zeros((48, 64, 3), np.uint8))
            await until(lambda: heard.messages["vil/front/image"])
    (image,) = heard.messages["vil/front/image"]
    assert (image.tracking, image.q_xyzw, image.p_world_m) == ("lost", (0.0,) * 4, (0.0,) * 3)
    assert (image.lens, image.lens_size, image.compensated) == ("", 0, False)


async def test_what_cannot_be_opened_says_why() -> None:
    with pytest.raises(SinkError, match="multicast"):
        await output_at("udpm://nowhere:1").run(Flight().world)
    with pytest.raises(ValueError, match="at most 63 characters"):
        LcmConfig(actors=("a" * 60,))
    with pytest.raises(ValueError, match="url"):
        LcmConfig(url="file:///tmp/log")
    for url in (
        "udpm://239.255.76.67:7667?ttl=1",
        "tcpq://10.0.0.1:7700",
        "tcpq://10.0.0.1",
        "tcpq://mocap-pc",
    ):
        with pytest.raises(ValueError, match="insecure: true"):
            LcmConfig(url=url)
        LcmConfig(url=url, insecure=True)
    for url in ("tcpq://127.0.0.1:7700", "tcpq://localhost", "tcpq://"):
        LcmConfig(url=url)
    with pytest.raises(ValueError, match="write ttl=0 to stay on this machine, or add"):
        LcmConfig(url="udpm://239.255.76.67:7667?ttl=1")
