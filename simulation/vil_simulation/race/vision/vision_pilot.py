"""Pilot that flies a race by pictures, inertial samples and ranges.

It knows the nominal course and no true state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_to_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_bridge.interfaces.trajectory import Reference
from vil_simulation.race.routes import race_order
from vil_simulation.race.vision.gate_detector import ExpectedOpening, find_openings
from vil_simulation.race.vision.gate_filter import GateFilter
from vil_simulation.race.vision.gate_map import GateMap
from vil_simulation.race.vision.gate_path import GatePath, HeadingControl
from vil_simulation.race.vision.readings import COMMANDS_HZ, PilotEquipment, PilotReadings

_PASSED_M: Final = 0.4
_LOOK_ON_M: Final = 1.5
_LOOKED_FOR: Final = 2
_FARTHEST_M: Final = 40.0
_SLANTED: Final = 0.45
_STD_PX: Final = 1.5
_MOST_NIS: Final = 4.5
_RANGE_NIS: Final = 9.0
_MOST_REACH_PX: Final = 150.0
_CHOICES: Final = 3
_SURE: Final = 0.2
"""Uncertainty, as a share of an opening's size, above which all four sides have to be seen."""
_FEW_MISSED: Final = 8
_WIDE: Final = 1.2
"""Pictures in a row in which a gate is not where it is expected, after which it is looked for
within its height.
"""
_MOST_MISSED: Final = 20
"""Pictures in a row after which a gate's place is taken for unknown, where openings are seen
that do not fit.
"""
_UNKNOWN_M: Final = 0.3
_NEAR_M: Final = 26.0
"""Distance up to which gates of unknown place are looked for."""
_PICTURES_A_PATH: Final = 3

Follow = Callable[[Reference, FloatArray], FloatArray]
"""``follow(reference, x)``: command (1, du) of the vehicle towards a reference, from an
estimated state (1, 13).
"""


class VisionPilot:
    """Pilot of one vehicle.

    Args:
        course: nominal course, with the spreads of its gates.
        equipment: sensors of the vehicle.
        follow: controller of the vehicle.

    Attributes:
        filter: estimate of the vehicle and the gates. due: number of the next gate in the race.
    """

    def __init__(self, course: Course, equipment: PilotEquipment, follow: Follow) -> None:
        self._gates: Final = GateMap.of(course)
        self._equipment: Final = equipment
        self._follow: Final = follow
        self._order: Final = list(race_order(course))
        start_std_m = (np.array(course.spread.high_m) - np.array(course.spread.low_m)) / math.sqrt(
            12.0
        )
        self.filter: Final = GateFilter(
            self._gates, course.start, start_std_m, equipment.camera, equipment.T_body_camera
        )
        self._path: Final = GatePath(self._gates, self._order, course.start.p_m)
        self._heading: Final = HeadingControl(float(q_to_euler_zyx(course.start.q_xyzw)[0]))
        self._pictures = 0
        self._missed = [0] * len(course.gates)
        self.due = 0

    @property
    def duration_s(self) -> float:
        """Return how long the flight takes."""
        return self._path.duration_s

    def command(self, readings: PilotReadings) -> FloatArray:
        """Return the command (du,) at the readings' time."""
        self.filter.add_imu(readings.t_ns, readings.w_radps, readings.f_mps2)
        if readings.range_m is not None or readings.picture is not None:
            self.filter.advance()
        if readings.range_m is not None:
            self.filter.add_range(readings.range_m, self._equipment.rangefinder.noise_m, _RANGE_NIS)
        if readings.picture is not None:
            self._look(readings.picture)
            self._pictures += 1
            if self._pictures % _PICTURES_A_PATH == 0:
                self._path.follow(self.filter.shifts, _PICTURES_A_PATH / self._equipment.picture_hz)
        x = self.filter.state()
        self._progress(x)
        t_s = 1e-9 * readings.t_ns
        self._steer(x)
        command: FloatArray = self._follow(self._heading.of(self._path.at(t_s)), x[None])[0]
        return command

    # --- pictures -------------------------------------------------------------------------------

    def _look(self, picture: npt.NDArray[np.uint8]) -> None:
        for gate in self._in_view()[:_LOOKED_FOR]:
            expected = self._expected(gate)
            if expected is None:
                continue
            openings = find_openings(picture, expected)[:_CHOICES]
            if expected.reach_px > _SURE * float(np.ptp(expected.corners_px, axis=0).min()):
                openings = [one for one in openings if np.isfinite(one.corners_px).all()]
            fits = (
                self.filter.add_opening(gate, one.segments_px, _STD_PX, _MOST_NIS) is not None
                for one in openings
            )
            if any(fits):
                self._missed[gate] = 0
            else:
                self._missed[gate] += 1
            if self._missed[gate] >= _MOST_MISSED and openings:
                self.filter.doubt(gate)
                self._missed[gate] = 0

    def _in_view(self) -> list[int]:
        """Return the gates that may be seen from their front, those that are due first."""
        ahead = list(dict.fromkeys(self._order[self.due :] + self._order[: self.due]))
        x = self.filter.state()
        found = []
        for gate in ahead:
            shift = self.filter.shifts[gate]
            place = self._gates.in_gate(gate, shift, x[:3])
            away = float(np.linalg.norm(place))
            farthest_m = _NEAR_M if self.filter.std_m(gate) > _UNKNOWN_M else _FARTHEST_M
            if away < farthest_m and -place[0] > max(_SLANTED * away, 0.5):
                found.append(gate)
        return found

    def _expected(self, gate: int) -> ExpectedOpening | None:
        """Return how a gate is expected in the picture.

        None = outside, or its place is too uncertain.
        """
        middle, covariance = self.filter.reach_px(gate)
        if not np.isfinite(middle).all():
            return None
        reach = 3.0 * math.sqrt(float(np.linalg.eigvalsh(covariance)[-1])) + 2.0
        camera = self._equipment.camera
        size = np.array((camera.width_px, camera.height_px))
        view = self.filter.sides(gate)
        if reach > _MOST_REACH_PX or (middle < -reach).any() or (middle > size + reach).any():
            return None
        height_px = float(np.linalg.norm(view.corners_px[0] - view.corners_px[3]))
        if self._missed[gate] >= _FEW_MISSED:
            reach = max(reach, _WIDE * height_px)
        bar_px = (
            float(self._gates.bars_m[gate]) / float(self._gates.openings_m[gate, 1]) * height_px
        )
        return ExpectedOpening(view.corners_px, reach, bar_px, bool(self._gates.blue[gate]))

    # --- flight ---------------------------------------------------------------------------------

    def _progress(self, x: FloatArray) -> None:
        if self.due < len(self._order):
            gate = self._order[self.due]
            if self._gates.in_gate(gate, self.filter.shifts[gate], x[:3])[0] > _PASSED_M:
                self.due += 1

    def _steer(self, x: FloatArray) -> None:
        """Turn towards the next gate, or the one after it where that is close."""
        for gate in self._order[self.due : self.due + 2]:
            centre = self._gates.centre_m(gate, self.filter.shifts[gate])
            if self._gates.in_gate(gate, self.filter.shifts[gate], x[:3])[0] < -_LOOK_ON_M:
                break
        else:
            return
        away = centre - x[:3]
        self._heading.turn(math.atan2(away[1], away[0]), 1.0 / COMMANDS_HZ)
