"""Complementary filter of a stand-in that senses.

Attitude, velocity and position from what its peer sends.
"""

from __future__ import annotations

from math import atan2
from typing import Final

from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.flight_control import NedState
from vil_simulation.autopilots.stand_ins.vectors import LEVEL, ZERO, Quaternion, Vector

_ALIGNMENT: Final = 100
"""Samples at rest from which the first attitude is taken."""
_GRAVITY: Final[Vector] = (0.0, 0.0, GRAVITY_MPS2)
_TILT_PER_S: Final = 0.6
_BIAS_PER_S2: Final = 0.02
_MOST_BIAS_RADPS: Final = 0.1
_COMPASS_SHARE: Final = 0.002
_POSE_SHARE: Final = 0.5
_ATTITUDE_SHARE: Final = 0.1
_GPS_POSITION_SHARE: Final = 0.1
_GPS_VELOCITY_SHARE: Final = 0.3
_HEIGHT_SHARE: Final = 0.02


class FlightEstimator:
    """Estimate of one vehicle's state, local NED.

    Poses from outside (ODOMETRY) win: with the first of them, GPS and barometer are left out.

    Attributes:
        aligned: whether there is an attitude.
    """

    def __init__(self) -> None:
        self.aligned = False
        self._q: Quaternion = LEVEL
        self._p = self._v = self._w = ZERO
        self._bias = ZERO
        self._samples = 0
        self._force = ZERO
        self._field: Vector | None = None
        self._turned = ZERO
        self._by_pose = False
        self._located = False
        self._height_0: float | None = None

    @property
    def attitude(self) -> Quaternion:
        """Newest attitude."""
        return self._q

    @property
    def velocity(self) -> Vector:
        """Newest velocity, NED."""
        return self._v

    def state(self) -> NedState | None:
        """Return the state, None until attitude and position are known."""
        if not (self.aligned and self._located):
            return None
        return NedState(self._p, self._v, self._q, self._w)

    def predict(self, gyro: Vector, force: Vector, dt_s: float) -> None:
        """Take rates and specific force of a step, body FRD."""
        if not self.aligned:
            self._align(force)
            return
        self._w = w = vectors.minus(gyro, self._bias)
        turn = vectors.add(vectors.scaled(w, dt_s), self._turned)
        self._turned = ZERO
        self._q = vectors.unit(vectors.product(self._q, vectors.exponential(turn)))
        acceleration = vectors.add(vectors.rotate(self._q, force), _GRAVITY)
        self._p = vectors.add(self._p, self._v, dt_s)
        self._force = force
        if self._located:
            self._v = vectors.add(self._v, acceleration, dt_s)

    def on_field(self, field: Vector) -> None:
        """Take the magnetic field, body FRD; its horizontal part points north."""
        self._field = field
        if self.aligned and not self._by_pose:
            north, east, _ = vectors.rotate(self._q, field)
            self._turn_in_body((0.0, 0.0, -atan2(east, north) * _COMPASS_SHARE))

    def on_height(self, altitude_m: float) -> None:
        """Take a height by the barometer."""
        if self._height_0 is None:
            self._height_0 = altitude_m
        if self._located and not self._by_pose:
            error = self._height_0 - altitude_m - self._p[2]
            self._p = vectors.add(self._p, (0.0, 0.0, error), _HEIGHT_SHARE)

    def on_gps(self, p_ned_m: Vector, v_ned_mps: Vector, interval_s: float) -> None:
        """Take a fix of GPS: horizontal position, and velocity, which levels the attitude too."""
        if self._by_pose or not self.aligned:
            return
        if not self._located:
            self._located = True
            self._p = (p_ned_m[0], p_ned_m[1], 0.0)
            self._v = v_ned_mps
            return
        north, east, _ = vectors.minus(p_ned_m, self._p)
        self._p = vectors.add(self._p, (north, east, 0.0), _GPS_POSITION_SHARE)
        self._correct_velocity(v_ned_mps, _GPS_VELOCITY_SHARE, interval_s)

    def on_pose(
        self, p_ned_m: Vector, q: Quaternion, v_body_mps: Vector, interval_s: float
    ) -> None:
        """Take a pose from outside."""
        velocity = vectors.rotate(q, v_body_mps)
        if not self._by_pose:
            self._by_pose = self._located = self.aligned = True
            self._p = p_ned_m
            self._q = q
            self._v = velocity
            return
        error = vectors.rotation_vector(vectors.product(vectors.inverse(self._q), q))
        self._turned = vectors.scaled(error, _ATTITUDE_SHARE)
        self._bias = vectors.clipped(
            vectors.add(self._bias, error, -_BIAS_PER_S2 * interval_s), _MOST_BIAS_RADPS
        )
        self._p = vectors.add(self._p, vectors.minus(p_ned_m, self._p), _POSE_SHARE)
        self._v = vectors.add(self._v, vectors.minus(velocity, self._v), _POSE_SHARE)

    def _align(self, force: Vector) -> None:
        self._samples += 1
        self._force = vectors.add(self._force, force)
        if self._samples < _ALIGNMENT:
            return
        up = vectors.scaled(self._force, -1.0)
        roll = atan2(up[1], up[2])
        pitch = atan2(-up[0], (up[1] ** 2 + up[2] ** 2) ** 0.5)
        tilt = vectors.attitude(roll, pitch, 0.0)
        north = 1.0
        east = 0.0
        if self._field is not None:
            north, east, _ = vectors.rotate(tilt, self._field)
        self._q = vectors.product(vectors.heading(-atan2(east, north)), tilt)
        self.aligned = True

    def _correct_velocity(self, v_ned_mps: Vector, share: float, interval_s: float) -> None:
        """Correct the velocity.

        Its error shows how far the force's direction, so the attitude, is wrong.
        """
        error = vectors.minus(v_ned_mps, self._v)
        self._v = vectors.add(self._v, error, share)
        force = vectors.rotate(self._q, self._force)
        north, east, _ = vectors.vector_product(force, error)
        tilt = vectors.scaled((north, east, 0.0), _TILT_PER_S * interval_s / GRAVITY_MPS2**2)
        turn = vectors.rotate(vectors.inverse(self._q), tilt)
        self._turned = vectors.add(self._turned, turn)
        self._bias = vectors.clipped(vectors.add(self._bias, turn, -0.1), _MOST_BIAS_RADPS)

    def _turn_in_body(self, turn_ned: Vector) -> None:
        self._turned = vectors.add(self._turned, vectors.rotate(vectors.inverse(self._q), turn_ned))
