"""The group axioms of rotations and transforms, and the frame conversions both ways."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from vil_bridge.core import geometry as g
from vil_bridge.core.types import FloatArray

unit = st.floats(-1.0, 1.0, allow_nan=False)
vectors = st.tuples(*[st.floats(-50.0, 50.0)] * 3).map(np.array)
quaternions = (
    st.tuples(unit, unit, unit, unit)
    .filter(lambda q: math.hypot(*q) > 0.05)
    .map(lambda q: np.array(q) / math.hypot(*q))
)
transforms = st.builds(g.Transform, vectors, quaternions)


def same_rotation(a: FloatArray, b: FloatArray, tolerance: float = 1e-12) -> bool:
    return 1.0 - abs(float(a @ b)) < tolerance


@given(quaternions, quaternions, vectors)
def test_product_applies_the_right_factor_first(
    a: FloatArray, b: FloatArray, v: FloatArray
) -> None:
    np.testing.assert_allclose(
        g.q_rotate(g.q_mul(a, b), v), g.q_rotate(a, g.q_rotate(b, v)), atol=1e-9
    )


@given(quaternions, vectors)
def test_matrices_and_vectors_agree_with_scipy(q: FloatArray, v: FloatArray) -> None:
    reference = Rotation.from_quat(q)
    np.testing.assert_allclose(g.q_to_matrix(q), reference.as_matrix(), atol=1e-12)
    np.testing.assert_allclose(g.q_rotate(q, v), reference.apply(v), atol=1e-10)
    assert same_rotation(g.q_from_matrix(reference.as_matrix()), q)


@given(st.tuples(*[st.floats(-1.8, 1.8)] * 3).map(np.array))
def test_exp_and_log_are_inverse_below_half_a_turn(rotvec: FloatArray) -> None:
    if np.linalg.norm(rotvec) < 3.1:
        np.testing.assert_allclose(g.q_log(g.q_exp(rotvec)), rotvec, atol=1e-9)


@given(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1))
def test_euler_angles_are_intrinsic_zyx(yaw: float, pitch: float, roll: float) -> None:
    expected = Rotation.from_euler("ZYX", (yaw, pitch, roll)).as_quat()
    assert same_rotation(g.q_from_euler_zyx(yaw, pitch, roll), expected)


@given(transforms, transforms, vectors)
def test_transforms_compose_and_invert(a: g.Transform, b: g.Transform, v: FloatArray) -> None:
    np.testing.assert_allclose((a @ b).apply(v), a.apply(b.apply(v)), atol=1e-8)
    np.testing.assert_allclose(a.inverse().apply(a.apply(v)), v, atol=1e-8)


@given(quaternions, quaternions)
def test_slerp_ends_at_its_ends_and_moves_evenly(a: FloatArray, b: FloatArray) -> None:
    assert same_rotation(g.q_slerp(a, b, 0.0), a)
    assert same_rotation(g.q_slerp(a, b, 1.0), b, 1e-9)
    whole = np.linalg.norm(g.q_log(g.q_mul(g.q_conj(a), b)))
    third = np.linalg.norm(g.q_log(g.q_mul(g.q_conj(a), g.q_slerp(a, b, 1 / 3))))
    assert abs(third - whole / 3) < 1e-7


@given(vectors, quaternions)
def test_motive_conversion_is_a_proper_rotation_both_ways(p: FloatArray, q: FloatArray) -> None:
    p_z, q_z = g.yup_to_zup(p, q)
    turn = Rotation.from_euler("x", 90, degrees=True)
    np.testing.assert_allclose(p_z, turn.apply(p), atol=1e-9)
    assert same_rotation(q_z, (turn * Rotation.from_quat(q) * turn.inv()).as_quat())
    back_p, back_q = g.zup_to_yup(p_z, q_z)
    np.testing.assert_array_equal(back_p, p)
    np.testing.assert_array_equal(back_q, q)


@given(vectors, quaternions)
def test_unity_conversions_follow_the_protocol_page_and_invert(
    p: FloatArray, q: FloatArray
) -> None:
    world = np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 0]])
    bodies, cameras = np.array([[0.0, 0, 1], [-1, 0, 0], [0, 1, 0]]), np.diag([1.0, -1.0, 1.0])
    for to_unity, back, axes in (
        (g.enu_flu_to_unity, g.unity_to_enu_flu, bodies),
        (g.optical_to_unity, g.unity_to_optical, cameras),
    ):
        p_unity, q_unity = to_unity(p, q)
        np.testing.assert_array_equal(p_unity, p[[0, 2, 1]])
        np.testing.assert_allclose(
            g.q_to_matrix(q_unity), world @ g.q_to_matrix(q) @ axes, atol=1e-12
        )
        p_back, q_back = back(p_unity, q_unity)
        np.testing.assert_array_equal(p_back, p)
        np.testing.assert_allclose(q_back, q, atol=1e-15)


@given(st.lists(st.tuples(vectors, quaternions), min_size=1, max_size=9))
def test_arrays_of_poses_are_converted_row_by_row(
    rows: list[tuple[FloatArray, FloatArray]],
) -> None:
    p, q = (np.array(column) for column in zip(*rows, strict=True))
    for convert in (
        g.enu_flu_to_unity,
        g.unity_to_enu_flu,
        g.optical_to_unity,
        g.unity_to_optical,
        g.yup_to_zup,
    ):
        for row, p_row, q_row in zip(rows, *convert(p, q), strict=True):
            p_one, q_one = convert(*row)
            np.testing.assert_allclose(p_row, p_one, atol=1e-12)
            np.testing.assert_allclose(q_row, q_one, atol=1e-12)


@given(transforms)
def test_optical_and_body_like_cameras_are_the_same_unity_camera(T_world_flu: g.Transform) -> None:
    flu_optical = g.Transform(
        np.zeros(3), g.q_from_matrix(np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]]))
    )
    T_world_optical = T_world_flu @ flu_optical
    p_a, q_a = g.enu_flu_to_unity(T_world_flu.p_m, T_world_flu.q_xyzw)
    p_b, q_b = g.optical_to_unity(T_world_optical.p_m, T_world_optical.q_xyzw)
    np.testing.assert_allclose(p_a, p_b)
    assert same_rotation(q_a, q_b)


@given(vectors, quaternions)
def test_body_vectors_in_unity(v: FloatArray, q: FloatArray) -> None:
    forward, left, up = np.eye(3)
    assert g.flu_to_unity(np.stack((forward, left, up))).tolist() == [
        [0, 0, 1],
        [-1, 0, 0],
        [0, 1, 0],
    ]
    np.testing.assert_array_equal(g.unity_to_flu(g.flu_to_unity(v)), v)
    # Turned by the body's attitude, then to Unity's world, is the same as the other way round.
    p_unity, q_unity = g.enu_flu_to_unity(g.q_rotate(q, v), q)
    np.testing.assert_allclose(g.q_rotate(q_unity, g.flu_to_unity(v)), p_unity, atol=1e-10)


@given(vectors, vectors, st.floats(-7.0, 7.0))
def test_cross_products_and_yaw_matrices(a: FloatArray, b: FloatArray, yaw_rad: float) -> None:
    np.testing.assert_array_equal(g.cross(a, b), np.cross(a, b))
    np.testing.assert_array_equal(g.cross(np.stack((a, b)), b), np.cross(np.stack((a, b)), b))
    np.testing.assert_allclose(
        g.yaw_matrix(yaw_rad), Rotation.from_euler("z", yaw_rad).as_matrix(), atol=1e-14
    )


def test_flu_to_frd_turns_about_x() -> None:
    np.testing.assert_array_equal(g.flu_to_frd(np.array([1.0, 2.0, 3.0])), [1.0, -2.0, -3.0])
    np.testing.assert_array_equal(
        g.flu_to_frd(g.flu_to_frd(np.array([1.0, 2.0, 3.0]))), [1.0, 2.0, 3.0]
    )


def test_a_zero_quaternion_becomes_the_identity() -> None:
    np.testing.assert_array_equal(g.q_normalize(np.zeros(4)), [0, 0, 0, 1])
