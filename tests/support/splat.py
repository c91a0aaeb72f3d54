"""Gaussian splats written, and drawn by a second implementation.

Dense NumPy in double precision.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.support.embedded import rotation
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, FloatArray

SH_C0 = 0.28209479177387814
FIELDS = (
    "x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2", "opacity",
    "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3",
)  # fmt: skip


@dataclass(frozen=True)
class Splat:
    """One splat as a person would describe it: colour and opacity 0..1, half axes in metres."""

    p: Sequence[float]
    scale: Sequence[float] = (0.1, 0.1, 0.1)
    colour: Sequence[float] = (0.5, 0.5, 0.5)
    opacity: float = 0.9
    q_wxyz: Sequence[float] = (1.0, 0.0, 0.0, 0.0)
    rest: Sequence[float] = field(default=())

    def stored(self) -> dict[str, float]:
        """The values that a 3DGS file has for it."""
        dc = (np.asarray(self.colour) - 0.5) / SH_C0
        values = [
            *self.p,
            0.0,
            0.0,
            0.0,
            *dc,
            np.log(self.opacity / (1.0 - self.opacity)),
            *np.log(self.scale),
        ]
        named = dict(zip(FIELDS, [*values, *self.q_wxyz], strict=True))
        return named | {f"f_rest_{i}": value for i, value in enumerate(self.rest)}


def header(
    count: int, fields: Sequence[str], form: str = "binary_little_endian 1.0", kind: str = "float"
) -> bytes:
    lines = ["ply", f"format {form}", "comment made by a test", f"element vertex {count}"]
    return "\n".join(
        [*lines, *(f"property {kind} {name}" for name in fields), "end_header\n"]
    ).encode()


def ply(splats: Sequence[Splat], fields: Sequence[str] | None = None) -> bytes:
    """A file of splats, in the order of ``fields``."""
    names = (
        [*FIELDS, *(f"f_rest_{i}" for i in range(len(splats[0].rest)))]
        if fields is None
        else fields
    )
    rows = [struct.pack(f"<{len(names)}f", *map(s.stored().__getitem__, names)) for s in splats]
    return header(len(splats), names) + b"".join(rows)


def write(path: Path, splats: Sequence[Splat]) -> Path:
    path.write_bytes(ply(splats))
    return path


def turned(
    yaw_deg: float, pitch_deg: float = 0.0, roll_deg: float = 0.0
) -> tuple[float, float, float, float]:
    """w, x, y, z of the rotation that :func:`tests.support.embedded.rotation` writes out."""
    R = rotation(yaw_deg, pitch_deg, roll_deg)
    w = 0.5 * np.sqrt(1.0 + np.trace(R))
    return (
        w,
        (R[2, 1] - R[1, 2]) / (4 * w),
        (R[0, 2] - R[2, 0]) / (4 * w),
        (R[1, 0] - R[0, 1]) / (4 * w),
    )


def matrix_of(q_wxyz: Sequence[float]) -> FloatArray:
    """Rodrigues' formula, to be independent of any table of products."""
    q = np.asarray(q_wxyz, np.float64) / np.linalg.norm(q_wxyz)
    angle = 2.0 * np.arctan2(np.linalg.norm(q[1:]), q[0])
    axis = q[1:] / max(float(np.linalg.norm(q[1:])), 1e-12)
    k = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    made: FloatArray = np.eye(3) + np.sin(angle) * k + (1.0 - np.cos(angle)) * k @ k
    return made


def dense(
    splats: Sequence[Splat],
    camera: CameraModel,
    T_world_camera: Transform,
    T_world_splats: npt.NDArray[np.float64] | None = None,
    z_m: npt.NDArray[np.float32] | None = None,
    faintest: float = 0.0,
    bounded: bool = False,
) -> npt.NDArray[np.float64]:
    """The formula at every pixel of every splat: premultiplied colour and alpha, (h, w, 4).

    ``bounded`` takes J no farther aside than 1.3 times the picture's half, as the authors of 3DGS
    do.
    """
    m = np.eye(4) if T_world_splats is None else T_world_splats
    fx, fy, cx, cy = camera.intrinsics_px
    u, v = np.meshgrid(np.arange(camera.width_px), np.arange(camera.height_px))
    colour, through = np.zeros((*u.shape, 3)), np.ones(u.shape)
    seen = []
    for s in splats:
        x, y, z = T_world_camera.inverse().apply((m[:3, :3] @ np.asarray(s.p) + m[:3, 3])[None])[0]
        if z > 0.2:
            seen.append((z, x, y, s))
    for z, x, y, s in sorted(seen, key=lambda item: item[0]):
        xj, yj = x / z, y / z
        if bounded:
            w, h = camera.width_px, camera.height_px
            xj, yj = (np.clip(a, (0.5 * n * (1 - 1.3) - c) / f, (0.5 * n * (1 + 1.3) - c) / f)
                      for a, n, c, f in ((xj, w, cx, fx), (yj, h, cy, fy)))  # fmt: skip
        J = np.array([[fx / z, 0.0, -fx / z * xj], [0.0, fy / z, -fy / z * yj]])
        W = T_world_camera.rotation().T @ m[:3, :3]
        R = matrix_of(s.q_wxyz)
        sigma = R @ np.diag(np.square(s.scale)) @ R.T
        inverse = np.linalg.inv(J @ W @ sigma @ W.T @ J.T + 0.3 * np.eye(2))
        d = np.stack((u - (fx * x / z + cx), v - (fy * y / z + cy)), axis=-1)
        alpha = s.opacity * np.exp(-0.5 * np.einsum("hwi,ij,hwj->hw", d, inverse, d))
        alpha[alpha < faintest] = 0.0
        if z_m is not None:
            alpha[z > z_m] = 0.0
        colour += (alpha * through)[..., None] * np.clip(s.colour, 0.0, 1.0)
        through *= 1.0 - alpha
    return np.concatenate((colour, 1.0 - through[..., None]), axis=-1)
