"""The procedural hall: 20 x 14 x 6 m, every surface full of corners at several scales.

The drone flies in x -3..1, y -2.5..2.5, z 0.8..2.5 and a human walks around (4, 0): those volumes stay
free. Everything else is placed so that depth seen from there varies between 2 and 13 m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.geometry import yaw_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.boxes import Boxes
from vil_renderer.embedded.lighting import Lights
from vil_renderer.embedded.mesh import Panel, Solids
from vil_renderer.embedded.textures import Layer

__all__ = ["Blueprint", "design_hall", "gate_bars"]

_X_M: Final = 10.0
_Y_M: Final = 7.0
_HEIGHT_M: Final = 6.0
_LAMP_Z_M: Final = 5.0
_BEACON_M: Final = 0.06

_LOWER: Final = (Layer.WALL_BRICK, Layer.WALL_BLOCK, Layer.WALL_BOARD)
_UPPER: Final = (Layer.WALL_WINDOW, Layer.WALL_SHEET)
_FLOOR: Final = (Layer.FLOOR_PLAIN, Layer.FLOOR_LANE, Layer.FLOOR_MARKED, Layer.FLOOR_PLAIN)
_CEILING: Final = (Layer.CEILING_TILES, Layer.CEILING_TRAYS)

_Vec = tuple[float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Blueprint:
    """What a scene is made of, before it is meshed and lit.

    Attributes:
        furniture: things with a volume. shell: panels around them with the boxes behind the panels.
        beacons: IR beacons, name and position in the world, shape (3,).
    """

    furniture: Solids
    shell: Solids
    lights: Lights
    beacons: tuple[tuple[str, FloatArray], ...] = ()
    zenith: _Vec = (0.42, 0.62, 0.86)
    horizon: _Vec = (0.84, 0.89, 0.93)


def gate_bars(width_m: float, height_m: float, bar_m: float) -> list[tuple[_Vec, _Vec]]:
    """Centre and size of a gate's four bars around its own centre; one flies through along x."""
    y, z = 0.5 * (width_m - bar_m), 0.5 * (height_m - bar_m)
    upright, lintel = (bar_m, bar_m, height_m), (bar_m, width_m - 2 * bar_m, bar_m)
    return [((0.0, y, 0.0), upright), ((0.0, -y, 0.0), upright), ((0.0, 0.0, z), lintel), ((0.0, 0.0, -z), lintel)]


def design_hall() -> Blueprint:
    """Place everything; the same at every call."""
    rng = np.random.default_rng(7)
    furniture, shell = Solids(), Solids()
    _shell(rng, shell)
    _structure(furniture)
    lamps = _lamps(furniture)
    _containers(furniture)
    _crates(rng, furniture)
    _rack(rng, furniture, (0.2, 6.3), 4.2, 0.0)
    _rack(rng, furniture, (-9.4, -1.5), 4.2, math.pi / 2)
    _rack(rng, furniture, (-4.6, -6.4), 3.4, 0.0)
    _posters(rng, furniture)
    beacons = _gates(furniture)
    lights = Lights(
        sky=np.array([0.62, 0.66, 0.72]),
        ground=np.array([0.34, 0.31, 0.28]),
        to_sun=np.array([-0.46, 0.38, 0.80]) / np.linalg.norm([-0.46, 0.38, 0.80]),
        sun=np.array([0.60, 0.55, 0.46]),
        lamps_m=lamps,
        lamp=np.array([2.6, 2.3, 1.9]),
    )
    return Blueprint(furniture, shell, lights, tuple(beacons))


def _shell(rng: np.random.Generator, shell: Solids) -> None:
    x, y, h = _X_M, _Y_M, _HEIGHT_M
    east, north, up = np.eye(3)
    walls = (
        (np.array([x, y, 0.0]), -north, 2 * y, 4),
        (np.array([-x, -y, 0.0]), north, 2 * y, 4),
        (np.array([-x, y, 0.0]), east, 2 * x, 5),
        (np.array([x, -y, 0.0]), -east, 2 * x, 5),
    )
    for corner, along, length, columns in walls:
        width = length / columns
        first = int(rng.integers(0, 3))
        for column in range(columns):
            at = corner + along * width * column
            lower, upper = _LOWER[(first + column) % 3], _UPPER[(first + column) % 2]
            for layer, z in ((lower, 0.0), (upper, 0.5 * h)):
                tint = float(rng.uniform(0.88, 1.08))
                shell.panels.append(
                    Panel(at + z * up, along * width, 0.5 * h * up, layer, tint=(tint, tint * 0.99, tint * 0.97))
                )
    for layers, z, right, corner in (
        (_FLOOR, 0.0, east, np.array([-x, -y, 0.0])),
        (_CEILING, h, -east, np.array([x, -y, h])),
    ):
        for column in range(5):
            for row in range(4):
                turned = bool(rng.integers(0, 2))
                at = corner + 4.0 * column * right + 3.5 * row * north
                shell.panels.append(
                    Panel(
                        at, 4.0 * right, 3.5 * north, layers[(column + 3 * row + row // 2) % len(layers)],
                        uv=(1.0, 1.0, 0.0, 0.0) if turned else (0.0, 0.0, 1.0, 1.0),
                        cell_m=0.34 if z == 0.0 else 0.8,
                    )
                )  # fmt: skip
    centre = np.array([[x + 1, 0, 3], [-x - 1, 0, 3], [0, y + 1, 3], [0, -y - 1, 3], [0, 0, -1], [0, 0, h + 1]])
    half = np.array([[1, 9, 5], [1, 9, 5], [12, 1, 5], [12, 1, 5], [12, 9, 1], [12, 9, 1]])
    shell.boxes.append(Boxes(centre.astype(float), np.tile(np.eye(3), (6, 1, 1)), half.astype(float)))


def _structure(solids: Solids) -> None:
    for x in (-7.5, -2.5, 2.5, 7.5):
        for y in (-6.8, 6.8):
            solids.box((x, y, 3.0), (0.36, 0.36, 6.0), Layer.CONTAINER, tint=(0.95, 0.62, 0.25), cell_m=0.6)
        solids.box((x, 0.0, 5.65), (0.24, 13.8, 0.5), Layer.WALL_SHEET, tint=(0.80, 0.84, 0.88), cell_m=0.7)
    for y in (-3.5, 3.5):
        solids.box((0.0, y, 5.25), (19.6, 0.16, 0.2), Layer.CEILING_TRAYS, tint=(0.9, 0.9, 0.9), cell_m=0.8)


def _lamps(solids: Solids) -> FloatArray:
    places = [(x, y) for x in (-5.5, 0.0, 5.5) for y in (-3.5, 3.5)]
    for x, y in places:
        solids.box((x, y, _LAMP_Z_M + 0.08), (1.5, 0.34, 0.10), Layer.CONTAINER, tint=(0.5, 0.5, 0.52))
        solids.box(
            (x, y, _LAMP_Z_M), (1.4, 0.26, 0.06), Layer.CLOTH, uv=(0, 0, 0.5, 0.1), tint=(1.5, 1.45, 1.3), glow=True
        )
    return np.array([(x, y, _LAMP_Z_M - 0.2) for x, y in places])


def _containers(solids: Solids) -> None:
    for centre, size, yaw, tint in (
        ((8.5, 5.2, 1.25), (2.4, 2.9, 2.5), 0.0, (0.35, 0.62, 0.86)),
        ((4.9, -5.8, 1.25), (4.8, 2.0, 2.5), 0.0, (0.82, 0.42, 0.30)),
        ((5.6, -5.75, 3.5), (2.8, 1.8, 2.0), 0.12, (0.45, 0.70, 0.55)),
        ((-8.3, 5.2, 1.25), (2.6, 2.6, 2.5), 0.0, (0.90, 0.74, 0.34)),
    ):
        solids.box(centre, size, Layer.CONTAINER, yaw_rad=yaw, tint=tint)


def _crates(rng: np.random.Generator, solids: Solids) -> None:
    """Stacks of crates and cartons: centre x, y and the side of each from the bottom up."""
    stacks = (
        (8.9, -5.9, (1.3, 1.0)), (7.6, -6.2, (0.9,)), (9.2, -3.9, (0.9, 0.7, 0.45)), (9.2, 2.3, (1.1, 0.8)),
        (9.3, 0.9, (0.7, 0.5)), (9.0, -1.3, (0.8, 0.6)), (8.2, -2.2, (0.55,)), (7.3, 3.6, (0.8, 0.6)),
        (6.2, 5.9, (1.2, 0.9, 0.6)), (5.0, 6.2, (0.8,)), (3.4, 6.1, (1.0, 0.6)), (3.6, 4.2, (0.6, 0.4)),
        (1.6, -5.9, (1.1, 0.8)), (0.4, -6.1, (0.7, 0.5)), (-1.2, -6.0, (1.2,)), (1.2, 4.6, (0.7,)),
        (-3.6, 6.0, (1.2, 0.9)), (-5.0, 5.9, (0.8, 0.8)), (-7.2, -5.9, (1.3, 0.9)), (-8.8, -5.6, (0.9, 0.6)),
        (-9.2, 2.0, (1.0, 0.7)), (-8.9, 3.2, (0.6,)), (-6.0, -4.2, (0.7, 0.5)), (2.4, -4.0, (0.5,)),
    )  # fmt: skip
    for x, y, sides in stacks:
        z = 0.0
        for level, side in enumerate(sides):
            layer = Layer.CRATE if (level + len(sides) + round(x)) % 2 else Layer.CARDBOARD
            warm = float(rng.uniform(0.85, 1.1))
            height = side * float(rng.uniform(0.7, 1.0))
            solids.box(
                (x + float(rng.uniform(-0.05, 0.05)), y, z + 0.5 * height),
                (side, side * float(rng.uniform(0.8, 1.1)), height),
                layer, yaw_rad=float(rng.uniform(-0.3, 0.3)), tint=(warm, warm * 0.97, warm * 0.92),
            )  # fmt: skip
            z += height


def _rack(rng: np.random.Generator, solids: Solids, at: tuple[float, float], length: float, yaw: float) -> None:
    c, s = math.cos(yaw), math.sin(yaw)

    def place(x: float, y: float, z: float, size: _Vec, layer: Layer, tint: _Vec, turn: float = 0.0) -> None:
        solids.box((at[0] + c * x - s * y, at[1] + s * x + c * y, z), size, layer, yaw_rad=yaw + turn, tint=tint)

    for x in (-0.5 * length, 0.0, 0.5 * length):
        for y in (-0.38, 0.38):
            place(x, y, 1.5, (0.08, 0.08, 3.0), Layer.CONTAINER, (0.30, 0.48, 0.80))
    for z in (0.25, 1.2, 2.15, 3.0):
        place(0.0, 0.0, z, (length, 0.84, 0.06), Layer.CONTAINER, (0.95, 0.55, 0.25))
        x = -0.5 * length + 0.45
        while x < 0.5 * length - 0.3:
            w, h = float(rng.uniform(0.3, 0.6)), float(rng.uniform(0.25, 0.62))
            layer = (Layer.CARDBOARD, Layer.CARDBOARD, Layer.CRATE)[int(rng.integers(0, 3))]
            warm = float(rng.uniform(0.8, 1.12))
            turn = float(rng.uniform(-0.15, 0.15))
            place(x, float(rng.uniform(-0.1, 0.1)), z + 0.03 + 0.5 * h, (w, 0.5, h), layer, (warm, warm, warm), turn)
            x += w + float(rng.uniform(0.06, 0.3))


def _posters(rng: np.random.Generator, solids: Solids) -> None:
    solids.box((9.94, 0.0, 3.75), (0.08, 3.5, 3.5), Layer.BANNER)
    solids.box((-9.94, 0.0, 4.2), (0.08, 3.0, 3.0), Layer.BANNER)
    for k in range(22):
        layer = (Layer.BANNER, Layer.CARDBOARD, Layer.GATE, Layer.WALL_BOARD, Layer.FLOOR_MARKED)[k % 5]
        u, v = (float(a) for a in rng.uniform(0.0, 0.55, 2))
        size = float(rng.uniform(0.5, 1.1))
        z = float(rng.uniform(1.3, 4.8))
        uv = (u, v, u + 0.42, v + 0.42)
        if k % 2:
            side = 1.0 if k % 4 == 1 else -1.0
            solids.box((float(rng.uniform(-9, 9)), side * 6.97, z), (size, 0.05, size), layer, uv=uv)
        else:
            side = 1.0 if k % 4 == 0 else -1.0
            y = float(rng.choice((-1.0, 1.0)) * rng.uniform(2.3, 6.2))
            solids.box((side * 9.97, y, z), (0.05, size, size), layer, uv=uv)


def _gates(solids: Solids) -> list[tuple[str, FloatArray]]:
    """Race gates on legs; beacons sit on the corners of the face that looks back along the flight direction."""
    beacons: list[tuple[str, FloatArray]] = []
    for number, (x, y, z, yaw, side) in enumerate(
        (
            (6.0, 3.3, 1.75, -0.25, 1.7),
            (7.4, -2.9, 2.05, 0.30, 1.8),
            (1.9, -3.9, 2.6, 0.75, 1.6),
            (8.0, 0.6, 1.9, 0.0, 1.5),
            (-6.2, 3.2, 1.8, 2.7, 1.7),
            (-6.8, -2.4, 1.9, -2.6, 1.6),
        ),
        start=1,
    ):
        rotation = yaw_matrix(yaw)
        centre = np.array([x, y, z])
        bar = 0.2
        for k, (offset, size) in enumerate(gate_bars(side, side, bar)):
            at = centre + rotation @ offset
            uv = (0.25 * k, 0.0, 0.25 * k + 0.125, 1.0) if k < 2 else (0.0, 0.25 * k, 1.0, 0.25 * k + 0.125)
            solids.box((at[0], at[1], at[2]), size, Layer.GATE, yaw_rad=yaw, uv=uv, cell_m=0.3)
        leg = z - 0.5 * side
        for lateral in (0.5 * side - 0.1, 0.1 - 0.5 * side):
            at = centre + rotation @ (0.0, lateral, 0.0)
            solids.box((at[0], at[1], 0.5 * leg), (0.1, 0.1, leg), Layer.CONTAINER, yaw_rad=yaw, tint=(0.5, 0.5, 0.55))
        reach = 0.5 * side - 0.5 * bar
        for k, (sy, sz) in enumerate(((1, 1), (-1, 1), (-1, -1), (1, -1)), start=1):
            face = centre + rotation @ (-0.5 * bar, sy * reach, sz * reach)
            at = face + rotation @ (-0.5 * _BEACON_M, 0.0, 0.0)
            solids.box(
                (at[0], at[1], at[2]),
                (_BEACON_M, _BEACON_M, _BEACON_M),
                Layer.CLOTH,
                yaw_rad=yaw,
                tint=(1.6, 0.2, 0.3),
                glow=True,
            )
            beacons.append((f"Gate{number}_{k}", face + rotation @ (-_BEACON_M - 0.005, 0.0, 0.0)))
    return beacons
