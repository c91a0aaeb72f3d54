"""Elementary functions with the same bits on every machine, for NumPy arrays and, compiled, for
single numbers.

Only +, -, *, /, square roots and rounding, each correctly rounded by IEEE 754. Those of C libraries
and of NumPy differ in their last digits between processors. Schemes and coefficients are those of
fdlibm; the error is below 2 units in the last place. They call no other function than
:func:`where`: so each compiles as it stands. Cached kernels are dropped when this file changes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_PER_QUARTER: Final = 6.36619772367581382433e-01
_QUARTER_1: Final = 1.57079632673412561417e00  # 33 bits of pi / 2, then 33 more, then the rest
_QUARTER_2: Final = 6.07710050630396597660e-11
_QUARTER_3: Final = 2.02226624879595063154e-21
_PI: Final = 3.14159265358979311600e00
_PER_LN2: Final = 1.44269504088896338700e00
_LN2_1: Final = 6.93147180369123816490e-01
_LN2_2: Final = 1.90821492927058770002e-10
_TAN_EIGHTH: Final = 0.4142135623730950488
_SMALLEST: Final = 2.2250738585072014e-308


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` where the condition holds, else ``no``.

    Compiled, of single numbers, without arrays on the way.
    """
    return np.where(condition, yes, no)


def sin_cos(x: Any) -> Any:
    """Return sine and cosine of angles in radians, of less than a million turns."""
    k = np.rint(x * _PER_QUARTER)
    r = ((x - k * _QUARTER_1) - k * _QUARTER_2) - k * _QUARTER_3
    z = r * r
    high = 8.33333333332248946124e-03 + z * (
        -1.98412698298579493134e-04 + z * (2.75573137070700676789e-06)
    )
    high = high + z * z * z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)
    s = r + r * z * (-1.66666666666666324348e-01 + z * high)
    tail = 4.16666666666666019037e-02 + z * (
        -1.38888888888741095749e-03 + z * 2.48015872894767294178e-05
    )
    tail = tail + z * z * z * (
        -2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 - z * 1.13596475577881948e-11)
    )
    half = 0.5 * z
    one = 1.0 - half
    c = one + ((1.0 - one - half) + z * z * tail)
    turn = k - 4.0 * np.floor(0.25 * k)
    swapped = (turn == 1.0) | (turn == 3.0)
    sine = where(swapped, c, s)
    cosine = where(swapped, s, c)
    return where(turn >= 2.0, -sine, sine), where((turn == 1.0) | (turn == 2.0), -cosine, cosine)


def arctan2(y: Any, x: Any) -> Any:
    """Return angles of (x, y), -pi to pi."""
    wide = np.abs(x)
    tall = np.abs(y)
    steep = tall > wide
    above = where(steep, wide, tall)
    below = np.maximum(where(steep, tall, wide), _SMALLEST)
    beyond = above > _TAN_EIGHTH * below
    t = where(beyond, above - below, above) / where(beyond, above + below, below)
    z = t * t
    w = z * z
    odd = 1.42857142725034663711e-01 + w * (
        9.09088713343650656196e-02 + w * 6.66107313738753120669e-02
    )
    odd = odd + w * w * w * (4.97687799461593236017e-02 + w * 1.62858201153657823623e-02)
    even = -1.11111104054623557880e-01 + w * (
        -7.69187620504482999495e-02 + w * -5.83357013379057348645e-02
    )
    even = -1.99999999998764832476e-01 + w * (even + w * w * w * -3.65315727442169155270e-02)
    angle = t - t * (z * (3.33333333333329318027e-01 + w * odd) + w * even)
    angle = where(beyond, 0.25 * _PI + angle, angle)
    angle = where(steep, 0.5 * _PI - angle, angle)
    angle = where(np.copysign(1.0, x) < 0.0, _PI - angle, angle)
    return np.copysign(angle, y)


def exp(x: Any) -> Any:
    """Return e^x for -700 <= x <= 700; beyond, as at these ends."""
    within = np.minimum(np.maximum(x, -700.0), 700.0)
    k = np.rint(within * _PER_LN2)
    high = within - k * _LN2_1
    low = k * _LN2_2
    r = high - low
    z = r * r
    c = 6.61375632143793436117e-05 + z * (
        -1.65339022054652515390e-06 + z * 4.13813679705723846039e-08
    )
    c = r - z * (1.66666666666666019037e-01 + z * (-2.77777777770155933842e-03 + z * c))
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    return np.ldexp(y, np.int64(np.fmax(k, -2000.0)))


def expm1(x: Any) -> Any:
    """Return e^x - 1 for -700 <= x <= 700; beyond, as at these ends."""
    within = np.minimum(np.maximum(x, -700.0), 700.0)
    k = np.rint(within * _PER_LN2)
    high = within - k * _LN2_1
    low = k * _LN2_2
    r = high - low
    z = r * r
    c = 6.61375632143793436117e-05 + z * (
        -1.65339022054652515390e-06 + z * 4.13813679705723846039e-08
    )
    c = r - z * (1.66666666666666019037e-01 + z * (-2.77777777770155933842e-03 + z * c))
    rest = high - (low - (r * c) / (2.0 - c))
    power = np.ldexp(1.0, np.int64(np.fmax(k, -2000.0)))
    return (power - 1.0) + power * rest
