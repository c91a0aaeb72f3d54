"""Race gates: a frame around an opening, on legs, with IR beacons at the corners of the opening."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform, yaw_matrix
from vil_renderer.embedded.scene import Beacon, Gate
from vil_renderer.embedded.scenes.builder import WHITE, SceneBuilder, Thing, Tint
from vil_renderer.embedded.scenes.shapes import MeshBuilder, box, join

_BEACON_M: Final = 0.06
_CORNERS: Final = ((1, 1), (-1, 1), (-1, -1), (1, -1))
_LEG_M: Final = 0.1
_LYING: Final = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
"""Turns z to -y."""


def add_gate(
    builder: SceneBuilder,
    centre_m: tuple[float, float, float],
    yaw_rad: float,
    *,
    opening_m: tuple[float, float],
    bar_m: tuple[float, float],
    surface: str = "gate",
    tint: Tint = WHITE,
    outset_m: float | None = None,
) -> None:
    """Add a gate with its opening along +x.

    Args:
        builder: takes the thing, the gate and its beacons: 1 top left as the pilot sees it, then
            clockwise.
        centre_m: of the opening.
        yaw_rad: of the flight direction.
        opening_m: width and height.
        bar_m: width and depth of the frame around it.
        surface: what covers it.
        tint: factor on that.
        outset_m: of the beacons from the corners of the opening; None = to the middle of the frame.
    """
    thing = _frame(opening_m, bar_m, surface, tint)
    _legs(thing, opening_m, bar_m, centre_m[2])
    outset = 0.5 * min(bar_m[0], 0.2) if outset_m is None else outset_m
    reach_y, reach_z = (0.5 * opening + outset for opening in opening_m)
    front = -0.5 * bar_m[1]
    marks = [(front - _BEACON_M, sy * reach_y, sz * reach_z) for sy, sz in _CORNERS]
    for x, y, z in marks:
        # Half of the little cube is sunk, so that none of its faces lies on one of the frame.
        thing.add(
            box((2 * _BEACON_M, _BEACON_M, _BEACON_M)).at(x + _BEACON_M, y, z - 0.5 * _BEACON_M),
            "beacon",
        )
    gate = builder.put("Gate", "gate", thing, centre_m, yaw_rad)
    q_xyzw = (0.0, 0.0, np.sin(0.5 * yaw_rad), np.cos(0.5 * yaw_rad))
    builder.gates.append(Gate(gate.name, Transform.of(centre_m, q_xyzw), *opening_m))
    for number, mark in enumerate(marks, start=1):
        p_m = np.array(centre_m) + yaw_matrix(yaw_rad) @ (np.array(mark) - (0.005, 0.0, 0.0))
        builder.beacons.append(Beacon(f"{gate.name}_{number}", p_m))


def _frame(
    opening_m: tuple[float, float], bar_m: tuple[float, float], surface: str, tint: Tint
) -> Thing:
    """Build four bars around the origin, each with its own strip of the texture along it."""
    (width, height), (bar, depth) = opening_m, bar_m
    whole_m = height + 2 * bar
    thing = Thing()
    for k, side in enumerate((1, -1)):
        y = side * 0.5 * (width + bar)
        z = side * 0.5 * (height + bar)
        thing.add(
            _bar(depth, bar, whole_m, 0.5 * k, whole_m).at(0.0, y, -0.5 * whole_m), surface, tint
        )
        cap = box((depth, bar, whole_m), uv=(0.0, 0.0, depth / whole_m, bar / whole_m), faces="zZ")
        thing.add(cap.at(0.0, y, -0.5 * whole_m), surface, tint)
        lintel = (
            _bar(depth, bar, width, 0.5 * k + 0.25, whole_m)
            .at(0.0, 0.0, -0.5 * width)
            .turned(_LYING)
        )
        thing.add(lintel.at(0.0, 0.0, z), surface, tint)
    return thing


def _bar(depth_m: float, bar_m: float, length_m: float, u: float, whole_m: float) -> MeshBuilder:
    """Build an upright bar without ends; the whole texture is ``whole_m`` large."""
    v = length_m / whole_m
    flanks = box(
        (depth_m, bar_m, length_m), uv=(u, 0.0, u + depth_m / whole_m, v), cell_m=0.4, faces="yY"
    )
    return join(
        [
            box(
                (depth_m, bar_m, length_m),
                uv=(u, 0.0, u + bar_m / whole_m, v),
                cell_m=0.4,
                faces="xX",
            ),
            flanks,
        ]
    )


def _legs(
    thing: Thing, opening_m: tuple[float, float], bar_m: tuple[float, float], centre_z_m: float
) -> None:
    length = centre_z_m - 0.5 * opening_m[1] - bar_m[0]
    if length < 0.02:
        return
    for side in (1, -1):
        y = side * 0.5 * (opening_m[0] + bar_m[0])
        thing.add(
            box((_LEG_M, _LEG_M, length), uv=1.0, faces="xXyY").at(0.0, y, -centre_z_m),
            "steel",
            (0.4, 0.4, 0.44),
        )
        foot = box((0.6, 0.3, 0.03), uv=1.0, faces="xXyYz").at(0.0, y, -centre_z_m)
        thing.add(foot, "steel", (0.3, 0.3, 0.33))
