"""Error-state Kalman filter of a vehicle and of the gates around it, from inertial samples, ranges
and openings.

Errors are, in this order: attitude (rad, a turn in body axes), velocity and position (world),
biases of gyroscope and accelerometer, and four shifts of each gate. Errors are true minus
estimated; a turn is applied on the right. Source: Sola, "Quaternion kinematics for the error-state
Kalman filter" (2017), with the map in the state as in Dissanayake et al., "A solution to the
simultaneous localization and map building problem" (2001).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.geometry import Transform, cross, q_exp, q_mul, q_normalize, q_to_matrix
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import CameraModel, FloatArray
from vil_bridge.world.inertial.covariance import ImuNoise, increments_jacobians, skew
from vil_bridge.world.inertial.preintegration import NavState, integrate, preintegrate, propagate
from vil_simulation.race.vision.gate_map import SHIFTS, GateMap

_ATTITUDE: Final = slice(0, 3)
_VELOCITY: Final = slice(3, 6)
_POSITION: Final = slice(6, 9)
_GYRO_BIAS: Final = slice(9, 12)
_ACCEL_BIAS: Final = slice(12, 15)
BODY: Final = 15
_FIRST_STDS: Final = np.repeat((2e-3, 0.01, 0.01, 4e-3, 0.06), 3)
_WALKS: Final = np.repeat((0.0, 4e-4, 1e-3), (9, 3, 3))
_ALIKE: Final = 4.0
"""Pictures that follow one another share most of their errors, so each counts less than its
noise says.
"""
_LEAST_SEEN: Final = 4
_NEAREST_M: Final = 0.1
_ROUNDS: Final = 3
_UP: Final = np.array([0.0, 0.0, 1.0])


class SideView(NamedTuple):
    """Sides of an opening that are predicted.

    A line of the picture for each, ``line @ (u, v, 1)`` = distance in px.

    Attributes:
        lines: top, right, bottom, left, (4, 3); NaN = behind the camera.
        corners_px: top left, top right, bottom right, bottom left, (4, 2).
    """

    lines: FloatArray
    corners_px: FloatArray


class GateFilter:
    """Filter of one vehicle.

    Args:
        gates: nominal gates.
        start: pose of the vehicle, at rest.
        start_std_m: of its position, (3,).
        camera: free of distortion.
        T_body_camera: its optical axes in the body.

    Attributes:
        shifts: estimated, of the gates, (g, 4).
        P: covariance of the errors.
    """

    def __init__(
        self,
        gates: GateMap,
        start: Transform,
        start_std_m: FloatArray,
        camera: CameraModel,
        T_body_camera: Transform,
    ) -> None:
        self.gates: Final = gates
        self.shifts: FloatArray = np.zeros((len(gates.centres_m), SHIFTS))
        self.P: FloatArray = np.diag(np.concatenate((_FIRST_STDS, gates.stds.ravel())) ** 2)
        self.P[_POSITION, _POSITION] += np.diag(start_std_m**2)
        self._camera: Final = camera
        self._T_body_camera: Final = T_body_camera
        self._noise: Final = ImuNoise(gyro_density=2e-3, accel_density=1e-2)
        self._nav = NavState(0, start, np.zeros(3))
        self._gyro_bias = np.zeros(3)
        self._accel_bias = np.zeros(3)
        self._samples: list[tuple[int, FloatArray, FloatArray]] = []

    # --- time -----------------------------------------------------------------------------------

    def add_imu(self, t_ns: int, w_radps: FloatArray, f_mps2: FloatArray) -> None:
        """Take a sample, body axes."""
        self._samples.append((t_ns, w_radps, f_mps2))

    def state(self) -> FloatArray:
        """Return position, velocity, attitude and body rates at the newest sample, (13,)."""
        nav = self._nav
        w = self._samples[-1][1] - self._gyro_bias
        if len(self._samples) > 1:
            nav = propagate(nav, preintegrate(*self._window()))
        return np.concatenate((nav.T_world_body.p_m, nav.v_world_mps, nav.T_world_body.q_xyzw, w))

    def _window(self) -> ImuWindow:
        t_ns, w, f = zip(*self._samples, strict=True)
        return ImuWindow(
            np.array(t_ns), np.array(w) - self._gyro_bias, np.array(f) - self._accel_bias
        )

    def advance(self) -> None:
        """Bring the covariance to the newest sample."""
        if len(self._samples) < 2:
            return
        free = self._window()
        path = integrate(*free)
        on = increments_jacobians(free, path, self._noise)
        step = path.last
        R = q_to_matrix(self._nav.T_world_body.q_xyzw)
        G = np.zeros((9, 9))
        G[:3, :3] = np.eye(3)
        G[3:6, 3:6] = G[6:, 6:] = R
        F = np.zeros((9, BODY))
        F[:, :9] = np.eye(9)
        F[_ATTITUDE, _ATTITUDE] = q_to_matrix(step.dR_q_xyzw).T
        F[_VELOCITY, _ATTITUDE] = -R @ skew(step.beta_mps)
        F[_POSITION, _ATTITUDE] = -R @ skew(step.alpha_m)
        F[_POSITION, _VELOCITY] = step.dt_s * np.eye(3)
        F[:, _GYRO_BIAS] = -G @ on.rate
        F[:, _ACCEL_BIAS] = -G @ on.force
        top = F @ self.P[:BODY]
        P = self.P.copy()
        P[:9, 9:] = top[:, 9:]
        P[9:, :9] = top[:, 9:].T
        P[:9, :9] = top[:, :BODY] @ F.T + G @ on.noise @ G.T
        P[np.arange(BODY), np.arange(BODY)] += _WALKS**2 * step.dt_s
        self.P = 0.5 * (P + P.T)
        self._nav = propagate(self._nav, step)
        self._samples = self._samples[-1:]

    # --- measurements ---------------------------------------------------------------------------

    def add_range(self, range_m: float, std_m: float, most_nis: float) -> bool:
        """Take a distance to the floor z = 0 along body -z; return whether it fits.

        Call :meth:`advance` before.
        """
        T = self._nav.T_world_body
        R = T.rotation()
        if R[2, 2] < 0.5:
            return False
        H = np.zeros((1, len(self.P)))
        H[0, _POSITION] = _UP / R[2, 2]
        H[0, _ATTITUDE] = -T.p_m[2] / R[2, 2] ** 2 * cross(_UP, R[2])
        residual = np.array([range_m - T.p_m[2] / R[2, 2]])
        S = float((H @ self.P @ H.T)[0, 0]) + std_m**2
        if residual[0] ** 2 > most_nis * S:
            return False
        self._correct(H, residual, np.array([std_m**2]))
        return True

    def sides(self, gate: int) -> SideView:
        """Return how the opening of a gate is predicted to look. Call :meth:`advance` before."""
        ends, _ = self._edges(self._nav.T_world_body, gate, self.shifts[gate])
        return self._side_view(ends)

    def reach_px(self, gate: int) -> tuple[FloatArray, FloatArray]:
        """Return where the centre of a gate is predicted in the picture, (2,), and its
        covariance, (2, 2).
        """
        T = self._nav.T_world_body
        R = T.rotation()
        R_camera = self._T_body_camera.rotation()
        away = self.gates.centre_m(gate, self.shifts[gate]) - T.p_m
        body = away @ R
        x, y, z = (body - self._T_body_camera.p_m) @ R_camera
        if z < _NEAREST_M:
            return np.full(2, np.nan), np.full((2, 2), np.inf)
        fx, fy, cx, cy = self._camera.intrinsics_px
        by_camera = np.array([[fx / z, 0.0, -fx * x / z**2], [0.0, fy / z, -fy * y / z**2]])
        H = np.zeros((2, len(self.P)))
        H[:, _ATTITUDE] = by_camera @ R_camera.T @ skew(body)
        H[:, _POSITION] = -by_camera @ R_camera.T @ R.T
        first = BODY + SHIFTS * gate
        H[:, first : first + 3] = -H[:, _POSITION]
        return np.array((fx * x / z + cx, fy * y / z + cy)), np.asarray(H @ self.P @ H.T)

    def add_opening(
        self, gate: int, segments_px: FloatArray, std_px: float, most_nis: float
    ) -> float | None:
        """Take the sides of a gate's opening.

        Return how well they fit (NIS by number), None = refused.

        Args:
            gate: which.
            segments_px: two ends of a piece of each side, top, right, bottom, left, (4, 2, 2); NaN
                = not seen.
            std_px: of the ends, across the side.
            most_nis: largest normalized innovation squared by number, of a side and of all; a side
                with more does not count.
        """
        error = np.zeros(len(self.P))
        H, distance = self._opening(gate, segments_px, error)
        used = np.repeat(np.isfinite(distance.reshape(4, 2)).all(axis=1), 2)
        S = H @ self.P @ H.T + std_px**2 * np.eye(8)
        for side in np.flatnonzero(used[::2]):
            both = slice(2 * side, 2 * side + 2)
            used[both] = _nis(distance[both], S[both, both]) <= most_nis
        if used.sum() < _LEAST_SEEN:
            return None
        nis = _nis(distance[used], S[np.ix_(used, used)])
        if not nis <= most_nis:
            return None
        variance = np.full(int(used.sum()), std_px**2)
        variance *= _ALIKE
        for _ in range(_ROUNDS - 1):
            gain = np.linalg.solve(
                H[used] @ self.P @ H[used].T + np.diag(variance), H[used] @ self.P
            ).T
            error = gain @ (-distance[used] + H[used] @ error)
            H, distance = self._opening(gate, segments_px, error)
            if not np.isfinite(distance[used]).all():
                return None
        if (
            np.abs(self.shifts[gate] + error[BODY:].reshape(-1, SHIFTS)[gate])
            > self.gates.most[gate]
        ).any():
            return None
        self._correct(H[used], -distance[used] + H[used] @ error, variance)
        return nis

    def std_m(self, gate: int) -> float:
        """Return the larger deviation of a gate's place in the plane."""
        own = BODY + SHIFTS * gate
        return float(np.sqrt(self.P.diagonal()[own : own + 2].max()))

    def doubt(self, gate: int) -> None:
        """Take the place of a gate for as uncertain as before the race."""
        own = slice(BODY + SHIFTS * gate, BODY + SHIFTS * (gate + 1))
        self.P[own] = 0.0
        self.P[:, own] = 0.0
        self.P[own, own] = np.diag(self.gates.stds[gate] ** 2)

    # --- inside ---------------------------------------------------------------------------------

    def _moved(self, error: FloatArray) -> Transform:
        T = self._nav.T_world_body
        return Transform(
            T.p_m + error[_POSITION], q_normalize(q_mul(T.q_xyzw, q_exp(error[_ATTITUDE])))
        )

    def _edges(self, T: Transform, gate: int, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the edges in the camera's axes and in the body's, (4, 2, 3) each."""
        edges = self.gates.edges_m(gate, shift, (T @ self._T_body_camera).p_m)
        body = (edges - T.p_m) @ T.rotation()
        return (body - self._T_body_camera.p_m) @ self._T_body_camera.rotation(), body

    def _side_view(self, ends: FloatArray) -> SideView:
        fx, fy, cx, cy = self._camera.intrinsics_px
        lines = cross(ends[:, 0], ends[:, 1])
        lines = np.column_stack(
            (
                lines[:, 0] / fx,
                lines[:, 1] / fy,
                lines[:, 2] - lines[:, 0] * cx / fx - lines[:, 1] * cy / fy,
            )
        )
        lines /= np.linalg.norm(lines[:, :2], axis=1, keepdims=True)
        lines[(ends[..., 2] < _NEAREST_M).any(axis=1)] = np.nan
        corners = cross(np.roll(lines, 1, axis=0), lines)
        return SideView(lines, corners[:, :2] / corners[:, 2:])

    def _opening(
        self, gate: int, segments_px: FloatArray, error: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the distances (8,) of seen ends from predicted sides, and their derivatives by
        the errors, (8, n).
        """
        first = BODY + SHIFTS * gate
        T = self._moved(error)
        shift = self.shifts[gate] + error[first : first + SHIFTS]
        ends, body = self._edges(T, gate, shift)
        fx, fy, cx, cy = self._camera.intrinsics_px
        R_camera = self._T_body_camera.rotation()
        turn = (R_camera.T @ skew(body)).reshape(4, 6, 3)  # ends by a turn of the body
        place = R_camera.T @ T.rotation().T  # by a shift of the gate
        arms = T.apply(body.reshape(-1, 3)) - self.gates.centre_m(gate, shift)
        yaw = (np.column_stack((-arms[:, 1], arms[:, 0], np.zeros(8))) @ place.T).reshape(4, 6)
        lines = cross(ends[:, 0], ends[:, 1])
        # Lines by ends, (4, 3, 6).
        by_ends = np.concatenate((-skew(ends[:, 1]), skew(ends[:, 0])), axis=2)
        rays = np.ones((4, 2, 3))
        rays[..., :2] = (segments_px - (cx, cy)) / (fx, fy)
        scale = 1.0 / np.hypot(lines[:, 0] / fx, lines[:, 1] / fy)[:, None]
        distance = scale * (rays @ lines[:, :, None])[..., 0]
        along = np.column_stack((lines[:, 0] / fx**2, lines[:, 1] / fy**2, np.zeros(4)))
        # (4, 2, 6).
        on = (scale[..., None] * rays - (distance * scale**2)[..., None] * along[:, None]) @ by_ends
        H = np.zeros((8, len(self.P)))
        H[:, _ATTITUDE] = (on @ turn).reshape(8, 3)
        H[:, first : first + 3] = (on[..., :3] + on[..., 3:]).reshape(8, 3) @ place
        H[:, _POSITION] = -H[:, first : first + 3]
        H[:, first + 3] = (on @ yaw[:, :, None]).reshape(8)
        distance[(ends[..., 2] < _NEAREST_M).any(axis=1)] = np.nan
        return H, distance.reshape(8)

    def _correct(self, H: FloatArray, residual: FloatArray, variance: FloatArray) -> None:
        S = H @ self.P @ H.T + np.diag(variance)
        gain = np.linalg.solve(S, H @ self.P).T
        error = gain @ residual
        rest = np.eye(len(self.P)) - gain @ H
        P = rest @ self.P @ rest.T + (gain * variance) @ gain.T
        self.P = 0.5 * (P + P.T)
        self._nav = NavState(
            self._nav.t_ns, self._moved(error), self._nav.v_world_mps + error[_VELOCITY]
        )
        self._gyro_bias = self._gyro_bias + error[_GYRO_BIAS]
        self._accel_bias = self._accel_bias + error[_ACCEL_BIAS]
        self.shifts = self.shifts + error[BODY:].reshape(self.shifts.shape)


def _nis(residual: FloatArray, S: FloatArray) -> float:
    """Return the normalized innovation squared by number."""
    return float(residual @ np.linalg.solve(S, residual)) / len(residual)
