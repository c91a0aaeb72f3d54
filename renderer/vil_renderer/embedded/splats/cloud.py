"""Gaussian splats in memory, checked: every reader of a format ends here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import AssetError

Float32 = npt.NDArray[np.float32]

MAX_SPLATS: Final = 10_000_000
"""Most splats of a file: 0.5 GB in memory, 2.5 GB with spherical harmonics of degree 3."""
SH_C0: Final = 0.28209479177387814
"""Display colour less 0.5 of one unit of the first coefficient."""
_LARGEST: Final = 1.0e6
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class SplatCloud:
    """Gaussian splats in the axes and units of their file.

    Attributes:
        p: (n, 3). axes: (n, 3, 3), columns are the half axes of the one-sigma ellipsoids. opacity:
            (n,), 0..1.
        sh: (n, k, 3), coefficients of spherical harmonics for display colour less 0.5, k = 1, 4, 9
            or 16. All are float32.
        antialiased: trained with a low-pass filter of 0.3 px^2 that preserves the opacity of small
            splats.
    """

    p: Float32
    axes: Float32
    opacity: Float32
    sh: Float32
    antialiased: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class StoredSplats:
    """Splats as formats store them.

    Attributes:
        p: (n, 3). log_scale: (n, 3), logarithms of the standard deviations. q_wxyz: (n, 4), not
            normalised.
        opacity: (n,), 0..1. sh: (n, k, 3). antialiased: as in :class:`SplatCloud`.
    """

    p: Float32
    log_scale: Float32
    q_wxyz: Float32
    opacity: Float32
    sh: Float32
    antialiased: bool = False


def cloud_of(stored: StoredSplats, name: str, noun: str = "splat") -> SplatCloud:
    """Check splats and convert them.

    Args:
        stored: the splats.
        name: of the file, for messages.
        noun: one splat, for messages.

    Raises:
        AssetError: a value means nothing; the message names the first such splat.
    """
    for field, values in (
        ("position", stored.p),
        ("scale", stored.log_scale),
        ("rotation", stored.q_wxyz),
    ):
        refuse(np.asarray(~np.isfinite(values).all(axis=1)), name, f"has no finite {field}", noun)
    refuse(np.isnan(stored.opacity), name, "has an opacity that is not a number", noun)
    refuse(np.asarray(~np.isfinite(stored.sh).all(axis=(1, 2))), name, "has no finite colour", noun)
    refuse(
        np.abs(stored.p).max(axis=1, initial=0.0) > _LARGEST,
        name,
        f"lies beyond {_LARGEST:.0e} units",
        noun,
    )
    too_large = stored.log_scale.max(axis=1, initial=-np.inf) > np.log(_LARGEST)
    refuse(too_large, name, f"is larger than {_LARGEST:.0e} units", noun)
    length = np.linalg.norm(stored.q_wxyz.astype(np.float64), axis=1)
    refuse(length < 1e-12, name, "has no rotation: its quaternion is 0", noun)
    axes = np.empty((len(stored.p), 3, 3), np.float32)
    for part in blocks(len(axes)):
        turn = matrices(stored.q_wxyz[part].astype(np.float64) / length[part, None])
        axes[part] = turn * np.exp(stored.log_scale[part].astype(np.float64))[:, None, :]
    return SplatCloud(stored.p, axes, stored.opacity, stored.sh, stored.antialiased)


def float32(values: npt.ArrayLike) -> Float32:
    """Return values in single precision."""
    return np.asarray(values, np.float32)


def check_count(count: int, name: str) -> None:
    """Check the number of splats before any is allocated.

    Raises:
        AssetError: there are more than MAX_SPLATS.
    """
    if count > MAX_SPLATS:
        raise AssetError(
            f"{name}: {count:,} splats, more than {MAX_SPLATS:,} are not read. Thin or "
            "crop the scan"
        )


def refuse(broken: npt.NDArray[np.bool_], name: str, what: str, noun: str = "splat") -> None:
    """Name the first splat that a flag marks, and how many there are.

    Raises:
        AssetError: one is marked.
    """
    if broken.any():
        cure = "Export the scan again, or remove them with a splat editor"
        raise AssetError(
            f"{name}: {noun} {int(np.argmax(broken)):,} {what} ({int(broken.sum()):,} such). {cure}"
        )


def blocks(count: int) -> Iterator[slice]:
    """Yield slices that cover ``count`` splats, for work whose temporary arrays must stay small."""
    for start in range(0, count, _BLOCK):
        yield slice(start, min(start + _BLOCK, count))


def matrices(q_wxyz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the rotation matrices (n, 3, 3) of unit quaternions (n, 4)."""
    w, x, y, z = q_wxyz.T
    rows = (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    )
    return np.array(rows).transpose(2, 0, 1)


def three_smallest(
    largest: npt.NDArray[np.integer], others: npt.NDArray[np.float64], scalar_at: int
) -> Float32:
    """Return quaternions w, x, y, z of which the largest component, a positive one, was dropped.

    Args:
        largest: its place, (n,).
        others: the other components in their order, (n, 3).
        scalar_at: place of w in the order of the components, 0 or 3.
    """
    n = np.arange(len(others))[:, None]
    q = np.empty((len(others), 4))
    q[:, 3] = np.sqrt(np.maximum(1.0 - np.square(others).sum(axis=1), 0.0))
    q[:, :3] = others
    # Column of each component in q: the dropped one is the last there.
    column = np.arange(4)[None] - (np.arange(4)[None] > largest[:, None])
    column = np.where(np.arange(4)[None] == largest[:, None], 3, column)
    made = q[n, column]
    return float32(made if scalar_at == 0 else np.roll(made, 1, axis=1))
