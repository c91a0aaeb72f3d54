"""Rules of a motion that is given whole.

Positions move by velocities, attitudes by rates, velocities by forces.
"""

from __future__ import annotations

from math import dist, hypot
from typing import Final

from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.ardupilot_lines import PhysicsLine
from vil_simulation.autopilots.stand_ins.vectors import LEVEL, ZERO
from vil_simulation.autopilots.stand_ins.violations import WireViolation

_WINDOW_S: Final = 0.1
_MOST_IMPACTS: Final = 2
"""Windows in a row that disagree.

An impact changes velocities, and a landing the attitude and the force, in a step.
"""
_SHIFT: Final = (0.002, 0.01)
"""Floor (of noise) and share of the change by which a window may disagree."""
_TURN: Final = (0.01, 0.01)
_SPEED: Final = (0.1, 0.1)
_REST_TOLERANCE_MPS2: Final = 0.3
_STILL_M: Final = 1e-4


class MotionRules:
    """Checks of states in windows of 0.1 s."""

    def __init__(self) -> None:
        self._start: PhysicsLine | None = None
        self._last: PhysicsLine | None = None
        self._lines = 0
        self._shift = self._pushed = self._force = ZERO
        self._turn = LEVEL
        self._disagreements: dict[str, int] = dict.fromkeys(("shift", "turn", "speed", "rest"), 0)

    def restart(self) -> None:
        """Forget the states before: others follow."""
        self._start = self._last = None

    def check(self, line: PhysicsLine, *, off: bool) -> None:
        """Check the next state; ``off`` = the motors stand.

        Raises:
            WireViolation: two windows in a row disagree, or the vehicle rests without its weight.
        """
        last = self._last
        start = self._start
        self._last = line
        if last is None or start is None:
            self._start = line
            return
        dt_s = line.timestamp_s - last.timestamp_s
        self._lines += 1
        self._shift = vectors.add(
            self._shift, vectors.add(line.v_ned_mps, last.v_ned_mps), 0.5 * dt_s
        )
        rate = vectors.add(line.gyro_radps, last.gyro_radps)
        self._turn = vectors.product(
            self._turn, vectors.exponential(vectors.scaled(rate, 0.5 * dt_s))
        )
        down = vectors.rotate(line.q_wxyz, line.force_mps2)
        self._pushed = vectors.add(self._pushed, (down[0], down[1], down[2] + GRAVITY_MPS2), dt_s)
        self._force = vectors.add(self._force, line.force_mps2)
        if line.timestamp_s - start.timestamp_s >= _WINDOW_S:
            self._check_window(start, line)
            if off:
                self._check_rest(start, line)
            self._start = line
            self._reset_sums()

    def _reset_sums(self) -> None:
        self._shift = self._pushed = self._force = ZERO
        self._turn = LEVEL
        self._lines = 0

    def _check_window(self, start: PhysicsLine, line: PhysicsLine) -> None:
        moved = vectors.minus(line.p_ned_m, start.p_ned_m)
        self._compare(
            "shift", "the position does not move by the velocity", "m", moved, self._shift, _SHIFT
        )
        turn = vectors.rotation_vector(vectors.product(vectors.inverse(start.q_wxyz), line.q_wxyz))
        by_gyro = vectors.rotation_vector(self._turn)
        self._compare(
            "turn", "the quaternion does not turn by the rates", "rad", turn, by_gyro, _TURN
        )
        faster = vectors.minus(line.v_ned_mps, start.v_ned_mps)
        sentence = "the velocity does not change by the specific force and gravity"
        self._compare("speed", sentence, "m/s", faster, self._pushed, _SPEED)

    def _compare(
        self,
        name: str,
        sentence: str,
        unit: str,
        change: vectors.Vector,
        other: vectors.Vector,
        tolerance: tuple[float, float],
    ) -> None:
        if dist(change, other) <= tolerance[0] + tolerance[1] * hypot(*change):
            self._disagreements[name] = 0
        else:
            self._disagreements[name] += 1
        if self._disagreements[name] >= _MOST_IMPACTS:
            a = vectors.text_of(change, 4)
            b = vectors.text_of(other, 4)
            raise WireViolation(f"{sentence}: ({a}) against ({b}) {unit} in {_WINDOW_S} s.")

    def _check_rest(self, start: PhysicsLine, line: PhysicsLine) -> None:
        """Check the mean force of a vehicle that did not move: it is the weight."""
        if dist(line.p_ned_m, start.p_ned_m) > _STILL_M or not self._lines:
            self._disagreements["rest"] = 0
            return
        x, y, z = vectors.scaled(self._force, 1.0 / self._lines)
        size = hypot(x, y, z)
        if abs(size - GRAVITY_MPS2) <= _REST_TOLERANCE_MPS2 and z <= 0.0:
            self._disagreements["rest"] = 0
        else:
            self._disagreements["rest"] += 1
        if self._disagreements["rest"] >= _MOST_IMPACTS:
            raise WireViolation(
                f"at rest the specific force is ({x:.2f}, {y:.2f}, {z:.2f}), not (0, 0, -9.81)."
            )
