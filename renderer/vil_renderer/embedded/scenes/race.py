"""Race courses in scenes.

The gates with their beacons and the poles of a course, in place of a scene's own gates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.courses.course import Course, CourseGate, CourseObstacle
from vil_renderer.embedded.scene import CLASSES, Beacon, Gate, Scene, SceneObject
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing, pose_matrix
from vil_renderer.embedded.scenes.gates import add_gate
from vil_renderer.embedded.scenes.shapes import lathe

_DEPTH_M: Final = 0.15
_LEAST_BAR_M: Final = 0.02
_LEVEL: Final = 1e-6
_SIDES: Final = 16
_NUMBER: Final = "GateNumber"


def with_course(scene: Scene, course: Course) -> Scene:
    """Return a scene with the gates and poles of a course in place of its own gates.

    The beacons ``NAME_1`` to ``NAME_4`` are the corners of the opening: top left as the pilot sees
    it, then clockwise. The frame stands behind the gate's plane, so that they can be seen.
    """
    own = {gate.name for gate in scene.gates}
    objects = [o for o in scene.objects if o.name not in own and not o.name.startswith(_NUMBER)]
    beacons = [b for b in scene.beacons if b.carrier or b.name.rpartition("_")[0] not in own]
    first = 1 + max((o.instance for o in objects), default=0)
    for number, gate in enumerate(course.gates):
        frame, corners = _frame(gate, "race_gate_blue" if number % 2 else "race_gate")
        objects.append(replace(frame, instance=first + number))
        beacons += corners
    first += len(course.gates)
    objects += [
        replace(_pole(one), instance=first + number) for number, one in enumerate(course.obstacles)
    ]
    flown = [course.gates[index] for index in dict.fromkeys(course.order)]
    gates = tuple(Gate(gate.name, gate.T_world_gate, gate.width_m, gate.height_m) for gate in flown)
    return replace(scene, objects=tuple(objects), beacons=tuple(beacons), gates=gates)


def _frame(gate: CourseGate, surface: str) -> tuple[SceneObject, list[Beacon]]:
    """Return the frame of a gate, with legs if it is upright, and its beacons in the world."""
    upright = abs(gate.T_world_gate.rotation()[2, 2] - 1.0) < _LEVEL
    height = max(float(gate.T_world_gate.p_m[2]), 0.0) if upright else 0.0
    builder = SceneBuilder(gate.name)
    bar = max(gate.bar_m, _LEAST_BAR_M), _DEPTH_M
    opening = gate.width_m, gate.height_m
    add_gate(
        builder,
        (0.0, 0.0, height),
        0.0,
        opening_m=opening,
        bar_m=bar,
        surface=surface,
        outset_m=0.0,
    )
    behind_m = -float(builder.beacons[0].p_m[0])
    matrix = gate.T_world_gate.matrix() @ pose_matrix((behind_m, 0.0, 0.0), 0.0)
    asset = replace(builder.objects[0].asset, name=gate.name)
    corners = [
        Beacon(f"{gate.name}_{k}", corner) for k, corner in enumerate(gate.corners_m, start=1)
    ]
    return SceneObject(gate.name, asset, matrix, CLASSES["gate"]), corners


def _pole(one: CourseObstacle) -> SceneObject:
    height = max(float(one.top_m[2]), 2.0 * one.radius_m)
    shape = lathe([(0.0, 0.0), (one.radius_m, 0.0), (one.radius_m, height), (0.0, height)], _SIDES)
    foot = np.array((one.top_m[0], one.top_m[1], one.top_m[2] - height))
    asset = Thing().add(shape, "steel", (0.7, 0.3, 0.2)).asset(one.name)
    return SceneObject(
        one.name,
        asset,
        pose_matrix((float(foot[0]), float(foot[1]), float(foot[2])), 0.0),
        CLASSES["pole"],
    )
