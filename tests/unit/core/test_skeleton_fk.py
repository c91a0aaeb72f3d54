"""Forward kinematics against one bone at a time, and the order of streamed bones."""

from __future__ import annotations

import numpy as np
import pytest

from vil_bridge.bodies.skeleton import (
    global_to_local,
    local_to_global,
    parents_first,
    trusted_below,
)
from vil_bridge.core.geometry import Transform, q_normalize
from vil_bridge.core.types import FloatArray

PARENTS = (-1, 0, 1, 1, 0, 4, -1, 6)
"""Two roots, a fork, chains of up to three."""


def random_pose(seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(len(PARENTS), 3)), q_normalize(rng.normal(size=(len(PARENTS), 4)))


def test_global_poses_are_the_product_along_the_chain() -> None:
    p_local, q_local = random_pose(1)
    p, q = local_to_global(p_local, q_local, PARENTS)
    for bone in range(len(PARENTS)):
        T = Transform.identity()
        up = bone
        while up >= 0:
            T = Transform(p_local[up], q_local[up]) @ T
            up = PARENTS[up]
        assert p[bone] == pytest.approx(T.p_m, abs=1e-12)
        assert abs(float(q[bone] @ T.q_xyzw)) == pytest.approx(1.0)


def test_local_and_global_are_inverse_and_leave_their_input_alone() -> None:
    given = random_pose(2)
    copies = given[0].copy(), given[1].copy()
    p, q = local_to_global(*given, PARENTS)
    p_again, q_again = global_to_local(p, q, PARENTS)
    assert np.array_equal(given[0], copies[0])
    assert np.array_equal(given[1], copies[1])
    assert p_again == pytest.approx(given[0], abs=1e-12)
    assert np.abs((q_again * given[1]).sum(axis=1)) == pytest.approx(np.ones(len(PARENTS)))


def test_a_single_root_and_no_bone_at_all() -> None:
    p, q = random_pose(3)
    for count in (0, 1):
        parents = (-1,) * count
        moved = local_to_global(p[:count], q[:count], parents)
        assert np.array_equal(moved[0], p[:count])
        assert np.array_equal(moved[1], q[:count])


def test_trust_ends_below_an_untracked_bone() -> None:
    tracked = np.array([True, False, True, True, True, True, True, True])
    assert trusted_below(tracked, PARENTS).tolist() == [
        True,
        False,
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    assert tracked[2], "the input is left alone"


@pytest.mark.parametrize(
    ("bones", "ordered"),
    [
        ([(1, 0, "hip"), (2, 1, "ab"), (3, 2, "head")], [("hip", -1), ("ab", 0), ("head", 1)]),
        ([(3, 2, "head"), (2, 1, "ab"), (1, 0, "hip")], [("hip", -1), ("ab", 0), ("head", 1)]),
        ([(5, 99, "lost"), (6, 5, "child")], [("lost", -1), ("child", 0)]),
        ([(1, 2, "a"), (2, 1, "b")], [("b", -1), ("a", 0)]),
        ([(7, 7, "self")], [("self", -1)]),
        ([], []),
    ],
)
def test_parents_come_first(
    bones: list[tuple[int, int, str]], ordered: list[tuple[str, int]]
) -> None:
    assert parents_first(bones) == ordered


def test_a_long_chain_in_the_worst_order_is_sorted() -> None:
    count = 500
    ordered = parents_first([(i, i - 1, i) for i in reversed(range(count))])
    assert ordered == [(i, i - 1) for i in range(count)]
