"""Elementary functions with the same bits on every machine."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from vil_bridge.core import elementary
from vil_bridge.core.compile import compiled, has_numba
from vil_bridge.core.types import FloatArray

RANDOM = np.random.default_rng(7)
ANGLES = np.concatenate([RANDOM.uniform(-span, span, 20000) for span in (0.1, 4.0, 300.0, 1e6)])
EXPONENTS = np.concatenate(
    [RANDOM.uniform(-span, span, 20000) for span in (1e-6, 0.5, 40.0, 699.0)]
)


def units_off(found: FloatArray, exact: Any) -> float:
    """Return the largest error in units in the last place; ``exact`` has a wider type."""
    return float(np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float64))))


def test_errors_are_below_three_units_in_the_last_place() -> None:
    wide = ANGLES.astype(np.longdouble)
    sine, cosine = elementary.sin_cos(ANGLES)
    assert np.abs(sine - np.sin(wide)).max() < 3e-16 and np.abs(cosine - np.cos(wide)).max() < 3e-16
    small = np.abs(ANGLES) < 0.1
    assert units_off(sine[small], np.sin(wide[small])) < 1.0
    y, x = RANDOM.normal(size=(2, 40000))
    assert units_off(elementary.arctan2(y, x), np.arctan2(y.astype(np.longdouble), x)) < 3.0
    exponents = EXPONENTS.astype(np.longdouble)
    assert units_off(elementary.exp(EXPONENTS), np.exp(exponents)) < 2.0
    assert units_off(elementary.expm1(EXPONENTS), np.expm1(exponents)) < 3.0


@pytest.mark.parametrize("y", [0.0, -0.0, 1.0, -1.0])
@pytest.mark.parametrize("x", [0.0, -0.0, 1.0, -1.0])
def test_angles_of_axes_are_exact(y: float, x: float) -> None:
    assert elementary.arctan2(y, x) == np.arctan2(y, x)
    assert np.signbit(elementary.arctan2(y, x)) == np.signbit(y)


def test_ends_of_the_range() -> None:
    assert elementary.exp(0.0) == 1.0 and elementary.expm1(0.0) == 0.0
    assert elementary.expm1(-1e9) == -1.0
    assert 0.0 < elementary.exp(-1e9) < 1e-300
    assert elementary.exp(1e9) > 1e300


def test_compiled_functions_have_the_bits_of_numpy() -> None:
    assert has_numba()
    make = compiled()
    sin_cos, exp, expm1, arctan2 = (
        make(function)
        for function in (elementary.sin_cos, elementary.exp, elementary.expm1, elementary.arctan2)
    )
    for angle, exponent in zip(ANGLES[::97].tolist(), EXPONENTS[::97].tolist(), strict=True):
        assert sin_cos(angle) == elementary.sin_cos(angle)
        assert exp(exponent) == elementary.exp(exponent)
        assert expm1(exponent) == elementary.expm1(exponent)
        assert arctan2(angle, exponent) == elementary.arctan2(angle, exponent)


@pytest.mark.seeded
def test_functions_have_their_pinned_bits() -> None:
    """The functions use basic operations only, which IEEE 754 defines to the last bit."""
    angles = np.linspace(-50.0, 50.0, 100001)
    exponents = np.linspace(-30.0, 30.0, 100001)
    results = (
        *elementary.sin_cos(angles),
        elementary.arctan2(angles, exponents[::-1]),
        elementary.exp(exponents),
        elementary.expm1(exponents),
    )
    bits = b"".join(np.ascontiguousarray(one).tobytes() for one in results)
    assert hashlib.sha256(bits).hexdigest()[:16] == "aa7aa907fbe44477"
