"""Products and inverses whose sums have a fixed order."""

from __future__ import annotations

import numpy as np
import pytest

from vil_bridge.core.geometry import q_mul, q_rotate, q_to_matrix
from vil_bridge.core.matrices import inverse, length, product, right_inverse

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((4,), (4, 2)),
        ((5, 3), (3,)),
        ((5, 3), (3, 2)),
        ((7, 5, 3), (7, 3, 2)),
        ((3, 3), (7, 3, 1)),
    ],
)
def test_products_are_those_of_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left = RANDOM.normal(size=a)
    right = RANDOM.normal(size=b)
    found = np.asarray(product(left, right))
    assert found.shape == (left @ right).shape
    np.testing.assert_allclose(found, left @ right, rtol=1e-13, atol=1e-14)


def test_sums_run_from_the_first_term_to_the_last_in_any_batch() -> None:
    a = RANDOM.normal(size=(100, 9))
    b = RANDOM.normal(size=(9, 4))
    everyone = product(a, b)
    for row, sums in zip(a.tolist(), everyone.tolist(), strict=True):
        for column in range(4):
            total = row[0] * b[0, column]
            for k in range(1, 9):
                total += row[k] * b[k, column]
            assert total == sums[column]
    assert (np.vstack([product(row[None], b) for row in a]) == everyone).all()


def test_inverses_are_those_of_numpy() -> None:
    a = RANDOM.normal(size=(5, 5))
    a[0, 0] = 0.0
    np.testing.assert_allclose(inverse(a), np.linalg.inv(a), rtol=1e-11)
    wide = RANDOM.normal(size=(4, 6)) * [[1.0], [1e-3], [1e-3], [1e-6]]
    np.testing.assert_allclose(right_inverse(wide), np.linalg.pinv(wide), rtol=1e-9)
    assert length(np.array([3.0, 4.0])) == 5.0
    with pytest.raises(ValueError, match="singular"):
        inverse(np.ones((2, 2)))


def test_turns_have_the_same_bits_in_any_batch() -> None:
    q = RANDOM.normal(size=(100, 4))
    v = RANDOM.normal(size=(100, 3))
    for row in range(100):
        one = slice(row, row + 1)
        assert (q_to_matrix(q)[row] == q_to_matrix(q[row])).all()
        assert (q_mul(q, q[::-1])[row] == q_mul(q[one], q[::-1][one])[0]).all()
        assert (q_rotate(q, v)[row] == q_rotate(q[one], v[one])[0]).all()
