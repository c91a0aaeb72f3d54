"""The late warp where frames pass.

Pairs, margins, fallbacks, beacons, artificial delays and their estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.common import simulated_time, wait_until
from vil_bridge.core.bridge_time import BridgeTime, bridge_clock
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import (
    ActorKind,
    CameraModel,
    ImageArray,
    ImuSample,
    Landmark,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    SourceFrame,
    View,
    WorldSnapshot,
)
from vil_bridge.interfaces.ports import COMPENSATED, RAW
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.pipeline.camera import BridgeCamera, DisplayTarget, DisplayTimes, RunningDelay
from vil_bridge.pipeline.camera_relay import CameraRelay
from vil_bridge.pipeline.frame_ledger import FrameLedger, LedgerSink
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.world import World

MS = 1_000_000
MODEL = CameraModel("front", 320, 240, 1.2)
T_BODY_CAMERA = Transform.of((0.1, 0.02, 0.05), q_exp(np.array([0.0, -0.1, 0.2])).tolist())
W_BODY, V_WORLD = np.array([0.3, -0.4, 1.2]), np.array([1.0, -0.5, 0.25])
GRAVITY = np.array([0.0, 0.0, 9.80665])
BASELINE_M = 0.32


@pytest.fixture(autouse=True)
def standing_time() -> Iterator[None]:
    """Time stands, so that no picture is too old."""
    clock = BridgeTime()
    clock.stand_at(100 * NS_PER_S)
    with clock.in_force():
        yield


class Reader:
    """Takes every picture."""

    def __init__(self) -> None:
        self.frames: list[tuple[dict[str, Any], ImageArray]] = []

    def wanted(self, modality: str, variant: str) -> bool:
        return True

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        self.frames.append((header.fields(), pixels))

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def newest(self, variant: str, modality: str = "gray") -> tuple[dict[str, Any], ImageArray]:
        return [
            f for f in self.frames if (f[0]["variant"], f[0]["modality"]) == (variant, modality)
        ][-1]


def flying(imu: tuple[int, int] | None, lost: bool = False) -> tuple[World, int]:
    """A vehicle seen at 100 Hz for the last 300 ms, or until 2 s ago.

    Felt at 500 Hz in that part of them (ms).

    Returns:
        The world and the time of the newest pose.
    """
    limits = TrackingLimits(30 * MS, 900 * MS, 1000 * MS, max_speed_mps=1e3, max_rate_radps=1e3)
    actor = Actor(
        "drone", ActorKind.VEHICLE, "mocap", "drone", imu="imu" if imu else None, limits=limits
    )
    world = World({"mocap": Transform.identity()}, [actor])
    end_ns = now_ns() - (2000 * MS if lost else 0)
    for step in range(0, 301, 2):
        t_ns = end_ns - 300 * MS + step * MS
        q = q_exp(W_BODY * 1e-9 * (t_ns - end_ns))
        if imu is not None and imu[0] <= step <= imu[1]:
            f = Transform.of((0, 0, 0), q.tolist()).rotation().T @ GRAVITY
            world.ingest(ImuSample("imu", None, t_ns, W_BODY, f))
        if step % 10 == 0:
            p = (V_WORLD * 1e-9 * (t_ns - end_ns))[None]
            world.ingest(
                SourceFrame("mocap", 0, None, t_ns, ("drone",), p, q[None], np.ones(1, np.bool_))
            )
    return world, end_ns


def camera(**more: Any) -> BridgeCamera:
    keys: dict[str, Any] = {"modalities": (Modality.GRAY,), "plane_depth_m": 4.0}
    return BridgeCamera(MODEL, "drone", T_BODY_CAMERA, 60.0, **(keys | more))


def relay_of(made: BridgeCamera, world: World) -> tuple[CameraRelay, Reader]:
    reader = Reader()
    return CameraRelay(made, world, reader, FrameLedger(), Meter()), reader


def frame_for(
    made: BridgeCamera,
    world: World,
    t_pose_ns: int,
    pictures: dict[Modality, ImageArray],
    **more: Any,
) -> RenderedFrame:
    pose = made.pose_at(world, t_pose_ns)
    views = tuple(
        View(made.geometry.rendered, m, pose.T_world_camera, t_pose_ns, pose_method=pose.method)
        for m in pictures
    )
    request = RenderRequest(
        more.pop("frame_id", now_ns()), now_ns(), views, WorldSnapshot(t_pose_ns, ())
    )
    images = tuple(RenderedImage(v, p) for v, p in zip(views, pictures.values(), strict=True))
    return RenderedFrame(request, more.pop("t_image_ns", now_ns()), images, **more)


def white(made: BridgeCamera) -> ImageArray:
    return np.full(
        (made.geometry.rendered.height_px, made.geometry.rendered.width_px), 255, np.uint8
    )


def passed(made: BridgeCamera, world: World, frame: RenderedFrame) -> tuple[CameraRelay, Reader]:
    relay, reader = relay_of(made, world)
    relay.offer(frame)
    relay.step()
    relay.close()
    return relay, reader


# --- fallbacks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("imu", "expected"),
    [((0, 300), "inertial"), ((0, 150), "constant-twist"), (None, "constant-twist")],
    ids=["fresh", "silent", "missing"],
)
def test_without_a_fresh_imu_the_twist_carries_on_and_the_header_says_so(
    imu: tuple[int, int] | None, expected: str
) -> None:
    world, t_ns = flying(imu)
    made = camera()
    relay, reader = passed(
        made, world, frame_for(made, world, t_ns - 20 * MS, {Modality.GRAY: white(made)})
    )
    header, _ = reader.newest(COMPENSATED)
    told = header["compensation"]
    assert header["compensated"] is True
    assert (told["method"], told["pose_method"], told["fallback"]) == ("homography", expected, None)
    assert (told["imu_age_ns"] is not None) is (expected == "inertial")
    assert told["d_m"] is not None and told["horizon_ns"] >= 20 * MS
    assert relay.warped == {f"homography/{expected}": 1}


@pytest.mark.parametrize("jump_ms", [-10_000, 10_000_000], ids=["back", "ahead"])
def test_an_imu_whose_time_jumps_is_not_believed(jump_ms: int) -> None:
    world, t_ns = flying((0, 300))
    for k in range(5):
        world.ingest(ImuSample("imu", None, t_ns + jump_ms * MS + k * MS, 50.0 * W_BODY, GRAVITY))
    made = camera()
    frame = frame_for(made, world, t_ns - 20 * MS, {Modality.GRAY: white(made)})
    _, reader = passed(made, world, frame)
    header, _ = reader.newest(COMPENSATED)
    truth = Transform(
        V_WORLD * 1e-9 * (header["t_display_ns"] - t_ns),
        q_exp(W_BODY * 1e-9 * (header["t_display_ns"] - t_ns)),
    )
    shown = header["pose_display"]
    expected = truth @ made.T_body_optical
    assert np.abs(np.array(shown["p_m"]) - expected.p_m).max() < 0.02
    assert (
        np.abs(Transform.of(shown["p_m"], shown["q_xyzw"]).rotation() - expected.rotation()).max()
        < 0.02
    )


def test_samples_out_of_order_change_nothing() -> None:
    world, t_ns = flying((0, 300))
    expected = world.pose_at("drone", t_ns + 20 * MS)
    world.ingest(ImuSample("imu", None, t_ns - 7 * MS, 50.0 * W_BODY, GRAVITY))
    got = world.pose_at("drone", t_ns + 20 * MS)
    assert got.method == "inertial"
    assert got.T_world_body.p_m == pytest.approx(expected.T_world_body.p_m, abs=1e-12)
    assert world.counters()["imu_out_of_order/drone"] + world.counters()["imu_resets/drone"] == 1


def test_a_pose_held_on_purpose_is_shown_as_rendered() -> None:
    world, t_ns = flying((0, 300), lost=True)
    made = camera(on_loss="hold")
    relay, reader = passed(made, world, frame_for(made, world, t_ns, {Modality.GRAY: white(made)}))
    header, pixels = reader.newest(COMPENSATED)
    assert header["compensation"]["method"] == "none"
    assert header["compensation"]["fallback"] == "tracking lost"
    assert header["compensated"] is False
    assert header["pose_display"] == header["pose_rendered"] and header["t_display_ns"] == t_ns
    assert (pixels == 255).all()
    assert [key.split("/")[0] for key in relay.warped] == ["none"]


def test_reprojection_without_depth_says_what_it_is() -> None:
    world, t_ns = flying((0, 300))
    made = camera(compensate="reproject")
    _, reader = passed(made, world, frame_for(made, world, t_ns, {Modality.GRAY: white(made)}))
    told = reader.newest(COMPENSATED)[0]["compensation"]
    assert (told["method"], told["fallback"]) == ("homography", "no depth picture")


def test_a_frame_is_output_when_its_first_picture_is_complete() -> None:
    bridge_clock().run(0.01)  # time passes, and no picture is too old
    world, t_ns = flying((0, 300))
    made, ledger = camera(), FrameLedger()
    offered_ns = []

    class Clocked(Reader):
        def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
            offered_ns.append(now_ns())

    relay = CameraRelay(made, world, LedgerSink(Clocked(), ledger), ledger, Meter())
    relay.offer(frame_for(made, world, t_ns - 20 * MS, {Modality.GRAY: white(made)}))
    relay.step()
    relay.close()
    (row,) = ledger.rows()
    assert row.stamps.warp is not None and row.stamps.output is not None
    assert (
        len(offered_ns) == 2
        and row.stamps.warp < row.stamps.output <= offered_ns[0] < offered_ns[1]
    )


# --- margins and beacons -----------------------------------------------------------------------


def test_margins_leave_no_border_and_nobody_sees_them() -> None:
    world, t_ns = flying((0, 300))
    bordered = []
    for margin_rad in (0.0, 0.4):
        made = camera(margin_rad=margin_rad)
        frame = frame_for(made, world, t_ns - 10 * MS, {Modality.GRAY: white(made)})
        _, reader = passed(made, world, frame)
        for variant in (RAW, COMPENSATED):
            header, pixels = reader.newest(variant)
            assert pixels.shape == (240, 320) == (header["height"], header["width"])
            assert header["K"] == pytest.approx(MODEL.intrinsics_px)
        assert np.shares_memory(reader.newest(RAW)[1], frame.images[0].pixels)
        told = header["compensation"]
        assert told["margin_deg"] == pytest.approx(math.degrees(margin_rad), abs=1e-6)
        assert told["valid_fraction"] == pytest.approx((pixels == 255).mean(), abs=0.01)
        bordered.append(bool((pixels < 255).any()))
    assert bordered == [True, False]


def test_beacons_are_where_each_picture_shows_them() -> None:
    world, t_ns = flying((0, 300))
    made = camera(margin_rad=math.radians(8.0))
    X_camera = np.array([0.3, -0.2, 4.0])
    u, v = ((made.geometry.K_rendered @ X_camera) / 4.0)[:2].tolist()
    marks = (Landmark("gate", u, v, 4.0), Landmark("behind the border", 1.0, 1.0, 4.0))
    frame = frame_for(made, world, t_ns - 40 * MS, {Modality.GRAY: white(made)}, landmarks=marks)
    _, reader = passed(made, world, frame)
    X_world = frame.images[0].view.T_world_camera.apply(X_camera)
    for variant, key in ((RAW, "pose_rendered"), (COMPENSATED, "pose_display")):
        header, _ = reader.newest(variant)
        pose = Transform.of(header[key]["p_m"], header[key]["q_xyzw"])
        X = pose.inverse().apply(X_world)
        expected = (MODEL.K @ X / X[2])[:2]
        (name, *place), *others = header["landmarks"]
        assert name == "gate"
        assert variant == COMPENSATED or not others, "a margin is not part of the picture"
        assert place == pytest.approx((*expected, X[2]), abs=1e-6)


# --- stereo ------------------------------------------------------------------------------------


def blob(model: CameraModel, pixel: ImageArray) -> ImageArray:
    v, u = np.mgrid[0 : model.height_px, 0 : model.width_px]
    return np.asarray(
        np.rint(250.0 * np.exp(-((u - pixel[0]) ** 2 + (v - pixel[1]) ** 2) / 18.0)).astype(
            np.uint8
        )
    )


def centre(pixels: ImageArray) -> ImageArray:
    """Centre of gravity of the blob, x and y in pixels."""
    v, u = np.mgrid[0 : pixels.shape[0], 0 : pixels.shape[1]]
    weight = pixels.astype(float)
    return np.asarray(np.array([(u * weight).sum(), (v * weight).sum()]) / weight.sum())


@pytest.mark.parametrize("compensate", ["rotation", "homography", "reproject"])
def test_a_pair_is_warped_to_one_instant_and_stays_rectified(compensate: str) -> None:
    with simulated_time(0.0):  # how far the picture turns depends on when it is shown
        check_pair(compensate)


def check_pair(compensate: str) -> None:
    world, t_ns = flying((0, 300))
    left = camera(compensate=compensate, margin_rad=0.1)
    shifted = T_BODY_CAMERA @ Transform(
        np.array([0.0, -BASELINE_M, 0.0]), np.array([0.0, 0.0, 0.0, 1.0])
    )
    right = replace(left, model=replace(MODEL, name="front_right"), T_body_camera=shifted)
    assert right.display_times is left.display_times and right.delay is left.delay
    Z_m = 4.0
    t_render_ns, frame_id = t_ns - 50 * MS, now_ns()
    X_left = np.array([0.35, -0.3, Z_m])
    X_world = left.pose_at(world, t_render_ns).T_world_camera.apply(X_left)
    readers = []
    for made, X in ((left, X_left), (right, X_left - (BASELINE_M, 0.0, 0.0))):
        model = made.geometry.rendered
        pictures = {
            Modality.GRAY: blob(model, (model.K @ X / Z_m)[:2]),
            Modality.DEPTH32: np.full((model.height_px, model.width_px), Z_m, np.float32),
        }
        readers.append(
            passed(made, world, frame_for(made, world, t_render_ns, pictures, frame_id=frame_id))[1]
        )
    headers, pixels = zip(*(reader.newest(COMPENSATED) for reader in readers), strict=True)
    assert headers[0]["t_display_ns"] == headers[1]["t_display_ns"]
    poses = [Transform.of(h["pose_display"]["p_m"], h["pose_display"]["q_xyzw"]) for h in headers]
    apart = poses[0].inverse() @ poses[1]
    assert apart.p_m == pytest.approx((BASELINE_M, 0.0, 0.0), abs=1e-12)
    assert np.abs(apart.q_xyzw) == pytest.approx((0.0, 0.0, 0.0, 1.0), abs=1e-12)
    Z_now_m = float(poses[0].inverse().apply(X_world)[2])
    seen_left, seen_right = (centre(p) for p in pixels)
    # A rotation alone leaves the depth, and so the disparity, of the picture as rendered.
    disparity = MODEL.f_px * BASELINE_M / (Z_m if compensate == "rotation" else Z_now_m)
    tolerance_px = 0.05 if compensate != "rotation" else 1.5
    assert seen_left[0] - seen_right[0] == pytest.approx(disparity, abs=tolerance_px)
    assert seen_left[1] - seen_right[1] == pytest.approx(0.0, abs=tolerance_px)
    if compensate != "rotation":
        expected = MODEL.K @ poses[0].inverse().apply(X_world)
        assert np.abs(seen_left - expected[:2] / expected[2]).max() < 0.12


@pytest.mark.parametrize("shared_m", [0.2, 4.0])
def test_a_pair_shares_the_plane_of_the_camera_that_comes_first(shared_m: float) -> None:
    world, t_ns = flying((0, 300))
    left = camera(plane_depth_m=None)
    right = replace(left, model=replace(MODEL, name="front_right"))
    for made, z_m in ((left, shared_m), (right, 6.0)):
        pictures = {
            Modality.GRAY: white(made),
            Modality.DEPTH32: np.full((240, 320), z_m, np.float32),
        }
        relay, reader = passed(
            made, world, frame_for(made, world, t_ns - 20 * MS, pictures, frame_id=1)
        )
        assert reader.newest(COMPENSATED)[0]["compensation"]["d_m"] == pytest.approx(shared_m)
        assert relay.newest is not None and relay.newest[0].modality == "gray", (
            "people look at no depths"
        )


def test_agreements_on_the_newest_eight_frames_are_kept() -> None:
    first, later = (DisplayTarget(t_ns, (), "none", None, "") for t_ns in (1, 2))
    instants = DisplayTimes()
    for frame_id in range(8):
        assert instants.of(frame_id, lambda: first) is first
    assert all(instants.of(frame_id, lambda: later) is first for frame_id in range(8))
    assert instants.of(8, lambda: later) is later
    assert instants.of(0, lambda: later) is later


# --- delays ------------------------------------------------------------------------------------


def test_artificial_jitter_keeps_the_order_and_is_the_same_for_a_pair() -> None:
    bridge_clock().run(1.0)
    world, t_ns = flying((0, 300))
    made = camera(
        extra_delay_ns=20 * MS, extra_jitter_ns=10 * MS, compensate="none", on_loss="hold"
    )
    first_ns = now_ns()
    frames = [
        frame_for(
            made,
            world,
            t_ns,
            {Modality.GRAY: white(made)},
            frame_id=k + 1,
            t_image_ns=first_ns + k * 5 * MS,
        )
        for k in range(20)
    ]
    orders = []
    for _ in range(2):
        relay, reader = relay_of(made, world)
        for frame in frames:
            relay.offer(frame)
        came: list[tuple[int, int]] = []

        def step(
            relay: CameraRelay = relay, reader: Reader = reader, came: list[tuple[int, int]] = came
        ) -> bool:
            relay.step()
            came += [(header["frame_id"], now_ns()) for header, _ in reader.frames[len(came) :]]
            return len(came) + relay.dropped["superseded"] == len(frames)

        wait_until(step)
        relay.close()
        assert [k for k, _ in came] == sorted(k for k, _ in came)
        assert all(t_ns >= frames[k - 1].t_image_ns + 10 * MS for k, t_ns in came)
        orders.append(came)
    assert all(orders)


def test_the_delay_is_soon_known_and_not_shaken_by_jitter() -> None:
    delay = RunningDelay(30 * MS)
    for _ in range(10):
        delay.add(80 * MS)
    assert delay.value_ns == 80 * MS, "the first guess is one sample among others"
    rng = np.random.default_rng(2)
    estimates = []
    for jitter_ms in rng.uniform(-15, 15, 2000):
        delay.add(round((80 + jitter_ms) * MS))
        estimates.append(delay.value_ns)
    assert np.mean(estimates) == pytest.approx(80 * MS, abs=0.5 * MS)
    assert np.std(estimates) < 4.0 * MS
    for _ in range(8):
        delay.add(120 * MS)
    assert delay.value_ns == 120 * MS


def test_rolling_shutter_rows_are_told() -> None:
    world, t_ns = flying((0, 300))
    made = camera(rolling_shutter_ns=12_500_000, margin_rad=0.1)
    _, reader = passed(
        made, world, frame_for(made, world, t_ns - 20 * MS, {Modality.GRAY: white(made)})
    )
    header = reader.newest(COMPENSATED)[0]["compensation"]
    assert header["rolling_shutter_ms"] == 12.5 and header["method"] == "homography"
    assert made.row_offsets_ns == (-6_250_000, -3_125_000, 0, 3_125_000, 6_250_000)
