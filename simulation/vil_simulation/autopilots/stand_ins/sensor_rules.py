"""Rules that the sensors of PX4's peer obey.

Groups, noise, and agreement with the motion that they show.
"""

from __future__ import annotations

from collections.abc import Callable
from math import atan2, degrees, dist, hypot
from typing import Final

from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.vectors import LEVEL, ZERO, Quaternion, Vector
from vil_simulation.autopilots.stand_ins.violations import WireViolation, require
from vil_simulation.vehicles.environment.atmosphere import height_m

_GROUPS: Final = {
    "accelerometer": 0x7,
    "gyroscope": 0x38,
    "magnetometer": 0x1C0,
    "barometer": 0x1A00,
}
_NOISY: Final = {
    "accelerometer": ("xacc_mps2", "yacc_mps2", "zacc_mps2"),
    "gyroscope": ("xgyro_radps", "ygyro_radps", "zgyro_radps"),
    "magnetometer": ("xmag_gauss", "ymag_gauss", "zmag_gauss"),
    "barometer": ("abs_pressure_hpa",),
}
_STALE: Final = 100
_AT_REST: Final = 100
_REST_TOLERANCE_MPS2: Final = 0.5
_FIELD_GAUSS: Final = (0.1, 0.8)
_FIELD_SAMPLES: Final = 50
_FIELD_TURN_DEG: Final = 25.0
_NORTH_DEG: Final = 45.0
"""More than declination and noise make, less than a frame with other axes."""
_PRESSURE_TOLERANCE_M: Final = 3.0
_WINDOW_S: Final = 2.0
_HEIGHT_SHARE: Final = 0.02
_HEIGHT_TOLERANCE_M: Final = 1.5
_TRACK_TOLERANCE_M: Final = 1.5
_SPEED_TOLERANCE_CMPS: Final = 10.0


class SensorRules:
    """Checks of HIL_SENSOR and HIL_GPS on their own and against the estimated motion.

    Args:
        rests: the vehicle stands while the first samples come.
    """

    def __init__(self, *, rests: bool = True) -> None:
        self._packets = 0
        self._rests = rests
        self._same: dict[str, tuple[float, int]] = {}
        self._rest = ZERO
        self._field_sum = ZERO
        self._fields = 0
        self._height: float | None = None
        self._window: tuple[float, float] | None = None
        self._track: tuple[float, Vector, Vector] | None = None

    def check_fields(self, m: hil.HilSensor) -> None:
        """Check groups, values and noise of a sample.

        Raises:
            WireViolation: a group is incomplete, or a value is constant or beyond reason.
        """
        self._packets += 1
        known = 0x400 | 1 << 31
        for name, bits in _GROUPS.items():
            known |= bits
            part = m.fields_updated & bits
            require(
                part in (0, bits),
                f"HIL_SENSOR updates part of the {name}: fields_updated 0x{m.fields_updated:X}.",
            )
            if part:
                self._check_noise(m, name)
        require(
            not m.fields_updated & ~known,
            f"HIL_SENSOR has unknown bits: fields_updated 0x{m.fields_updated:X}.",
        )
        require(
            m.fields_updated & 0x3F == 0x3F, "HIL_SENSOR comes without accelerometer or gyroscope."
        )
        self._check_rest((m.xacc_mps2, m.yacc_mps2, m.zacc_mps2))

    def check_field(self, field: Vector, q: Quaternion) -> None:
        """Check the magnetic field (body FRD) against the attitude.

        In the local frame its direction stays.

        Raises:
            WireViolation: it turns with the vehicle, or is weaker or stronger than the Earth's.
        """
        size = hypot(*field)
        low, high = _FIELD_GAUSS
        require(
            low < size < high,
            f"the magnetic field has {size:.4g} gauss, the Earth's {low} to {high}.",
        )
        local = vectors.rotate(q, field)
        if self._fields < _FIELD_SAMPLES:
            self._fields += 1
            self._field_sum = vectors.add(self._field_sum, local, 1.0 / size)
            return
        across = hypot(*vectors.vector_product(self._field_sum, local))
        turned = degrees(atan2(across, vectors.dot(self._field_sum, local)))
        require(
            turned < _FIELD_TURN_DEG,
            "the magnetic field does not agree with the attitude: in the local frame it "
            f"turned {turned:.0f} degrees.",
        )

    def check_north(self, field: Vector, q: Quaternion) -> None:
        """Check that the field (body FRD) points north in the frame of VISION_POSITION_ESTIMATE.

        Raises:
            WireViolation: it points elsewhere: the frame is not north, east, down.
        """
        north, east, _ = vectors.rotate(q, field)
        away = degrees(atan2(east, north))
        require(
            abs(away) < _NORTH_DEG,
            "VISION_POSITION_ESTIMATE is not north, east, down: magnetic north is at "
            f"{away:.0f} degrees in its frame.",
        )

    def check_height(self, m: hil.HilSensor, t_s: float, p_ned_m: Vector) -> None:
        """Check pressure against altitude, and altitude against the motion.

        Raises:
            WireViolation: they disagree by more than noise.
        """
        by_pressure = m.pressure_alt_m
        if self._packets % 10 == 0:
            by_pressure = float(height_m(100.0 * m.abs_pressure_hpa))
        require(
            abs(by_pressure - m.pressure_alt_m) < _PRESSURE_TOLERANCE_M,
            f"abs_pressure {m.abs_pressure_hpa:.3f} hPa is at {by_pressure:.1f} m, but "
            "pressure_alt says "
            f"{m.pressure_alt_m:.1f} m.",
        )
        offset = m.pressure_alt_m + p_ned_m[2]
        if self._height is None:
            self._height = offset
        else:
            self._height += _HEIGHT_SHARE * (offset - self._height)
        if self._window is None or t_s - self._window[0] > _WINDOW_S:
            self._window = t_s, self._height
        drift = self._height - self._window[1]
        require(
            abs(drift) < _HEIGHT_TOLERANCE_M,
            f"the barometer's altitude does not follow the motion: {drift:+.1f} m in "
            f"{_WINDOW_S:.0f} s.",
        )

    def check_gps(
        self, m: hil.HilGps, t_s: float, gps_ned_m: Vector, p_ned_m: Vector | None
    ) -> None:
        """Check a fix on its own and against the motion.

        Raises:
            WireViolation: values contradict each other, or the track is not the vehicle's.
        """
        speed = hypot(m.vn_cmps, m.ve_cmps)
        require(
            abs(speed - m.vel_cmps) < _SPEED_TOLERANCE_CMPS,
            f"HIL_GPS vel is {m.vel_cmps} cm/s, but vn and ve make {speed:.0f} cm/s.",
        )
        require(
            m.cog_cdeg < 36_000 or m.cog_cdeg == 65535, f"HIL_GPS cog {m.cog_cdeg} is not a course."
        )
        if p_ned_m is None:
            return
        if self._track is None or t_s - self._track[0] > _WINDOW_S:
            self._track = t_s, gps_ned_m, p_ned_m
        _, gps_0, p_0 = self._track
        by_gps = dist(gps_ned_m[:2], gps_0[:2])
        moved = dist(p_ned_m[:2], p_0[:2])
        require(
            abs(by_gps - moved) < _TRACK_TOLERANCE_M,
            f"GPS does not follow the motion: {by_gps:.1f} m by GPS, {moved:.1f} m by the "
            "estimate.",
        )

    def _check_noise(self, m: hil.HilSensor, group: str) -> None:
        for name in _NOISY[group]:
            value = getattr(m, name)
            if not abs(value) < 1e6:
                raise WireViolation(f"HIL_SENSOR {name} is {value}.")
            last, times = self._same.get(name, (value, 0))
            times = times + 1 if value == last else 1
            self._same[name] = value, times
            if times >= _STALE:
                raise WireViolation(f"HIL_SENSOR {name} is stale: {value} in {_STALE} packets.")

    def _check_rest(self, force: Vector) -> None:
        """Check the mean of the first samples.

        A vehicle that a floor holds feels gravity alone, upwards.
        """
        if self._packets > _AT_REST or not self._rests:
            return
        self._rest = vectors.add(self._rest, force, 1.0 / _AT_REST)
        if self._packets == _AT_REST:
            x, y, z = self._rest
            require(
                dist(self._rest, (0.0, 0.0, -GRAVITY_MPS2)) < _REST_TOLERANCE_MPS2,
                f"at rest the accelerometer reads ({x:.2f}, {y:.2f}, {z:.2f}) m/s2, not "
                "(0, 0, -9.81).",
            )


_TRUTH_RATE_RADPS: Final = 0.3
"""Beyond the noise of a gyroscope."""
_TRUTH_S: Final = 0.05
"""Time over which turns are compared.

A gyroscope states means over its period, and impacts take 10 ms.
"""


class GroundTruthRules:
    """Checks of HIL_STATE_QUATERNION, which PX4 asks for at an interval.

    Args:
        interval_us: asked for.
    """

    def __init__(self, interval_us: float) -> None:
        self._interval_us = interval_us
        self._newest: hil.HilStateQuaternion | None = None
        self._start: hil.HilStateQuaternion | None = None
        self._turn = LEVEL
        self._least = self._most = (0.0, 0.0, 0.0)
        self._sensor_us = 0

    def take(self, m: hil.HilStateQuaternion) -> None:
        """Check a message on its own.

        Raises:
            WireViolation: its attitude is none.
        """
        w, x, y, z = m.q_wxyz
        size = hypot(w, x, y, z)
        require(
            abs(size - 1.0) < 1e-3,
            f"HIL_STATE_QUATERNION attitude_quaternion has the length {size:.4f}.",
        )
        self._newest = m

    def check(self, m: hil.HilSensor, *, is_due: bool) -> None:
        """Check the newest message against a sample; ``is_due``: the wish has been heard.

        Raises:
            WireViolation: it does not come as often as it was asked for, or it is not of the
                vehicle.
        """
        truth = self._newest
        step_us = m.time_usec - self._sensor_us
        self._sensor_us = m.time_usec
        rates = m.xgyro_radps, m.ygyro_radps, m.zgyro_radps
        self._turn = vectors.product(
            self._turn, vectors.exponential(vectors.scaled(rates, 1e-6 * step_us))
        )
        self._least = _each(min, self._least, rates)
        self._most = _each(max, self._most, rates)
        if truth is None or m.time_usec - truth.time_usec >= self._interval_us + step_us:
            require(
                not is_due,
                f"HIL_STATE_QUATERNION does not come each {self._interval_us:.0f} us, as "
                "PX4 asked.",
            )
        elif truth.time_usec == m.time_usec:
            self._check_turn(truth)

    def _check_turn(self, truth: hil.HilStateQuaternion) -> None:
        """Check rates and attitudes against the gyroscope, from one message to another some time
        later.
        """
        start = self._start
        if start is not None and truth.time_usec - start.time_usec < 1e6 * _TRUTH_S:
            return
        if start is not None:
            span_s = 1e-6 * (truth.time_usec - start.time_usec)
            by_gyro = vectors.rotation_vector(self._turn)
            first = _rates(start)
            last = _rates(truth)
            change = dist(first, last)
            turn = vectors.rotation_vector(
                vectors.product(vectors.inverse(_attitude(start)), _attitude(truth))
            )
            mean = vectors.scaled(by_gyro, 1.0 / span_s)
            apart = dist(vectors.scaled(turn, 1.0 / span_s), mean)
            require(
                apart < _TRUTH_RATE_RADPS + 0.1 * change + 0.05 * hypot(*mean),
                f"HIL_STATE_QUATERNION's attitude turns {apart:.2f} rad/s otherwise than "
                "the gyroscope says.",
            )
            apart = dist(vectors.scaled(vectors.add(first, last), 0.5), mean)
            require(
                apart < _TRUTH_RATE_RADPS + change + dist(self._least, self._most),
                f"HIL_STATE_QUATERNION's rates are {apart:.2f} rad/s away from the gyroscope's.",
            )
        self._start = truth
        self._turn = LEVEL
        self._least = self._most = _rates(truth)


def _each(choose: Callable[[float, float], float], a: Vector, b: Vector) -> Vector:
    """Return one of two numbers for each axis."""
    return choose(a[0], b[0]), choose(a[1], b[1]), choose(a[2], b[2])


def _attitude(truth: hil.HilStateQuaternion) -> Quaternion:
    w, x, y, z = truth.q_wxyz
    return w, x, y, z


def _rates(truth: hil.HilStateQuaternion) -> Vector:
    return truth.rollspeed_radps, truth.pitchspeed_radps, truth.yawspeed_radps


_SHORTEST_S: Final = 0.2
_TURN_TOLERANCE: Final = (0.07, 0.2)
_SHIFT_TOLERANCE: Final = (0.05, 0.2)
_SPEED_TOLERANCE: Final = (0.2, 0.2)
_MOST_IMPACTS: Final = 3


class OdometryRules:
    """Checks of poses.

    Constants, and the pose against its velocity, the gyroscope and the accelerometer.
    """

    def __init__(self) -> None:
        self._turn: Quaternion = LEVEL
        self._pushed = ZERO
        self._start: tuple[float, Vector, Quaternion, Vector] | None = None
        self._shift = ZERO
        self._last: tuple[float, Vector] | None = None
        self._q: Quaternion = LEVEL
        self._disagreements = 0
        self._seen: tuple[int, Vector] | None = None

    def predict(self, gyro: Vector, force: Vector, dt_s: float) -> None:
        """Take rates and specific force of a step, body FRD."""
        self._turn = vectors.product(self._turn, vectors.exponential(vectors.scaled(gyro, dt_s)))
        local = vectors.rotate(vectors.product(self._q, self._turn), force)
        self._pushed = vectors.add(
            self._pushed, (local[0], local[1], local[2] + GRAVITY_MPS2), dt_s
        )

    def check(self, m: mavlink.Odometry) -> tuple[Vector, Quaternion, Vector]:
        """Check a message; returns position, attitude and body velocity.

        Raises:
            WireViolation: a constant is not PX4's, or the values contradict the motion.
        """
        for name, value, right in (
            ("frame_id", m.frame_id, mavlink.FRAME_LOCAL_FRD),
            ("child_frame_id", m.child_frame_id, mavlink.FRAME_BODY_FRD),
            ("estimator_type", m.estimator_type, 3),
        ):
            require(value == right, f"ODOMETRY {name} is {value}, not {right}.")
        w, x, y, z = m.q_wxyz
        size = hypot(w, x, y, z)
        require(abs(size - 1.0) < 1e-3, f"ODOMETRY q has the length {size:.4f}.")
        position = (m.x_m, m.y_m, m.z_m)
        velocity = (m.vx_mps, m.vy_mps, m.vz_mps)
        q = (w, x, y, z)
        require(
            all(abs(v) < 1e6 for v in (*position, *velocity)),
            "ODOMETRY has a value that is not a number.",
        )
        self._check_motion("ODOMETRY", 1e-6 * m.time_usec, position, q, vectors.rotate(q, velocity))
        return position, q, velocity

    def check_vision(self, m: mavlink.VisionPositionEstimate) -> tuple[Vector, Quaternion, Vector]:
        """Check a message.

        Return position, attitude and body velocity, which is the change of the position.

        Raises:
            WireViolation: the values contradict the motion.
        """
        position = (m.x_m, m.y_m, m.z_m)
        q = vectors.attitude(m.roll_rad, m.pitch_rad, m.yaw_rad)
        require(
            all(abs(v) < 1e6 for v in m[1:7]),
            "VISION_POSITION_ESTIMATE has a value that is not a number.",
        )
        last_us, last = self._seen or (m.usec, position)
        self._seen = m.usec, position
        velocity = vectors.scaled(vectors.minus(position, last), 1e6 / max(1, m.usec - last_us))
        self._check_motion("VISION_POSITION_ESTIMATE", 1e-6 * m.usec, position, q, velocity)
        return position, q, vectors.rotate(vectors.inverse(q), velocity)

    def _check_motion(
        self, name: str, t_s: float, position: Vector, q: Quaternion, velocity: Vector
    ) -> None:
        if self._start is None or self._last is None or t_s <= self._last[0]:
            self._begin(t_s, position, q, velocity)
            return
        last_s, last_velocity = self._last
        self._shift = vectors.add(
            self._shift, vectors.add(velocity, last_velocity), 0.5 * (t_s - last_s)
        )
        self._last = t_s, velocity
        start_s, p_0, q_0, v_0 = self._start
        if t_s - start_s < _SHORTEST_S:
            return
        moved = vectors.minus(position, p_0)
        _within(
            f"{name}'s velocity (body axes) does not agree with its position",
            "m",
            moved,
            self._shift,
            _SHIFT_TOLERANCE,
        )
        turn = vectors.rotation_vector(vectors.product(vectors.inverse(q_0), q))
        by_gyro = vectors.rotation_vector(self._turn)
        _within(
            f"the gyroscope does not agree with {name}'s attitude",
            "rad",
            turn,
            by_gyro,
            _TURN_TOLERANCE,
        )
        faster = vectors.minus(velocity, v_0)
        # An impact changes the velocity between two samples of the accelerometer: one window may
        # disagree.
        agrees = dist(faster, self._pushed) < _SPEED_TOLERANCE[0] + _SPEED_TOLERANCE[1] * hypot(
            *faster
        )
        if agrees:
            self._disagreements = 0
        else:
            self._disagreements += 1
        if self._disagreements >= _MOST_IMPACTS:
            _within(
                f"the accelerometer does not agree with {name}'s velocity",
                "m/s",
                faster,
                self._pushed,
                _SPEED_TOLERANCE,
            )
        self._begin(t_s, position, q, velocity)

    def _begin(self, t_s: float, position: Vector, q: Quaternion, velocity: Vector) -> None:
        self._start = (t_s, position, q, velocity)
        self._last = (t_s, velocity)
        self._turn = LEVEL
        self._q = q
        self._shift = ZERO
        self._pushed = ZERO


def _within(
    sentence: str, unit: str, pose: Vector, other: Vector, tolerance: tuple[float, float]
) -> None:
    floor, share = tolerance
    a = vectors.text_of(pose)
    b = vectors.text_of(other)
    require(
        dist(pose, other) < floor + share * hypot(*pose), f"{sentence}: ({a}) against ({b}) {unit}."
    )
