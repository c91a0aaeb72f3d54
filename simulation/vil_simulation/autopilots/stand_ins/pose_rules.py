"""Rules of poses on ArduPilot's MAVLink port.

Their frames, and agreement with the state that the physics gives.
"""

from __future__ import annotations

from collections import deque
from hashlib import sha256
from math import dist, hypot, isnan, radians, sqrt
from typing import Final

from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.hil_messages import GpsInput
from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.ardupilot_lines import PhysicsLine
from vil_simulation.autopilots.stand_ins.places import Origin, local_ned
from vil_simulation.autopilots.stand_ins.vectors import LEVEL, Quaternion, Vector
from vil_simulation.autopilots.stand_ins.violations import require

PoseBody = mavlink.Odometry | mavlink.VisionPositionEstimate | GpsInput

_FIX_3D: Final = 3
_NORTH_CDEG: Final = 36_000
_SAME_TIME_S: Final = 2e-6
_MOST_LINES: Final = 4800
_TURN_RAD: Final = 0.05
_SHIFT_M: Final = 0.05
_SPEED_MPS: Final = 0.1
_SIGMAS: Final = 6.0


class PoseRules:
    """Checks of poses against the lines of the same times.

    Those of another clock are checked on their own only.

    Attributes:
        poses: taken.
    """

    def __init__(self) -> None:
        self.poses = 0
        self._digest = sha256()
        self._lines: deque[PhysicsLine] = deque(maxlen=_MOST_LINES)
        self._waiting: deque[PoseBody] = deque(maxlen=_MOST_LINES)
        self._newest_us = -1
        self._turn: Quaternion | None = None
        self._zero: tuple[Vector, Vector] | None = None
        self._origin: Origin | None = None

    def restart(self) -> None:
        """Forget what came before: other times follow."""
        self._lines.clear()
        self._waiting.clear()
        self._newest_us = -1

    def digest(self) -> str:
        """Return the SHA-256 of all poses in hexadecimal digits."""
        return self._digest.hexdigest()

    def take(self, body: PoseBody) -> None:
        """Take a pose.

        Raises:
            WireViolation: ArduPilot would drop it or misread it, or its time goes back.
        """
        self.poses += 1
        self._digest.update(repr(body).encode())
        name = _name(body)
        t_us = _time_us(body)
        require(
            t_us > self._newest_us,
            f"{name}: time_usec does not rise: {self._newest_us} us, then {t_us} us.",
        )
        self._newest_us = t_us
        if isinstance(body, mavlink.Odometry):
            frames = body.frame_id, body.child_frame_id
            right = mavlink.FRAME_LOCAL_FRD, mavlink.FRAME_BODY_FRD
            require(
                frames == right,
                f"ODOMETRY has the frames {frames}, not {right}: ArduPilot drops it.",
            )
        elif isinstance(body, GpsInput):
            require(body.fix_type >= _FIX_3D, f"GPS_INPUT has fix {body.fix_type}, not 3 or more.")
            require(
                body.yaw_cdeg <= _NORTH_CDEG,
                f"GPS_INPUT yaw {body.yaw_cdeg} is not a heading: north is 36000.",
            )
        self._waiting.append(body)

    def check(self, line: PhysicsLine) -> None:
        """Take the next state of the physics, and check the poses of its time and before.

        Raises:
            WireViolation: a pose contradicts the state of its time.
        """
        self._lines.append(line)
        while self._waiting and 1e-6 * _time_us(self._waiting[0]) < line.timestamp_s + _SAME_TIME_S:
            body = self._waiting.popleft()
            seen = self._line_at(1e-6 * _time_us(body))
            if seen is not None:
                self._compare(body, seen)

    def _line_at(self, t_s: float) -> PhysicsLine | None:
        for line in reversed(self._lines):
            if line.timestamp_s < t_s - _SAME_TIME_S:
                return None
            if line.timestamp_s < t_s + _SAME_TIME_S:
                return line
        return None

    def _compare(self, body: PoseBody, line: PhysicsLine) -> None:
        if isinstance(body, GpsInput):
            self._compare_fix(body, line)
        elif isinstance(body, mavlink.Odometry):
            q = body.q_wxyz[0], body.q_wxyz[1], body.q_wxyz[2], body.q_wxyz[3]
            self._compare_turn(body, q, line)
            spread_m = _deviation(body.pose_covariance[0])
            self._compare_shift(body, (body.x_m, body.y_m, body.z_m), line, spread_m)
            velocity = vectors.rotate(q, (body.vx_mps, body.vy_mps, body.vz_mps))
            _compare_speed(
                body,
                velocity,
                self._turned(line.v_ned_mps),
                _deviation(body.velocity_covariance[0]),
            )
        else:
            q = vectors.attitude(body.roll_rad, body.pitch_rad, body.yaw_rad)
            self._compare_turn(body, q, line)
            self._compare_shift(
                body, (body.x_m, body.y_m, body.z_m), line, _deviation(body.covariance[0])
            )

    def _compare_turn(self, body: PoseBody, q: Quaternion, line: PhysicsLine) -> None:
        """Check the turn from north, east, down to the pose's frame.

        About the vertical, by a constant angle.
        """
        name = _name(body)
        require(abs(hypot(*q) - 1.0) < 1e-3, f"{name} q has the length {hypot(*q):.4f}.")
        turn = vectors.product(q, vectors.inverse(line.q_wxyz))
        if self._turn is None:
            self._turn = turn if isinstance(body, mavlink.Odometry) else LEVEL
            x, y, _ = vectors.rotation_vector(turn)
            require(
                hypot(x, y) < _TURN_RAD, f"{name}: its frame is not level: forward, right, down is."
            )
        away = hypot(*vectors.rotation_vector(vectors.product(vectors.inverse(self._turn), turn)))
        frame = "a frame that stays" if isinstance(body, mavlink.Odometry) else "north, east, down"
        require(
            away < _TURN_RAD,
            f"{name}: its attitude is {away:.2f} rad from the vehicle's in {frame}.",
        )

    def _compare_shift(
        self, body: PoseBody, p_m: Vector, line: PhysicsLine, spread_m: float
    ) -> None:
        if self._zero is None:
            self._zero = p_m, line.p_ned_m
        moved = vectors.minus(p_m, self._zero[0])
        right = self._turned(vectors.minus(line.p_ned_m, self._zero[1]))
        _near(f"{_name(body)}'s position", "m", moved, right, _SHIFT_M + 2.0 * _SIGMAS * spread_m)

    def _compare_fix(self, body: GpsInput, line: PhysicsLine) -> None:
        place = body.lat_e7 * 1e-7, body.lon_e7 * 1e-7, body.alt_m
        self._origin = self._origin or place
        self._turn = LEVEL
        self._compare_shift(body, local_ned(self._origin, place), line, body.horiz_accuracy_m)
        velocity = body.vn_mps, body.ve_mps, body.vd_mps
        _compare_speed(body, velocity, line.v_ned_mps, body.speed_accuracy_mps)
        if body.yaw_cdeg:
            yaw = vectors.roll_pitch_yaw(line.q_wxyz)[2]
            away = abs(vectors.wrapped(radians(0.01 * body.yaw_cdeg) - yaw))
            require(away < _TURN_RAD, f"GPS_INPUT: its yaw is {away:.2f} rad from the vehicle's.")

    def _turned(self, v: Vector) -> Vector:
        return vectors.rotate(self._turn or LEVEL, v)


def _compare_speed(body: PoseBody, velocity: Vector, right: Vector, spread_mps: float) -> None:
    if not isnan(velocity[0]):
        _near(
            f"{_name(body)}'s velocity", "m/s", velocity, right, _SPEED_MPS + _SIGMAS * spread_mps
        )


def _near(what: str, unit: str, values: Vector, right: Vector, tolerance: float) -> None:
    a = vectors.text_of(values)
    b = vectors.text_of(right)
    require(
        dist(values, right) < tolerance,
        f"{what} does not agree with the motion: ({a}) against ({b}) {unit}.",
    )


def _deviation(variance: float) -> float:
    return 0.0 if isnan(variance) else sqrt(variance)


def _name(body: PoseBody) -> str:
    if isinstance(body, mavlink.Odometry):
        return "ODOMETRY"
    return "GPS_INPUT" if isinstance(body, GpsInput) else "VISION_POSITION_ESTIMATE"


def _time_us(body: PoseBody) -> int:
    return body.usec if isinstance(body, mavlink.VisionPositionEstimate) else body.time_usec
