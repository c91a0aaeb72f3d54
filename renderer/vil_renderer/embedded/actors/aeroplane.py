"""A model aeroplane of 1.5 m span.

Lofted fuselage and wings, control surfaces, gear, lights, a turning propeller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.actors.lofts import capsule, loft, smooth_table
from vil_renderer.embedded.actors.people.rings import rounded
from vil_renderer.embedded.assets.model import Asset, Node
from vil_renderer.embedded.scenes.builder import Thing, Tint
from vil_renderer.embedded.scenes.shapes import MeshBuilder, bevelled, lathe, tube

PROPELLER_REV_PER_S: Final[Mapping[str, float]] = {"propeller": 15.4}
"""About x; slow enough to be seen turning."""

_SPAN_M: Final = 1.5
_NOSE_M: Final = 0.40
_PROPELLER_M: Final = 0.140

_WHITE: Final[Tint] = (0.90, 0.91, 0.90)
_RED: Final[Tint] = (0.78, 0.12, 0.09)
_NAVY: Final[Tint] = (0.10, 0.16, 0.34)
_BLACK: Final[Tint] = (0.07, 0.07, 0.08)
_GREY: Final[Tint] = (0.42, 0.43, 0.45)
_RUBBER: Final[Tint] = (0.12, 0.12, 0.13)
_METAL: Final[Tint] = (0.80, 0.81, 0.82)
_GLASS: Final[Tint] = (0.13, 0.18, 0.24)
_GREEN: Final[Tint] = (0.10, 0.75, 0.25)

_FUSELAGE: Final = (
    # x, half width, half height, height of the middle.
    (-0.66, 0.010, 0.020, 0.030),
    (-0.40, 0.028, 0.036, 0.020),
    (-0.15, 0.056, 0.066, 0.004),
    (0.05, 0.068, 0.082, 0.000),
    (0.22, 0.066, 0.078, -0.002),
    (0.34, 0.056, 0.060, 0.000),
    (0.39, 0.046, 0.046, 0.000),
    (0.40, 0.040, 0.040, 0.000),
)
_CANOPY: Final = (
    (-0.17, 0.004, 0.004, 0.068),
    (-0.10, 0.030, 0.030, 0.068),
    (0.00, 0.044, 0.056, 0.070),
    (0.09, 0.046, 0.062, 0.070),
    (0.17, 0.034, 0.040, 0.066),
    (0.22, 0.004, 0.004, 0.066),
)

_Index = npt.NDArray[np.intp]

_Station = tuple[float, float, float, float]
"""Along the span, leading edge along x, chord, offset square to the span and the chord; metres."""


def aeroplane() -> Asset:
    """Build a body node and a propeller that turns about x, which is ahead.

    The origin lies in the fuselage.
    """
    body = Thing()
    _fuselage(body)
    _wings(body)
    _tail(body)
    _gear(body)
    frame = Node("airframe", primitives=body.asset("airframe").nodes[0].primitives)
    at = np.array([_NOSE_M + 0.012, 0.0, 0.0])
    blades = Node(
        "propeller", 0, at, primitives=_propeller().asset("propeller").nodes[0].primitives
    )
    return Asset("fixed_wing", (frame, blades), origin="procedural")


def _fuselage(thing: Thing) -> None:
    """Add hull with cowl and stripe, canopy, air intake, exhaust, camera below."""
    hull, (row, column) = loft(_along_x(_FUSELAGE, 34, 24, 2.5)), _cells(34, 24)
    cowl = row > 29
    stripe = ~cowl & (row < 29) & np.isin(column, (4, 5, 18, 19))
    for mask, tint in ((cowl, _RED), (stripe, _NAVY), (~cowl & ~stripe, _WHITE)):
        thing.add(_only(hull, mask), "plain", tint)
    glass, (row, _) = loft(_along_x(_CANOPY, 29, 20, 2.0)), _cells(29, 20)
    bow = np.isin(row, (1, 2, 11, 20))
    thing.add(_only(glass, ~bow), "plain", _GLASS).add(_only(glass, bow), "plain", _WHITE)
    for side in (1.0, -1.0):
        thing.add(
            bevelled((0.010, 0.026, 0.018), 0.004).at(0.394, 0.026 * side, -0.030), "plain", _BLACK
        )
        pipe = capsule(
            np.array([0.30, 0.054 * side, -0.035]),
            np.array([0.23, 0.078 * side, -0.052]),
            (0.008, 0.008),
        )
        thing.add(pipe, "steel", _GREY)
    ball = lathe(
        [(0.0, -0.026), (0.018, -0.019), (0.026, 0.0), (0.022, 0.014), (0.022, 0.030)],
        20,
        smooth=True,
    )
    thing.add(ball.at(0.02, 0.0, -0.092), "plain", _BLACK)
    lens = lathe([(0.011, 0.0), (0.011, 0.006), (0.0, 0.004)], 14).turned(_UP_TO_FORWARD)
    thing.add(lens.at(0.040, 0.0, -0.096), "plain", _GLASS)
    thing.add(tube([(-0.24, 0.0, 0.055), (-0.26, 0.0, 0.14)], 0.0025, 6), "plain", _BLACK)


def _wings(thing: Thing) -> None:
    """Add both wings as one, with ailerons, flaps, tips in colour, lights and the pitot tube."""
    half = 0.5 * _SPAN_M
    inner: list[_Station] = [
        (0.0, 0.155, 0.255, -0.030),
        (0.20, 0.150, 0.245, -0.022),
        (0.64, 0.118, 0.180, 0.012),
    ]
    tip: list[_Station] = [
        (0.70, 0.110, 0.165, 0.018),
        (0.735, 0.092, 0.132, 0.022),
        (half, 0.066, 0.080, 0.024),
    ]
    half_span: list[_Station] = [*inner, *tip]
    stations: list[_Station] = [
        *((-y, x, c, z) for y, x, c, z in reversed(half_span[1:])),
        *half_span,
    ]
    front = loft(_aerofoils(stations, 0.0, 0.745, 0.12))
    outer = np.abs(front.p_m[front.triangles].mean(axis=1)[:, 1]) > 0.64
    thing.add(_only(front, outer), "plain", _RED).add(_only(front, ~outer), "plain", _WHITE)
    for low, high, tint in ((0.07, 0.358, _NAVY), (0.362, 0.638, _NAVY), (0.642, half, _RED)):
        for side in (1.0, -1.0):
            ends = sorted((side * low, side * high))
            thing.add(
                loft(_aerofoils(_cut(stations, ends[0], ends[1]), 0.755, 1.0, 0.12)), "plain", tint
            )
    for side in (1.0, -1.0):
        light = capsule(
            np.array([0.045, 0.742 * side, 0.024]),
            np.array([0.020, 0.742 * side, 0.024]),
            (0.007, 0.006),
        )
        if side > 0.0:
            thing.add(light, "beacon")
        else:
            thing.add(light, "plain", _GREEN)
        for y in (0.24, 0.46):
            thing.add(
                bevelled((0.030, 0.004, 0.012), 0.001).at(-0.035, y * side, -0.030 + 0.03 * y),
                "plain",
                _BLACK,
            )
    thing.add(tube([(0.11, -0.52, 0.0), (0.19, -0.52, -0.002)], 0.003, 8), "steel", _METAL)


def _tail(thing: Thing) -> None:
    """Add tailplane with elevator, fin with rudder, and the tail light."""
    flat: list[_Station] = [
        (0.0, -0.49, 0.155, 0.040),
        (0.18, -0.525, 0.115, 0.040),
        (0.235, -0.545, 0.075, 0.040),
    ]
    plane: list[_Station] = [*((-y, x, c, z) for y, x, c, z in reversed(flat[1:])), *flat]
    fin: list[_Station] = [
        (0.02, -0.44, 0.215, 0.0),
        (0.15, -0.535, 0.125, 0.0),
        (0.205, -0.575, 0.075, 0.0),
    ]
    for front, back in ((0.0, 0.62), (0.64, 1.0)):
        tint = _WHITE if back < 1.0 else _RED
        thing.add(loft(_aerofoils(plane, front, back, 0.09)), "plain", tint)
        thing.add(loft(_aerofoils(fin, front, back, 0.09)).turned(_LEFT_TO_UP), "plain", tint)
    light = capsule(
        np.array([-0.662, 0.0, 0.030]), np.array([-0.668, 0.0, 0.030]), (0.006, 0.005), 10
    )
    thing.add(light, "lamp_light")


def _gear(thing: Thing) -> None:
    """Add two main wheels on bent legs, and the tail wheel."""
    for side in (1.0, -1.0):
        leg = [
            (0.14, 0.030 * side, -0.070),
            (0.15, 0.085 * side, -0.120),
            (0.16, 0.150 * side, -0.185),
        ]
        thing.add(tube([*leg, (0.16, 0.190 * side, -0.188)], 0.0055, 10), "steel", _METAL)
        _wheel(thing, (0.16, 0.180 * side, -0.188), side, 0.042, 0.026)
    strut = [(-0.60, 0.0, 0.020), (-0.63, 0.0, -0.045), (-0.645, 0.0, -0.062)]
    thing.add(tube(strut, 0.0035, 8), "steel", _METAL)
    _wheel(thing, (-0.645, 0.004, -0.062), 1.0, 0.018, 0.012)


def _wheel(
    thing: Thing, at: tuple[float, float, float], side: float, radius_m: float, wide_m: float
) -> None:
    """Add a wheel about the y axis."""
    turn = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, side], [0.0, -side, 0.0]])
    r = radius_m
    w = 0.5 * wide_m
    tyre = [
        (0.55 * r, -0.8 * w),
        (0.85 * r, -w),
        (r, -0.45 * w),
        (r, 0.45 * w),
        (0.85 * r, w),
        (0.55 * r, 0.8 * w),
    ]
    thing.add(lathe(tyre, 22, smooth=True).turned(turn).at(*at), "plain", _RUBBER)
    for end in (1.0, -1.0):
        rim = lathe([(0.56 * r, 0.7 * w), (0.25 * r, 0.5 * w), (0.20 * r, 0.9 * w), (0.0, w)], 16)
        flipped = rim.turned(np.diag((1.0, end, end)))
        thing.add(flipped.turned(turn).at(*at), "plain", _METAL)


def _propeller() -> Thing:
    """Build spinner and two twisted blades around x."""
    spinner = [
        (0.0, -0.012),
        (0.038, -0.012),
        (0.038, 0.0),
        (0.034, 0.018),
        (0.024, 0.036),
        (0.010, 0.048),
        (0.0, 0.051),
    ]
    thing = Thing().add(lathe(spinner, 24).turned(_UP_TO_FORWARD), "plain", _WHITE)
    out = np.linspace(0.010, _PROPELLER_M, 12)
    share = out / _PROPELLER_M
    chord = 0.030 * np.sqrt(np.maximum(0.03, 1.0 - (1.55 * share - 0.62) ** 2))
    pitch = np.arctan(0.22 / np.maximum(share, 0.2))
    turn = 2.0 * np.pi * np.arange(12) / 12
    across = 0.5 * chord[:, None] * np.cos(turn)
    deep = 0.07 * chord[:, None] * np.sin(turn)
    c = np.cos(pitch)[:, None]
    s = np.sin(pitch)[:, None]
    rings = np.stack(
        (s * across + c * deep, c * across - s * deep, np.broadcast_to(out[:, None], across.shape)),
        -1,
    )
    blade = loft(rings)
    tip = _cells(12, 12)[0] > 9
    for half_turn in (1.0, -1.0):
        turned = np.diag((1.0, half_turn, half_turn))
        for mask, tint in ((tip, _WHITE), (~tip, _BLACK)):
            thing.add(_only(blade, mask).turned(turned), "plain", tint)
    return thing


def _along_x(
    table: Sequence[Sequence[float]], rows: int, columns: int, squareness: float
) -> FloatArray:
    """Return rings (rows, columns, 3) along x from a table of x, half width, half height, height
    of the middle.
    """
    x, wide, high, z = smooth_table(table, rows).T
    middle = np.stack((x, np.zeros(rows), z), axis=-1)
    ahead = np.tile((1.0, 0.0, 0.0), (rows, 1))
    up = np.array([0.0, 0.0, 1.0])
    return rounded(middle, ahead, up, np.stack((wide, high), axis=-1), columns, squareness)


def _aerofoils(
    stations: Sequence[_Station], front: float, back: float, thickness: float
) -> FloatArray:
    """Return rings along y of the part of an aerofoil between two shares of its chord.

    X is ahead, z up.
    """
    share = front + (back - front) * 0.5 * (1.0 - np.cos(np.linspace(0.0, math.pi, 11)))
    root = np.sqrt(share)
    half = (
        5.0
        * thickness
        * (
            0.2969 * root
            - 0.1260 * share
            - 0.3516 * share**2
            + 0.2843 * share**3
            - 0.1015 * share**4
        )
    )
    camber = 0.08 * thickness / 0.12 * share * (1.0 - share)
    upper = np.stack((share, camber + half))
    lower = np.stack((share, camber - half))
    outline = np.hstack((lower[:, 1 if front == 0.0 else 0 :], upper[:, ::-1]))
    y, lead, chord, lift = np.array(stations).T[..., None]
    return np.stack(
        (
            lead - chord * outline[0],
            np.broadcast_to(y, (len(y), outline.shape[1])),
            lift + chord * outline[1],
        ),
        -1,
    )


def _cut(stations: Sequence[_Station], low_m: float, high_m: float) -> list[_Station]:
    """Return the stations between two places along the span, with both ends."""
    table = np.array(stations)
    y = np.unique([low_m, *(v for v in table[:, 0] if low_m < v < high_m), high_m])
    columns = [np.interp(y, table[:, 0], table[:, k]).tolist() for k in range(1, 4)]
    return list(zip(y.tolist(), *columns, strict=True))


def _cells(rows: int, columns: int) -> tuple[_Index, _Index]:
    """Return row and column of the cell of each triangle of a loft.

    The first row, 0, and the last are the caps.
    """
    row = np.repeat(np.arange(rows + 1), [columns, *[2 * columns] * (rows - 1), columns])
    column = np.concatenate(
        (
            np.arange(columns),
            np.repeat(np.tile(np.arange(columns), rows - 1), 2),
            np.arange(columns),
        )
    )
    return row, column


def _only(mesh: MeshBuilder, mask: BoolArray) -> MeshBuilder:
    """Return some of the triangles with their vertices; normals stay, so that no seam shows."""
    used, index = np.unique(mesh.triangles[mask], return_inverse=True)
    return MeshBuilder(mesh.p_m[used], mesh.normal[used], mesh.uv[used], index.reshape(-1, 3))


_UP_TO_FORWARD: Final = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
_LEFT_TO_UP: Final = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
