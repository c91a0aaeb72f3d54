"""Rules that PX4's range finder and optical flow obey."""

from __future__ import annotations

from math import dist
from typing import Final

from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.vectors import ZERO
from vil_simulation.autopilots.stand_ins.violations import require

_DOWNWARDS: Final = 25
_TURN_TOLERANCE: Final = (0.02, 0.1)


def check_distance(m: hil.DistanceSensor) -> None:
    """Check DISTANCE_SENSOR.

    Raises WireViolation: it does not look down, or its bounds leave nothing.
    """
    require(
        m.orientation == _DOWNWARDS,
        f"DISTANCE_SENSOR orientation is {m.orientation}, not 25 (down).",
    )
    bounds = m.min_distance_cm, m.max_distance_cm
    require(bounds[0] < bounds[1], f"DISTANCE_SENSOR is bounded by {bounds[0]} and {bounds[1]} cm.")
    require(
        bounds[0] <= m.current_distance_cm <= bounds[1] + 1,
        f"DISTANCE_SENSOR reads {m.current_distance_cm} cm.",
    )


class FlowRules:
    """Checks of HIL_OPTICAL_FLOW: its times follow one another, and its turn is the gyroscope's."""

    def __init__(self) -> None:
        self._turn = ZERO
        self._t_us: int | None = None

    def predict(self, gyro: vectors.Vector, dt_s: float) -> None:
        """Take the rates of a step."""
        self._turn = vectors.add(self._turn, gyro, dt_s)

    def check(self, m: hil.HilOpticalFlow) -> None:
        """Check a message. Raises WireViolation: the times or the turn do not agree."""
        turn = self._turn
        since_us = self._t_us
        self._turn = ZERO
        self._t_us = m.time_usec
        if since_us is None:
            return
        span_us = m.time_usec - since_us
        require(
            m.integration_time_us == span_us,
            f"HIL_OPTICAL_FLOW lasts {m.integration_time_us}, not {span_us} us.",
        )
        said = m.integrated_xgyro_rad, m.integrated_ygyro_rad, m.integrated_zgyro_rad
        floor, share = _TURN_TOLERANCE
        a = vectors.text_of(said)
        b = vectors.text_of(turn)
        require(
            dist(said, turn) < floor + share * dist(turn, ZERO),
            f"HIL_OPTICAL_FLOW turns by ({a}), not ({b}) rad.",
        )
