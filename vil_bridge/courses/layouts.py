"""Random layouts of courses.

Gates, obstacles and start anywhere within the bounds, heights as they are.

The rules are those of lsy_drone_racing's level 3 (its numbers, drawn from our generator).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core import matrices
from vil_bridge.core.elementary import arctan2
from vil_bridge.core.geometry import Transform, q_from_euler_zyx, q_to_euler_zyx
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.courses.course import Course

_CELLS: Final = 40
_BORDER_M: Final = 0.5
_APART_M: Final = 1.0
_CORRIDOR_M: Final = 0.4
_LARGEST_TURN_RAD: Final = 0.75


def laid_out(course: Course, uniforms: FloatArray) -> Course:
    """Return the course with gates, obstacles and start at random places within its bounds.

    Gates and obstacles stand in cells of a grid of 40 x 40, 0.5 m from the border, 1 m from one
    another and from the start. An obstacle stands within 0.4 m of the way to its gate, and a gate
    faces within 0.75 rad of that way. Where no cell is free, any is taken.

    Args:
        course: with bounds.
        uniforms: numbers 0..1, (g + 1, 6) for g gates in the order of a lap.
    """
    grid = _Grid(course, uniforms[0])
    gates = list(course.gates)
    obstacles = list(course.obstacles)
    for turn, (index, numbers) in enumerate(
        zip(dict.fromkeys(course.order), uniforms[1:], strict=False)
    ):
        place, yaw, obstacle = grid.next_gate(numbers)
        pose = gates[index].T_world_gate
        _, pitch, roll = q_to_euler_zyx(pose.q_xyzw)
        moved = Transform(np.append(place, pose.p_m[2]), q_from_euler_zyx(yaw, pitch, roll))
        gates[index] = replace(gates[index], T_world_gate=moved)
        if turn < len(obstacles):
            obstacles[turn] = replace(
                obstacles[turn], top_m=np.append(obstacle, obstacles[turn].top_m[2])
            )
    start = Transform(np.append(grid.start_m, course.start.p_m[2]), course.start.q_xyzw)
    return replace(
        course, gates=tuple(gates), obstacles=tuple(obstacles), start=start, layout="fixed"
    )


class _Grid:
    """Cells in which gates and obstacles may stand yet; all places (2,)."""

    def __init__(self, course: Course, numbers: FloatArray) -> None:
        low, high = (corner[:2] for corner in course.room_m)
        self.start_m: Final = low + numbers[:2] * (high - low)
        low = low + _BORDER_M
        high = high - _BORDER_M
        x, y = np.meshgrid(*(np.linspace(low[i], high[i], _CELLS) for i in (0, 1)))
        self._cells: Final = np.stack((x.ravel(), y.ravel()), axis=1)
        self._size: Final = (high - low) / _CELLS
        self._from = self.start_m
        self._free: BoolArray = self._away(self.start_m)
        self._off_gates: BoolArray = np.ones(len(self._cells), np.bool_)
        self._off_obstacles: BoolArray = self._free.copy()

    def next_gate(self, numbers: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """Return place and yaw of the next gate, and the place of an obstacle on the way to it."""
        place = self._drawn(self._free, numbers[0]) + (numbers[1:3] - 0.5) * self._size
        way = place - self._from
        yaw = float(arctan2(way[1], way[0])) + _LARGEST_TURN_RAD * (2.0 * float(numbers[3]) - 1.0)
        corridor = self._on_way(place)
        self._free = self._free & self._away(place) & ~corridor
        self._off_gates &= self._away(place)
        obstacle = self._drawn(corridor & self._off_gates & self._off_obstacles, numbers[4])
        self._off_obstacles = self._off_obstacles & self._away(obstacle)
        self._from = place
        return place, yaw, obstacle

    def _drawn(self, allowed: BoolArray, number: float) -> FloatArray:
        cells = self._cells[allowed] if allowed.any() else self._cells
        cell: FloatArray = cells[min(int(number * len(cells)), len(cells) - 1)]
        return cell

    def _away(self, place: FloatArray) -> BoolArray:
        return np.asarray(np.linalg.norm(self._cells - place, axis=1) > _APART_M)

    def _on_way(self, place: FloatArray) -> BoolArray:
        way = place - self._from
        length = matrices.length(way) + 1e-9
        along = matrices.product(self._cells - self._from, way) / length
        across = np.linalg.norm(self._cells - self._from - along[:, None] * way / length, axis=1)
        return np.asarray((across < _CORRIDOR_M) & (along >= 0.0) & (along <= length))
