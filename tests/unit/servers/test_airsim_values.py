"""Axes, ids, palette, expressions and payloads of AirSim against hand-computed and golden
values.
"""

from __future__ import annotations

import math

import cv2
import msgpack
import msgspec
import numpy as np
import pytest
from msgspec.structs import astuple

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_simulation.airsim.frames import (
    attitude_of,
    body_of,
    frd_of,
    heading_of,
    mount_of,
    mounted_attitude_of,
    mounted_quaternion_of,
    ned_of,
    pose_of,
    quaternion_of,
    transform_of,
    world_of,
)
from vil_simulation.airsim.object_ids import PALETTE, ObjectIds, initial_id
from vil_simulation.airsim.pictures import bgr_of, floats_of, modality_of, png_of
from vil_simulation.airsim.values import NAN, ImuData, Pose, Quaternionr, Vector3r

CAMERA = CameraModel("c", 4, 2, 2.0 * math.atan(0.5))
NO_IDS = np.zeros(1, np.int16)


def test_a_body_that_faces_north_and_level_has_the_identity() -> None:
    facing_north = q_from_euler_zyx(math.pi / 2.0, 0.0, 0.0)
    q = quaternion_of(facing_north)
    assert np.allclose((q.w_val, q.x_val, q.y_val, q.z_val), (1.0, 0.0, 0.0, 0.0))


@pytest.mark.parametrize("yaw_deg", [-170.0, 0.0, 30.0, 90.0])
def test_yaw_is_clockwise_from_north_and_pitch_nose_up(yaw_deg: float) -> None:
    half = math.radians(yaw_deg) / 2.0
    q_xyzw = attitude_of(Quaternionr(math.cos(half), 0.0, 0.0, math.sin(half)))
    assert np.allclose(np.abs(q_xyzw @ q_from_euler_zyx(heading_of(yaw_deg), 0.0, 0.0)), 1.0)
    nose_up = attitude_of(Quaternionr(math.cos(0.1), 0.0, math.sin(0.1), 0.0))
    ahead = Transform.of((0, 0, 0), nose_up).rotation()[:, 0]
    assert np.allclose(ahead, (0.0, math.cos(0.2), math.sin(0.2)))


def test_attitudes_and_points_return_the_same() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        q, p = rng.normal(size=4), rng.normal(size=3)
        q /= np.linalg.norm(q)
        back = attitude_of(quaternion_of(q))
        assert np.allclose(abs(back @ q), 1.0) and np.allclose(world_of(ned_of(p)), p)
        assert np.allclose(abs(mounted_attitude_of(mounted_quaternion_of(q)) @ q), 1.0)


def test_a_quaternion_of_any_length_is_an_attitude() -> None:
    assert np.allclose(
        attitude_of(Quaternionr(3.0, 0.0, 0.0, 3.0)), attitude_of(Quaternionr(0.5, 0.0, 0.0, 0.5))
    )


def test_nan_leaves_a_component_unchanged() -> None:
    before = Transform.of((1.0, 2.0, 3.0), q_from_euler_zyx(0.3, 0.0, 0.0))
    T = transform_of(
        Pose(Vector3r(NAN, 5.0, NAN), Quaternionr(NAN, 0.0, 0.0, 1.0)), np.zeros(3), before
    )
    assert T.p_m.tolist() == [5.0, 2.0, 3.0] and np.array_equal(T.q_xyzw, before.q_xyzw)
    moved = pose_of(T, np.array([1.0, 1.0, 1.0])).position
    assert (moved.x_val, moved.y_val, moved.z_val) == (1.0, 4.0, -2.0)


@pytest.mark.parametrize(
    ("given", "north_east_down"),
    [
        ((NAN, NAN, NAN), (5.0, 6.0, 7.0)),
        ((1.0, NAN, NAN), (1.0, 6.0, 7.0)),
        ((NAN, NAN, 3.0), (5.0, 6.0, 3.0)),
    ],
)
def test_each_component_that_is_nan_is_that_of_before_relative_to_the_start(
    given: tuple[float, ...], north_east_down: tuple[float, ...]
) -> None:
    start_m = np.array([100.0, 200.0, 300.0])
    before = Transform.of((106.0, 205.0, 293.0))
    T = transform_of(Pose(Vector3r(*given), Quaternionr()), start_m, before)
    assert astuple(pose_of(T, start_m).position) == north_east_down
    assert astuple(ned_of(T.p_m)) == tuple(np.add(north_east_down, (200.0, 100.0, -300.0)))


def test_a_mount_is_ahead_right_and_down_of_the_body() -> None:
    before = Transform.of((1.0, 2.0, 3.0), (0.0, 0.0, 0.6, 0.8))
    T = mount_of(Pose(Vector3r(NAN, 5.0, NAN), Quaternionr(NAN)), before)
    assert T.p_m.tolist() == [1.0, -5.0, 3.0] and np.array_equal(T.q_xyzw, before.q_xyzw)
    assert mount_of(Pose(Vector3r(4.0, NAN, 6.0)), before).p_m.tolist() == [4.0, 2.0, -6.0]
    assert astuple(frd_of((1.0, 2.0, 3.0))) == (1.0, -2.0, -3.0)
    assert body_of(Vector3r(1.0, 2.0, 3.0)).tolist() == [1.0, -2.0, -3.0]


@pytest.mark.parametrize("length", [5e-324, 1e-162, 1e-30, 1.0, 1e6])
def test_attitudes_have_unit_length_however_short_they_come(length: float) -> None:
    for convert in (attitude_of, mounted_attitude_of):
        assert np.linalg.norm(convert(Quaternionr(length, 0.0, length, 0.0))) == pytest.approx(1.0)
        assert np.linalg.norm(convert(Quaternionr(0.0, 0.0, 0.0, 0.0))) == 1.0


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("Ground", 148),
        ("Cube", 164),
        ("OrangeBall", 28),
        ("Gate0", 166),
        ("Gate10_21", 166),
        ("Drone_1", 29),
        ("Wall_2", 181),
        ("1M_Cube_Chamfer", 231),
        ("SkySphere", 227),
    ],
)
def test_initial_ids_are_airsims(name: str, number: int) -> None:
    assert initial_id(name) == number


def test_the_palette_begins_and_ends_as_airsims() -> None:
    assert PALETTE.shape == (256, 3) and PALETTE[0].tolist() == [0, 0, 0]
    assert PALETTE[1].tolist() == [0x99, 0x6C, 0x06] and PALETTE[255].tolist() == [255, 255, 255]
    assert len({tuple(colour) for colour in PALETTE.tolist()}) == 256


@pytest.mark.parametrize("hides", [-1, -2, -(1 << 40), -(1 << 63)])
async def test_any_negative_id_hides(hides: int) -> None:
    ids = ObjectIds()
    assert await ids.set(["Floor"], "Floor", hides, is_expression=False)
    assert ids.of("Floor") == -1 and ids.table({"Floor": 1}).tolist() == [0, -1]


async def test_ids_are_given_by_name_and_by_expression() -> None:
    ids, names = ObjectIds(), ["Wall_1", "Wall_2", "Floor"]
    assert await ids.set(names, "wall_[0-9]", 7, is_expression=True) and ids.of("Wall_2") == 7
    assert not await ids.set(names, "wall_1", 9, is_expression=False) and ids.of("Wall_1") == 7
    assert await ids.set(names, "Floor", -1, is_expression=False) and ids.of("Floor") == -1
    assert not await ids.set(names, "Wall", 3, is_expression=True)  # whole names
    with pytest.raises(ValueError, match="at most 255"):
        await ids.set(names, "Floor", 256, is_expression=False)
    assert ids.table({"Floor": 2, "Wall_1": 1}).tolist() == [0, 7, -1]
    ids.drop("Wall_1")
    ids.drop("missing")
    assert ids.of("Wall_1") == initial_id("Wall_1") and ids.of("Wall_2") == 7


def test_bytes_are_blue_green_red_and_png_red_green_blue_alpha() -> None:
    rgb = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert bytes(bgr_of(0, rgb, CAMERA, NO_IDS))[:6] == bytes([2, 1, 0, 5, 4, 3])
    shown = cv2.imdecode(
        np.frombuffer(png_of(0, rgb, CAMERA, NO_IDS), np.uint8), cv2.IMREAD_UNCHANGED
    )
    assert shown is not None and shown.shape == (2, 4, 4) and shown[0, 0].tolist() == [2, 1, 0, 255]


def test_depths_are_along_the_axis_and_along_the_ray() -> None:
    depth = np.full((2, 4), 2.0, np.float32)
    planar, perspective, shown, disparity = (unpacked(k, depth) for k in (1, 2, 3, 4))
    assert planar == [2.0] * 8
    fx = CAMERA.intrinsics_px[0]
    assert perspective[0] == pytest.approx(2.0 * math.sqrt(1.0 + (1.5 / fx) ** 2 + (0.5 / fx) ** 2))
    assert shown[0] == pytest.approx(0.02) and disparity[0] == pytest.approx(fx * 0.25 / 2.0 / 4.0)
    assert unpacked(1, np.full((2, 4), np.inf, np.float32)) == [65504.0] * 8


def test_segmentation_has_the_palette_and_hides() -> None:
    instance = np.array([[0, 1, 2, 9]] * 2, np.uint16)
    ids = np.array([0, 7, -1], np.int16)
    picture = np.frombuffer(bgr_of(5, instance, CAMERA, ids), np.uint8).reshape(2, 4, 3)[:, :, ::-1]
    assert np.array_equal(picture[0], PALETTE[[0, 7, 0, 0]])
    gray = np.frombuffer(bgr_of(7, instance, CAMERA, ids), np.uint8).reshape(2, 4, 3)
    assert gray[0, :, 0].tolist() == [0, 7, 0, 0]


def test_normals_and_flow_are_coded() -> None:
    normals = np.zeros((2, 4, 3), np.float16)
    normals[0, 0] = (1.0, 0.0, -1.0)
    coded = np.frombuffer(bgr_of(6, normals, CAMERA, NO_IDS), np.uint8).reshape(2, 4, 3)[:, :, ::-1]
    assert coded[0, 0].tolist() == [255, 127, 0] and not coded[1].any()
    flow = np.zeros((2, 4, 2), np.float32)
    flow[0, 0] = (4.0, 0.0)
    coded = np.frombuffer(bgr_of(8, flow, CAMERA, NO_IDS), np.uint8).reshape(2, 4, 3)[:, :, ::-1]
    assert coded[0, 0].tolist() == [255, 128, 0] and coded[1, 0].tolist() == [128, 128, 0]
    shown = np.frombuffer(bgr_of(9, flow, CAMERA, NO_IDS), np.uint8).reshape(2, 4, 3)[:, :, ::-1]
    assert shown[0, 0].tolist() == [255, 0, 0] and not shown[1].any()
    flow[0, 0] = (-2.0, 0.0)
    flow[0, 1] = (0.0, 4.0)
    shown = np.frombuffer(bgr_of(9, flow, CAMERA, NO_IDS), np.uint8).reshape(2, 4, 3)[:, :, ::-1]
    assert shown[0, 0].tolist() == [0, 127, 127]  # half a turn further, half as long
    assert shown[0, 1].tolist() == pytest.approx([128, 255, 0], abs=3)


def test_an_unknown_kind_of_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="image type 10 is unknown"):
        modality_of(10)


def test_structs_are_maps_with_airsims_keys() -> None:
    data = msgspec.msgpack.encode(ImuData(5, Quaternionr(), Vector3r(1.0), Vector3r()))
    assert msgpack.unpackb(data)["angular_velocity"] == {"x_val": 1.0, "y_val": 0.0, "z_val": 0.0}


def unpacked(kind: int, pixels: np.ndarray) -> list[float]:
    return list(msgpack.unpackb(bytes(floats_of(kind, pixels, CAMERA, NO_IDS))))
