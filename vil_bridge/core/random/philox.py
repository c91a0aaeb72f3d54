"""Arithmetic of the noise.

straight-line functions for NumPy arrays and, compiled, for single numbers.

Only +, -, *, /, square roots and bit operations, each correctly rounded by IEEE 754: the same bits
on every machine. Cached kernels are dropped when this file changes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_MASK: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_M0: Final = np.uint64(0xD2511F53)
_M1: Final = np.uint64(0xCD9E8D57)
_W0: Final = np.uint64(0x9E3779B9)
_W1: Final = np.uint64(0xBB67AE85)
_LOW_SHIFT: Final = np.uint64(12)
_HIGH_SHIFT: Final = np.uint64(20)
_ROUNDS: Final = 10


def philox4x32(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Return four random words of 32 bits (Philox4x32-10, Salmon et al. 2011), all in 64-bit
    unsigned integers.
    """
    for _ in range(_ROUNDS):
        a = c0 * _M0
        b = c2 * _M1
        c0 = (b >> _HALF) ^ c1 ^ k0
        c1 = b & _MASK
        c2 = (a >> _HALF) ^ c3 ^ k1
        c3 = a & _MASK
        k0 = (k0 + _W0) & _MASK
        k1 = (k1 + _W1) & _MASK
    return c0, c1, c2, c3


def unit_interval(high: Any, low: Any) -> Any:
    """Return a double strictly between 0 and 1 from 52 bits of two words.

    (k + 1/2) 2^-52, exact and symmetric.
    """
    return (((high << _HIGH_SHIFT) | (low >> _LOW_SHIFT)) * 1.0 + 0.5) * 2.220446049250313e-16


_TO_ROOT_HALF: Final = np.int64((0x3FF00000 - 0x3FE6A09E) << 32)
_ROOT_HALF: Final = np.int64(0x3FE6A09E << 32)
_MANTISSA: Final = np.int64((1 << 52) - 1)
_MANTISSA_BITS: Final = np.int64(52)
_BIAS: Final = np.int64(1023)


def parts_of_bits(bits: Any) -> Any:
    """Return k and bits of m, sqrt(1/2) <= m < sqrt(2), of a positive normal double 2^k m given
    as int64 bits.
    """
    shifted = bits + _TO_ROOT_HALF
    return (shifted >> _MANTISSA_BITS) - _BIAS, (shifted & _MANTISSA) + _ROOT_HALF


def log_of_parts(k: Any, m: Any) -> Any:
    """Return natural logarithm of 2^k m, error below one unit in the last place.

    The scheme of fdlibm's e_log.
    """
    f = m - 1.0
    half_square = 0.5 * f * f
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332))
    odd = z * (
        0.6666666666666735130
        + w * (0.2857142874366239149 + w * (0.1818357216161805012 + w * 0.1479819860511658591))
    )
    return (
        s * (half_square + (odd + even))
        + k * 1.90821492927058770002e-10
        - half_square
        + f
        + k * 6.93147180369123816490e-01
    )


def central_normal(q: Any) -> Any:
    """Return normal quantile of q + 1/2, |q| <= 0.425 (Wichura's AS 241, PPND16)."""
    r = 0.180625 - q * q
    num = (2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853
    num = num * r + 45921.953931549871457
    num = (
        (num * r + 13731.693765509461125) * r + 1971.5909503065514427
    ) * r + 133.14166789178437745
    num = num * r + 3.387132872796366608
    den = (5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061
    den = den * r + 21213.794301586595867
    den = ((den * r + 5394.1960214247511077) * r + 687.1870074920579083) * r + 42.313330701600911252
    den = den * r + 1.0
    return q * num / den


def near_tail_normal(root: Any) -> Any:
    """Return size of the normal quantile of a smaller tail p, root = sqrt(-log p) <= 5 (AS 241)."""
    r = root - 1.6
    num = (
        (7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r + 0.24178072517745061177
    ) * r + 1.27045825245236838258
    num = (
        (num * r + 3.64784832476320460504) * r + 5.7694972214606914055
    ) * r + 4.6303378461565452959
    num = num * r + 1.42343711074968357734
    den = (
        (1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r + 0.0151986665636164571966
    ) * r + 0.14810397642748007459
    den = (
        (den * r + 0.68976733498510000455) * r + 1.6763848301838038494
    ) * r + 2.05319162663775882187
    den = den * r + 1.0
    return num / den


def far_tail_normal(root: Any) -> Any:
    """Return the same for root > 5, tails below e^-25 (AS 241)."""
    r = root - 5.0
    num = (
        (2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 0.0012426609473880784386
    ) * r + 0.026532189526576123093
    num = (
        (num * r + 0.29656057182850489123) * r + 1.7848265399172913358
    ) * r + 5.4637849111641143699
    num = num * r + 6.6579046435011037772
    den = (
        (2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r + 1.8463183175100546818e-5
    ) * r + 7.868691311456132591e-4
    den = (
        (den * r + 0.0148753612908506148525) * r + 0.13692988092273580531
    ) * r + 0.59983220655588793769
    den = den * r + 1.0
    return num / den
