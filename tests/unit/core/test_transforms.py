"""Transforms computed in plain numbers agree with the array functions."""

from __future__ import annotations

import numpy as np

from vil_bridge.core.geometry import Transform, q_conj, q_rotate, q_to_matrix, turned
from vil_bridge.core.motion import pose_covariance, pose_covariance_upper


def test_plain_numbers_give_what_arrays_give() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        T = Transform.of(5.0 * rng.normal(size=3), rng.normal(size=4))
        inverse, q_inverse, v = T.inverse(), q_conj(T.q_xyzw), rng.normal(size=3)
        np.testing.assert_array_equal(inverse.q_xyzw, q_inverse)
        np.testing.assert_allclose(inverse.p_m, -q_rotate(q_inverse, T.p_m), atol=1e-14)
        np.testing.assert_allclose((T @ inverse).p_m, 0.0, atol=1e-14)
        np.testing.assert_allclose(T.rotation(), q_to_matrix(T.q_xyzw), atol=1e-15)
        np.testing.assert_allclose(
            turned(T.q_xyzw.tolist(), v.tolist()), q_rotate(T.q_xyzw, v), atol=1e-14
        )


def test_the_upper_triangle_of_a_poses_covariance_has_its_rows_in_order() -> None:
    root = np.random.default_rng(4).normal(size=(9, 9))
    covariance = root @ root.T
    assert (
        pose_covariance_upper(covariance)
        == pose_covariance(covariance)[np.triu_indices(6)].tolist()
    )
