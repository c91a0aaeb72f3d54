"""Late warp and augmented reality on the vehicle: copy this file next to client.py.

Numpy, and cv2 where there is one.

    imu = ImuRing()  # your IMU's thread calls imu.append(t_ns, w_radps, f_mps2)
    with Receiver("tcp://bridge:5560", imu=imu) as receiver:    # of client.py
        for frame in receiver:                       # shows the moment at which it is handed out
            vio.feed(frame.image, frame.t_ns, frame.K)

The bridge says where the vehicle was at the newest instant that it has measurements of. The
vehicle's own inertial samples measure how it moved since, and the picture is moved as a plane, or
by its depth picture, to the pose now. The same puts a layer that the bridge rendered (modality
``rgba``) over the picture of a real camera:

    warper = LateWarper(imu)
    layer = warper.warp(frame, receiver.camera_info, t_exposure_ns, to_camera=REAL_CAMERA)
    picture = composite(real_image, layer.image)

Poses and axes are those of client.py; samples are in the IMU's axes and the vehicle's monotonic
clock. A camera is described as the bridge describes its own: ``width``, ``height``, ``fx``, ``fy``,
``cx``, ``cy``, ``distortion`` (``{"model": "plumb_bob" | "radtan" | "equidistant", "coefficients":
[...]}`` or None) and ``T_body_camera`` (``{"p_m": [x, y, z], "ypr_deg": [yaw, pitch, roll]}``,
turned about z, y, x in this order, camera axes x forward).
"""

from __future__ import annotations

import functools
import importlib
import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    _Array = np.ndarray[Any, Any]

__all__ = ["ImuRing", "LateWarper", "Pose", "Warped", "composite"]

GRAVITY_WORLD_MPS2 = np.array([0.0, 0.0, -9.80665])
DEPTH_UNITS_PER_M = 655.35
DEFAULT_PLANE_DEPTH_M = 8.0
_JUMP_NS = 1_000_000_000  # a stamp further than this from the newest one begins a new history
_STALE_NS = (
    40_000_000  # a sample held for longer, or a gap wider than this, misleads more than it helps
)
# The newest samples go on as they did over this time, for as long; then they are held.
_TREND_NS = 10_000_000
_FORECAST_NS = 300_000_000  # no flight goes on like that for longer
_UNSEEN_NS = 500_000_000  # integrated for longer, samples drift by centimetres
_MAX_RATE_RADPS, _MAX_FORCE_MPS2 = 250.0, 8000.0  # more than sensors measure
_GRID_PX = 8
_ROUNDS = 3
_NEAREST_M = 0.05
_OUTSIDE_PX = -1e6
_NEAREST = ("semantic", "instance")
_LINEAR = ("rgb", "gray", "rgba")

try:
    _cv2: Any = importlib.import_module("cv2")
except ImportError:
    _cv2 = None


# --- rotations and motion: copies of the bridge's functions, tested to be equal -------------------


def q_mul(a: _Array, b: _Array) -> _Array:
    """Return the Hamilton product a b of quaternions x, y, z, w."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return np.array(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ]
    )


def q_conj(q: _Array) -> _Array:
    """Return the inverse of a unit quaternion."""
    return np.array([-q[0], -q[1], -q[2], q[3]])


def q_exp(rotvec_rad: _Array) -> _Array:
    """Return the quaternions of rotation vectors (..., 3)."""
    half = 0.5 * np.sqrt((rotvec_rad * rotvec_rad).sum(axis=-1, keepdims=True))
    return np.concatenate((rotvec_rad * (0.5 * np.sinc(half / np.pi)), np.cos(half)), axis=-1)


def q_to_matrix(q: _Array) -> _Array:
    """Return the rotation matrices of unit quaternions (..., 4), shape (..., 3, 3)."""
    x, y, z, w = np.moveaxis(q, -1, 0)
    entries = (
        *(x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)),
        *(2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)),
        *(2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w),
    )
    return np.stack(entries, axis=-1).reshape((*q.shape[:-1], 3, 3))


class Pose(NamedTuple):
    """A rigid transform T_a_b: ``p_m`` shape (3,), ``q_xyzw`` shape (4,)."""

    p_m: _Array
    q_xyzw: _Array

    def __matmul__(self, other: Pose) -> Pose:
        """Return T_a_c = T_a_b @ T_b_c."""
        return Pose(
            self.p_m + q_to_matrix(self.q_xyzw) @ other.p_m, q_mul(self.q_xyzw, other.q_xyzw)
        )

    def inverse(self) -> Pose:
        """Return T_b_a."""
        q = q_conj(self.q_xyzw)
        return Pose(-q_to_matrix(q) @ self.p_m, q)


T_FLU_OPTICAL = Pose(np.zeros(3), np.array([-0.5, 0.5, -0.5, 0.5]))


def placed(transform: dict[str, Any]) -> Pose:
    """Return the pose of ``{"p_m", "ypr_deg"}``. Raises ValueError, KeyError, TypeError."""
    yaw, pitch, roll = (math.radians(float(a)) for a in transform["ypr_deg"])
    q = q_mul(
        q_mul(q_exp(np.array([0, 0, yaw])), q_exp(np.array([0, pitch, 0]))),
        q_exp(np.array([roll, 0, 0])),
    )
    return Pose(np.array(transform["p_m"], dtype=float).reshape(3), q)


def preintegrate(
    t_ns: _Array, w_radps: _Array, f_mps2: _Array
) -> tuple[_Array, _Array, _Array, float]:
    """Return inertial increments over samples.

    dR as a quaternion, beta (m/s), alpha (m), duration (s).

    All in the axes at the first sample. Each step takes the mean of its ends, held constant, for
    which the integrals have closed forms (Gamma functions of Bloesch et al., 2012).

    Args:
        t_ns: shape (n,), increasing.
        w_radps: shape (n, 3), without bias.
        f_mps2: shape (n, 3).
    """
    dt_s = np.diff(t_ns)[:, None] * 1e-9
    angle = 0.5 * (w_radps[:-1] + w_radps[1:]) * dt_s
    f = 0.5 * (f_mps2[:-1] + f_mps2[1:])
    c1, c2, c3 = _gammas((angle * angle).sum(axis=1, keepdims=True))
    sf = np.cross(angle, f)
    ssf = np.cross(angle, sf)
    q = _running_product(q_exp(angle))
    R = q_to_matrix(q[:-1])
    steps_mps = (R @ ((f + c1 * sf + c2 * ssf) * dt_s)[..., None])[..., 0]
    steps_m = (R @ ((0.5 * f + c2 * sf + c3 * ssf) * dt_s**2)[..., None])[..., 0]
    beta = np.cumsum(steps_mps, axis=0)
    alpha = ((beta - steps_mps) * dt_s + steps_m).sum(axis=0)
    return q[-1], beta[-1], alpha, float(t_ns[-1] - t_ns[0]) * 1e-9


def _running_product(dq: _Array) -> _Array:
    """Return identity, dq0, dq0 dq1...: (n + 1, 4).

    Scalar arithmetic, since each needs the one before.
    """
    x = 0.0
    y = 0.0
    z = 0.0
    w = 1.0
    rows = [(x, y, z, w)]
    for a, b, c, d in dq.tolist():
        x, y, z, w = (
            w * a + x * d + y * c - z * b,
            w * b - x * c + y * d + z * a,
            w * c + x * b - y * a + z * d,
            w * d - x * a - y * b - z * c,
        )
        rows.append((x, y, z, w))
    return np.array(rows)


def _gammas(angle2: _Array) -> tuple[_Array, _Array, _Array]:
    """Return (1 - cos a)/a^2, (a - sin a)/a^3, (a^2/2 + cos a - 1)/a^4 of a^2.

    Series where these cancel.
    """
    small = np.minimum(angle2, 1e-2)
    near = []
    for first in (2, 3, 4):
        terms = [(-small) ** k / math.factorial(2 * k + first) for k in range(5)]
        near.append(sum(terms))
    large = np.maximum(angle2, 1e-2)
    a = np.sqrt(large)
    far = (
        (1 - np.cos(a)) / large,
        (a - np.sin(a)) / (a * large),
        (large / 2 + np.cos(a) - 1) / large**2,
    )
    c1, c2, c3 = (np.where(angle2 < 1e-2, near[i], far[i]) for i in range(3))
    return c1, c2, c3


# --- cameras --------------------------------------------------------------------------------------


def rotation_translation(T_world_render: Pose, T_world_now: Pose) -> tuple[_Array, _Array]:
    """Return R_rn, from now-camera to render-camera coordinates, and the displacement in the
    render camera's axes.
    """
    R_world_render = q_to_matrix(T_world_render.q_xyzw)
    R_rn = q_to_matrix(q_mul(q_conj(T_world_render.q_xyzw), T_world_now.q_xyzw))
    return R_rn, R_world_render.T @ (T_world_now.p_m - T_world_render.p_m)


class Plane(NamedTuple):
    """normal . X = d in a camera's axes; by default straight ahead.

    An infinite distance is allowed.
    """

    d_m: float
    normal: _Array = np.array([0.0, 0.0, 1.0])

    def seen_from(self, T_here_there: Pose) -> Plane:
        """Return the same plane in another camera's axes."""
        R_there_here = q_to_matrix(T_here_there.q_xyzw).T
        return Plane(self.d_m - float(self.normal @ T_here_there.p_m), R_there_here @ self.normal)


def homography(
    K: _Array, R_rn: _Array, dp_render_m: _Array, plane: Plane, K_now: _Array | None = None
) -> _Array:
    """Return H = K_now (R_rn^T + t m^T / d) K^-1, t = -R_rn^T dp.

    Render to now pixels, exact on the plane.

    FlightGoggles paper, section "Augmented Reality". Infinitely far away the rotation alone is
    left.
    """
    t_now_m = -R_rn.T @ dp_render_m
    ideal = R_rn.T + np.outer(t_now_m, plane.normal / plane.d_m)
    if K_now is None:
        K_now = K
    H: _Array = K_now @ ideal @ np.linalg.inv(K)
    return H


def _blacken_behind(image: _Array, H: _Array) -> None:
    """Set to 0, in place, the pixels that look behind the rendered camera.

    H also maps what lies there.
    """
    a, b, c = np.linalg.inv(H)[2]
    across = a * np.arange(image.shape[1])
    down = b * np.arange(image.shape[0])[:, None] + c
    if across.min() + down.min() <= 0.0:
        image[across + down <= 0.0] = 0


def distort(model: str, coefficients: tuple[float, ...], xy: _Array) -> _Array:
    """Return the distorted coordinates (n, 2) of ideal ones; the models are OpenCV's.

    Raises ValueError.
    """
    x = xy[:, 0]
    y = xy[:, 1]
    r2 = x * x + y * y
    if model in ("plumb_bob", "radtan"):
        k1, k2, p1, p2, k3 = (*coefficients, 0.0)[:5]
        radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
        moved = (2 * p1 * x * y + p2 * (r2 + 2 * x * x), p1 * (r2 + 2 * y * y) + 2 * p2 * x * y)
        return np.stack((x * radial + moved[0], y * radial + moved[1]), axis=1)
    if model != "equidistant":
        raise ValueError(f"unknown lens model {model!r}")
    k1, k2, k3, k4 = coefficients
    r = np.maximum(np.sqrt(r2), 1e-9)
    theta = np.arctan(r)
    t2 = theta * theta
    bent: _Array = xy * (theta * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4)))) / r)[:, None]
    return bent


def undistort(model: str, coefficients: tuple[float, ...], xy: _Array) -> _Array:
    """Return the ideal coordinates (n, 2) of distorted ones, by Newton's method.

    NaN outside the lens model.
    """
    ideal = xy.copy()
    with np.errstate(all="ignore"):
        for _ in range(20):
            ex, ey = (distort(model, coefficients, ideal) - xy).T
            (a, c), (b, d) = _slopes(model, coefficients, ideal)
            ideal -= np.stack((d * ex - b * ey, a * ey - c * ex), axis=1) / (a * d - b * c)[:, None]
        (a, c), (b, d) = _slopes(model, coefficients, ideal)
        exact = np.abs(distort(model, coefficients, ideal) - xy).max(axis=1) < 1e-6
    ideal[~(exact & (a * d > b * c) & (a + d > 0))] = np.nan
    return ideal


def _slopes(model: str, coefficients: tuple[float, ...], xy: _Array) -> tuple[_Array, _Array]:
    """Return the derivatives of the distorted point by x and by y: (2, n) each."""
    h = 1e-6
    along_x, along_y = (
        distort(model, coefficients, xy + step) - distort(model, coefficients, xy - step)
        for step in ((h, 0), (0, h))
    )
    return along_x.T / (2 * h), along_y.T / (2 * h)


class _Camera(NamedTuple):
    """Intrinsics fx, fy, cx, cy; size; lens model and coefficients, or None.

    Mounting of the optical axes.
    """

    intrinsics_px: tuple[float, ...]
    size_px: tuple[int, int]
    lens: tuple[str, tuple[float, ...]] | None
    T_body_optical: Pose

    @classmethod
    def of(cls, info: dict[str, Any]) -> _Camera:
        distortion = info.get("distortion")
        lens = distortion and (
            str(distortion["model"]),
            tuple(float(c) for c in distortion["coefficients"]),
        )
        intrinsics = tuple(float(info[key]) for key in ("fx", "fy", "cx", "cy"))
        size = int(info["width"]), int(info["height"])
        return cls(intrinsics, size, lens, placed(info["T_body_camera"]) @ T_FLU_OPTICAL)

    @property
    def K(self) -> _Array:  # noqa: N802 - the field's name for the intrinsic matrix
        fx, fy, cx, cy = self.intrinsics_px
        return np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1.0]])

    def pixels(self, xy: _Array) -> _Array:
        """Return the pixels (n, 2) of ideal normalised coordinates."""
        fx, fy, cx, cy = self.intrinsics_px
        if self.lens:
            xy = distort(*self.lens, xy)
        return xy * (fx, fy) + (cx, cy)


@functools.lru_cache(maxsize=8)
def _grid_rays(
    intrinsics_px: tuple[float, ...],
    size_px: tuple[int, int],
    lens: tuple[str, tuple[float, ...]] | None,
) -> _Array:
    """Return rays (rows, columns, 3) at every eighth pixel, one cell beyond the picture on each
    side.
    """
    fx, fy, cx, cy = intrinsics_px
    columns, rows = (np.arange(-1, -(-side // _GRID_PX) + 1) + 0.5 for side in size_px)
    u, v = np.meshgrid(columns * _GRID_PX - 0.5, rows * _GRID_PX - 0.5)
    xy = np.stack(((u - cx) / fx, (v - cy) / fy), axis=-1)
    if lens:
        xy = undistort(*lens, xy.reshape(-1, 2)).reshape(xy.shape)
    return np.concatenate((xy, np.ones((*u.shape, 1))), axis=-1)


def grid_map(
    source: _Camera, target: _Camera, R_rn: _Array, dp_render_m: _Array, scene: Plane | _Array
) -> _Array:
    """Return the source pixels (rows, columns, 2) that the nodes of the target's grid show.

    On a plane in the source camera's axes, or by three rounds of fixed point on the depth picture
    of the source.
    """
    rays = _grid_rays(target.intrinsics_px, target.size_px, target.lens)
    ahead = (rays @ R_rn.T).reshape(-1, 3)
    ahead[~(ahead[:, 2] > 1e-3)] = np.nan
    if isinstance(scene, Plane):
        inverse_depth = scene.normal / scene.d_m
        X = (
            ahead
            + dp_render_m * (ahead @ inverse_depth / (1.0 - inverse_depth @ dp_render_m))[:, None]
        )
    else:
        last = np.array(scene.shape[::-1]) - 1
        X = ahead
        for _ in range(_ROUNDS):
            xy1 = X / X[:, 2:]
            at = np.clip(np.nan_to_num(np.rint(source.pixels(xy1[:, :2]))), 0, last).astype(int)
            z = scene[at[:, 1], at[:, 0]] / DEPTH_UNITS_PER_M
            z_now = np.maximum((xy1 * z[:, None] - dp_render_m) @ R_rn[:, 2], _NEAREST_M)
            X = ahead * z_now[:, None] + dp_render_m
    found = source.pixels(X[:, :2] / X[:, 2:])
    found[~(np.abs(found).max(axis=1) < -_OUTSIDE_PX) | ~(X[:, 2] > 0)] = _OUTSIDE_PX
    return found.reshape((*rays.shape[:2], 2))


def _enlarged(grid: _Array, size_px: tuple[int, int]) -> tuple[_Array, _Array]:
    """Return both coordinates at every pixel, float32 (h, w) each."""
    rows, columns = grid.shape[:2]
    small = grid.astype(np.float32)
    if _cv2 is not None:
        inner = slice(_GRID_PX, _GRID_PX + size_px[1]), slice(_GRID_PX, _GRID_PX + size_px[0])
        full = _cv2.resize(
            small, (columns * _GRID_PX, rows * _GRID_PX), interpolation=_cv2.INTER_LINEAR
        )[inner]
        return full[:, :, 0], full[:, :, 1]
    down = _weights(size_px[1], rows)
    across = _weights(size_px[0], columns).T
    return down @ small[:, :, 0] @ across, down @ small[:, :, 1] @ across


@functools.lru_cache(maxsize=8)
def _weights(side_px: int, count: int) -> _Array:
    """Return weights that interpolate grid nodes at pixels: shape (side_px, count)."""
    at = (np.arange(side_px) + 0.5) / _GRID_PX + 0.5
    weights: _Array = np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(count))).astype(
        np.float32
    )
    return weights


def _sampled(image: _Array, x: _Array, y: _Array, nearest: bool) -> _Array:
    """Return the picture at float32 coordinates (h, w), 0 outside."""
    if _cv2 is not None:
        method = _cv2.INTER_NEAREST if nearest else _cv2.INTER_LINEAR
        sampled: _Array = _cv2.remap(np.ascontiguousarray(image), x, y, method)
        return sampled
    height, width = image.shape[:2]
    framed = np.zeros((height + 2, width + 2, *image.shape[2:]), image.dtype)
    framed[1:-1, 1:-1] = image
    x = np.clip(x + 1, 0, width + 1)
    y = np.clip(y + 1, 0, height + 1)
    if nearest:
        picked: _Array = framed[np.rint(y).astype(int), np.rint(x).astype(int)]
        return picked
    column = np.minimum(x.astype(int), width)
    row = np.minimum(y.astype(int), height)
    fx, fy = (np.reshape(f, f.shape + (1,) * (image.ndim - 2)) for f in (x - column, y - row))
    upper = framed[row, column] * (1 - fx) + framed[row, column + 1] * fx
    lower = framed[row + 1, column] * (1 - fx) + framed[row + 1, column + 1] * fx
    mixed: _Array = (upper * (1 - fy) + lower * fy + 0.5).astype(image.dtype)
    return mixed


def _inside(grid: _Array, size_px: tuple[int, int]) -> _Array:
    """Return which coordinates (..., 2) lie inside a picture."""
    inside: _Array = np.all((grid > -0.5) & (grid < np.array(size_px) - 0.5), axis=-1)
    return inside


# --- what users call ------------------------------------------------------------------------------


class ImuRing:
    """The vehicle's newest inertial samples: one thread appends, any thread reads.

    Attributes:
        counters: samples ``rejected`` (no sensor measures such values) and ``out_of_order``, and
            ``resets`` (stamps jumped by more than a second, and the samples before were forgotten).
    """

    def __init__(self, capacity: int = 2048) -> None:
        """Make an empty ring; ``capacity`` is in samples, two seconds of them are plenty."""
        self.counters = {"rejected": 0, "out_of_order": 0, "resets": 0}
        self._t_ns = np.zeros(capacity, dtype=np.int64)
        self._wf = np.zeros((capacity, 6))
        self._next = self._held = 0
        self._lock = threading.Lock()

    def append(self, t_ns: int, w_radps: Any, f_mps2: Any) -> bool:
        """Store a sample; False when it was dropped.

        Args:
            t_ns: the vehicle's monotonic clock.
            w_radps: angular rate, three numbers, the IMU's axes.
            f_mps2: specific force (what an accelerometer measures: +g upwards at rest), likewise.
        """
        sample = np.array([*w_radps, *f_mps2], dtype=float)
        limits = np.repeat((_MAX_RATE_RADPS, _MAX_FORCE_MPS2), 3)
        if sample.shape != (6,) or not np.all(np.abs(sample) <= limits):
            self.counters["rejected"] += 1
            return False
        with self._lock:
            since_ns = t_ns - int(self._t_ns[self._next - 1])
            if self._held and abs(since_ns) > _JUMP_NS:
                self._held = 0
                self.counters["resets"] += 1
            elif self._held and since_ns <= 0:
                self.counters["out_of_order"] += 1
                return False
            self._t_ns[self._next] = t_ns
            self._wf[self._next] = sample
            self._next = (self._next + 1) % len(self._t_ns)
            self._held = min(self._held + 1, len(self._t_ns))
        return True

    def between(self, t0_ns: int, t1_ns: int) -> tuple[_Array, _Array, _Array, int]:
        """Return stamps (n,), rates and forces (n, 3) over [t0, t1], and how far that is beyond the
        newest sample.

        Interpolated at the ends; beyond the newest one the trend of the last 10 ms goes on for 10
        ms, then it is held; samples of less than 5 ms have no trend. Raises LookupError, saying
        why, where the samples do not cover it.
        """
        with self._lock:
            order = np.arange(self._next - self._held, self._next) % len(self._t_ns)
            t_ns = self._t_ns[order]
            wf = self._wf[order]
        if not len(t_ns) or t0_ns < t_ns[0]:
            raise LookupError("inertial samples do not reach back to the picture")
        held_ns = max(0, t1_ns - int(t_ns[-1]))
        if held_ns > _STALE_NS:
            raise LookupError(f"inertial samples are {held_ns * 1e-6:.0f} ms old")
        first = np.searchsorted(t_ns, t0_ns, "right")
        last = np.searchsorted(t_ns, t1_ns, "left")
        gap_ns = int(np.diff(t_ns[first - 1 : last + 1]).max(initial=0))
        if gap_ns > _STALE_NS:
            raise LookupError(f"inertial samples have a gap of {gap_ns * 1e-6:.0f} ms")
        newest_ns = int(t_ns[-1])
        held = [newest_ns + _TREND_NS] if t0_ns < newest_ns + _TREND_NS < t1_ns else []
        cut_ns = np.concatenate(([t0_ns], t_ns[first:last], held, [t1_ns])).astype(np.int64)
        since_ns = (t_ns - t0_ns).astype(float)
        cut = np.stack([np.interp(cut_ns - t0_ns, since_ns, column) for column in wf.T], axis=1)
        recent = t_ns >= newest_ns - _TREND_NS
        if t_ns[-1] - t_ns[recent][0] >= _TREND_NS // 2:  # else the slope is that of the noise
            tau_s = (t_ns[recent] - newest_ns) * 1e-9
            tau_s = tau_s - tau_s.mean()
            trend = tau_s @ wf[recent] / (tau_s @ tau_s)
            cut += np.clip(cut_ns - newest_ns, 0, _TREND_NS)[:, None] * 1e-9 * trend
        return cut_ns, cut[:, :3], cut[:, 3:], held_ns


@dataclass(frozen=True)
class Warped:
    """A picture moved to another instant, and perhaps into another camera.

    Attributes:
        image: as the frame's; 0 where the rendered picture shows nothing.
        t_ns: instant it shows now, the vehicle's clock.
        K: intrinsic matrix of ``image``.
        pose_display: T_world_camera at that instant; None where the frame does not know its own.
        v_world_mps, w_body_radps: the carrier's twist at that instant, as ``frame.motion`` has it;
            None where it has none.
        method: ``homography``, ``reproject`` (with depth) or ``none``.
        motion: how the camera's motion was found: ``inertial``, ``constant-rate`` or ``none``.
        problem: why not inertially; empty where it was.
        d_m: distance of the plane, None without one.
        imu_age_ns: how far it lies beyond the newest sample, 0 where samples reach ``t_ns``; None
            where none was used.
        valid_fraction: part of the picture that the rendered one covers.
        frame: the frame it was made of.
        grid: pixels of ``frame.image`` (rows, columns, 2) shown at every eighth pixel, one cell
            beyond each side; None where it was left unchanged.
    """

    image: _Array
    t_ns: int
    K: _Array
    pose_display: Pose | None
    v_world_mps: _Array | None
    w_body_radps: _Array | None
    method: str
    motion: str
    problem: str
    d_m: float | None
    imu_age_ns: int | None
    valid_fraction: float
    frame: Any
    grid: _Array | None = None

    @property
    def valid(self) -> _Array:
        """Pixels that the rendered picture covers, bool (h, w)."""
        height, width = self.image.shape[:2]
        if self.grid is None:
            return np.full((height, width), self.valid_fraction > 0.0)
        return _inside(
            np.stack(_enlarged(self.grid, (width, height)), axis=-1), self.frame.image.shape[1::-1]
        )


class _Body(NamedTuple):
    """The carrier at one instant, the vehicle's clock.

    Pose, velocity (world axes) and angular rate (body axes).
    """

    t_ns: int
    T_world_body: Pose
    v_world_mps: _Array | None
    w_body_radps: _Array | None


class _Moved(NamedTuple):
    """The carrier at the instant asked for, or at the frame's own, and the method that found it."""

    body: _Body
    motion: str
    problem: str
    imu_age_ns: int | None


def _nearest(frame: Any) -> bool:
    """Return True when its pixels are labels, which are never mixed.

    Raises ValueError for what cannot be moved.
    """
    modality = frame.metadata.get("modality", "rgb")
    if modality not in (*_LINEAR, *_NEAREST):
        raise ValueError(f"{modality} pictures cannot be moved")
    return modality in _NEAREST


class LateWarper:
    """Moves pictures to any instant that the inertial samples reach."""

    def __init__(
        self,
        imu: ImuRing,
        *,
        d_m: float | None = None,
        T_body_imu: dict[str, Any] | None = None,
        gyro_bias_radps: Any = None,
        imu_late_ns: int | None = None,
    ) -> None:
        """Make a warper.

        Args:
            imu: the vehicle's samples.
            d_m: distance of the plane; None takes what the bridge took, 8 m where it took none;
                infinite moves by the rotation alone.
            T_body_imu: where the IMU sits, as ``T_body_camera``; None takes what the bridge was
                configured with.
            gyro_bias_radps: to subtract from the rates, the IMU's axes; None takes the bridge's
                estimate.
            imu_late_ns: how much later the samples' stamps are than mocap's; None takes the
                bridge's estimate, which is right where the bridge gets the same samples with the
                same stamps.
        """
        self._imu = imu
        self._d_m = d_m
        self._T_body_imu = T_body_imu
        self._gyro_bias_radps = gyro_bias_radps
        self._imu_late_ns = imu_late_ns

    def warp(
        self,
        frame: Any,
        camera_info: dict[str, Any],
        t_ns: int,
        *,
        depth: Any = None,
        to_camera: dict[str, Any] | None = None,
        constant_rate: bool = True,
    ) -> Warped:
        """Move a picture to an instant.

        Falls back to constant rate, then to leaving it, and says so.

        A picture of another size than its camera's stays unchanged; another camera sees nothing of
        it.

        Args:
            frame: of client.py: rgb, gray, rgba, semantic or instance.
            camera_info: the receiver's.
            t_ns: instant to show, the vehicle's clock.
            depth: frame of the depth picture with the same ``frame_id`` and variant.
            to_camera: another camera on the same body to show it through; None = the same camera.
            constant_rate: False leaves the picture unchanged where the samples do not suffice.

        Raises:
            ValueError: a kind of picture that cannot be moved, or depth of another picture.
        """
        _nearest(frame)  # raises for a kind that cannot be moved
        if depth is not None and (depth.frame_id, depth.t_bridge_ns) != (
            frame.frame_id,
            frame.t_bridge_ns,
        ):
            raise ValueError(f"depth is of frame {depth.frame_id}, the picture of {frame.frame_id}")
        mount = frame.metadata.get("T_body_camera")  # sent since the camera was moved in flight
        described = camera_info
        if mount is not None:
            described = dict(camera_info, T_body_camera=mount)
        source = _Camera.of(described)
        target = source
        if to_camera is not None:
            target = _Camera.of(to_camera)
        problem = ""
        if source.size_px != frame.image.shape[1::-1]:  # also what bounds the described size
            problem = "the camera is described with {} x {} pixels, not {} x {}".format(
                *source.size_px, *frame.image.shape[1::-1]
            )
            if to_camera is None:
                known = (None, None, "none", "none", problem, None, None)
                return Warped(
                    frame.image, frame.t_ns, frame.K, frame.pose_display, *known, 1.0, frame
                )
        if problem or frame.pose_display is None:  # whose carrier is lost
            black = np.zeros((*target.size_px[::-1], *frame.image.shape[2:]), frame.image.dtype)
            unknown = (None, None, None, "none", "none", problem or "no pose", None, None)
            return Warped(black, frame.t_ns, target.K, *unknown, 0.0, frame)
        T_world_shown = Pose(frame.pose_display.p_m, frame.pose_display.q_xyzw)
        T_world_body = T_world_shown @ source.T_body_optical.inverse()
        moved = self._moved(frame, T_world_body, camera_info.get("T_body_imu"), t_ns, constant_rate)
        return self._shown(
            frame, T_world_shown, (source, target), moved, depth, still=to_camera is None
        )

    def _shown(
        self,
        frame: Any,
        T_world_shown: Pose,
        cameras: tuple[_Camera, _Camera],
        moved: _Moved,
        depth: Any,
        still: bool,
    ) -> Warped:
        """Show the picture of ``cameras[0]`` through ``cameras[1]``.

        ``still`` leaves it unchanged without motion.
        """
        source, target = cameras
        body = moved.body
        T_world_now = body.T_world_body @ target.T_body_optical
        known: dict[str, Any] = {
            "t_ns": body.t_ns,
            "K": target.K,
            "pose_display": T_world_now,
            "frame": frame,
        }
        known.update(v_world_mps=body.v_world_mps, w_body_radps=body.w_body_radps)
        known.update(motion=moved.motion, problem=moved.problem, imu_age_ns=moved.imu_age_ns)
        if still and moved.motion == "none":
            return Warped(frame.image, method="none", d_m=None, valid_fraction=1.0, **known)
        R_rn, dp_m = rotation_translation(T_world_shown, T_world_now)
        scene = self._plane(frame, T_world_shown) if depth is None else depth.image
        grid = grid_map(source, target, R_rn, dp_m, scene)
        covered = float(_inside(grid[1:-1, 1:-1], source.size_px).mean())
        known.update(grid=grid, valid_fraction=covered)
        if (
            _cv2 is None
            or not isinstance(scene, Plane)
            or source.lens
            or target.lens
            or not covered
        ):
            image = _sampled(frame.image, *_enlarged(grid, target.size_px), _nearest(frame))
        else:
            flags = _cv2.INTER_NEAREST if _nearest(frame) else _cv2.INTER_LINEAR
            H = homography(source.K, R_rn, dp_m, scene, target.K)
            image = _cv2.warpPerspective(
                np.ascontiguousarray(frame.image), H, target.size_px, flags=flags
            )
            _blacken_behind(image, H)
        if isinstance(scene, Plane):
            return Warped(image, method="homography", d_m=scene.d_m, **known)
        return Warped(image, method="reproject", d_m=None, **known)

    def _plane(self, frame: Any, T_world_display: Pose) -> Plane:
        """Return the plane for the scene, in the axes of the camera of the picture."""
        d_m = frame.compensation.get("d_m")
        normal = frame.compensation.get("normal")
        if self._d_m or not d_m or normal is None:
            return Plane(self._d_m or d_m or DEFAULT_PLANE_DEPTH_M)
        T_world_rendered = Pose(frame.pose_rendered.p_m, frame.pose_rendered.q_xyzw)
        return Plane(d_m, np.array(normal, dtype=float)).seen_from(
            T_world_rendered.inverse() @ T_world_display
        )

    def _moved(
        self,
        frame: Any,
        T_world_body: Pose,
        mounting: dict[str, Any] | None,
        t_ns: int,
        constant_rate: bool,
    ) -> _Moved:
        """Move the body to ``t_ns``, as far as its motion is known.

        ``T_world_body`` is that of the frame's instant.
        """
        if frame.motion is None:
            still = _Body(frame.t_ns, T_world_body, None, None)
            return _Moved(still, "none", "the bridge sends no motion of the carrier", None)
        v_world_mps = frame.motion.v_world_mps
        w_body_radps = frame.motion.w_body_radps
        shown = _Body(frame.t_ns, T_world_body, v_world_mps, w_body_radps)
        try:
            return self._inertial(frame.motion, shown, self._T_body_imu or mounting, t_ns)
        except LookupError as exc:
            problem = str(exc)
        ahead_ns = t_ns - frame.t_ns
        if not constant_rate:
            return _Moved(shown, "none", problem, None)
        if abs(ahead_ns) > _FORECAST_NS:
            return _Moved(
                shown, "none", f"{problem}; too far to extrapolate: {ahead_ns * 1e-6:.0f} ms", None
            )
        p_now_m = T_world_body.p_m + v_world_mps * ahead_ns * 1e-9
        q_now = q_mul(T_world_body.q_xyzw, q_exp(w_body_radps * ahead_ns * 1e-9))
        return _Moved(
            _Body(t_ns, Pose(p_now_m, q_now), v_world_mps, w_body_radps),
            "constant-rate",
            problem,
            None,
        )

    def _inertial(
        self, motion: Any, shown: _Body, mounting: dict[str, Any] | None, t_ns: int
    ) -> _Moved:
        """Move the body by the samples in between, forwards or backwards. Raises LookupError.

        From the newest instant that the bridge measured: what it foretold from there to the instant
        shown is left out, since the samples know better. A sample's stamp is ``imu_late_ns`` later
        than mocap's of its instant.
        """
        if not mounting:
            raise LookupError("T_body_imu is not known")
        T_body_imu = placed(mounting)
        begun: Any = shown if motion.measured is None else motion.measured
        if abs(t_ns - begun.t_ns) > _UNSEEN_NS:
            raise LookupError(
                f"the bridge measured the vehicle {(t_ns - begun.t_ns) * 1e-6:.0f} ms before"
            )
        late_ns = self._imu_late_ns
        if late_ns is None:
            late_ns = motion.imu_late_ns or 0
        t, w, f, held_ns = self._imu.between(
            min(begun.t_ns, t_ns) + late_ns, max(begun.t_ns, t_ns) + late_ns
        )
        bias = self._gyro_bias_radps
        if bias is None:
            bias = motion.gyro_bias_radps
        if bias is not None:
            w = w - np.array(bias, dtype=float)
        if motion.gyro_scale is not None:
            w = w * (1.0 + motion.gyro_scale)
        if motion.accel_bias_mps2 is not None:
            f = f - motion.accel_bias_mps2
        T_world_body = Pose(begun.T_world_body.p_m, begun.T_world_body.q_xyzw)
        lever_mps = q_to_matrix(T_world_body.q_xyzw) @ np.cross(begun.w_body_radps, T_body_imu.p_m)
        carried, last = (forwards, w[-1]) if t_ns >= begun.t_ns else (backwards, w[0])
        T_world_imu, v_imu_mps = carried(
            T_world_body @ T_body_imu, begun.v_world_mps + lever_mps, preintegrate(t, w, f)
        )
        T_world_now = T_world_imu @ T_body_imu.inverse()
        w_now_radps = q_to_matrix(T_body_imu.q_xyzw) @ last
        v_now_mps = v_imu_mps - q_to_matrix(T_world_now.q_xyzw) @ np.cross(
            w_now_radps, T_body_imu.p_m
        )
        return _Moved(_Body(t_ns, T_world_now, v_now_mps, w_now_radps), "inertial", "", held_ns)


def forwards(
    T_world_imu: Pose, v_world_mps: _Array, increments: tuple[_Array, _Array, _Array, float]
) -> tuple[Pose, _Array]:
    """Return the IMU's pose and velocity after the increments' interval, from those before."""
    dR, beta, alpha, dt = increments
    R = q_to_matrix(T_world_imu.q_xyzw)
    p = T_world_imu.p_m + v_world_mps * dt + 0.5 * GRAVITY_WORLD_MPS2 * dt**2 + R @ alpha
    return Pose(p, q_mul(T_world_imu.q_xyzw, dR)), v_world_mps + GRAVITY_WORLD_MPS2 * dt + R @ beta


def backwards(
    T_world_imu: Pose, v_world_mps: _Array, increments: tuple[_Array, _Array, _Array, float]
) -> tuple[Pose, _Array]:
    """Return the IMU's pose and velocity before the increments' interval, from those after."""
    dR, beta, alpha, dt = increments
    q = q_mul(T_world_imu.q_xyzw, q_conj(dR))
    R = q_to_matrix(q)
    v_before = v_world_mps - GRAVITY_WORLD_MPS2 * dt - R @ beta
    return Pose(
        T_world_imu.p_m - v_before * dt - 0.5 * GRAVITY_WORLD_MPS2 * dt**2 - R @ alpha, q
    ), v_before


def composite(real_image: _Array, layer: _Array) -> _Array:
    """Lay a premultiplied RGBA picture (h, w, 4) uint8 over a real one, (h, w) gray or (h, w, 3)
    RGB uint8.

    Raises ValueError when the sizes differ.
    """
    if layer.shape != (*real_image.shape[:2], 4):
        raise ValueError(f"the layer is {layer.shape}, the picture {real_image.shape}")
    light = layer[:, :, :3].astype(np.uint16)
    shown = 255 - layer[:, :, 3:].astype(np.uint16)
    if real_image.ndim == 2:
        light = (light @ np.array([77, 150, 29], dtype=np.uint16) + np.uint16(128)) >> np.uint16(8)
        shown = shown[:, :, 0]
    mixed: _Array = np.minimum((real_image * shown + 127) // 255 + light, 255).astype(np.uint8)
    return mixed
