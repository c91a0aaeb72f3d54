"""Obstacle perturbation files: the small moves by which races vary their courses.

Lines ``Name: dx,dy,dyaw``: dx north and dy west in metres, dyaw clockwise seen from above in
degrees (FlightGogglesRenderer; flightgoggles_protocol.md section 4.4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.config.references import similar
from vil_bridge.core.geometry import Transform, yaw_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.scene import Beacon, Gate, Scene, SceneObject

_MAX_BYTES: Final = 1 << 20
_MAX_LINES: Final = 10_000
_MAX_MOVE_M: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Displacement:
    """Move of one object in the world (ENU).

    Metres, and radians counter-clockwise about its own origin.

    Attributes:
        place: ``file:line``, for messages.
    """

    place: str
    east_m: float
    north_m: float
    yaw_rad: float


def read_moves(path: Path) -> tuple[dict[str, Displacement], list[str]]:
    """Return moves by name, and the file's problems, as ``file:line: reason``."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        lines = raw.decode("utf-8-sig").splitlines()
    except OSError as exc:
        return {}, [f"{path}: cannot be read: {exc.strerror}"]
    except UnicodeDecodeError as exc:
        return {}, [f"{path}: is not UTF-8 text (byte {exc.start})"]
    if len(raw) > _MAX_BYTES or len(lines) > _MAX_LINES:
        return {}, [
            f"{path}: larger than {_MAX_BYTES} bytes or {_MAX_LINES} lines; this moves no obstacles"
        ]
    moves: dict[str, Displacement] = {}
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        place = f"{path}:{number}"
        name, _, values = text.rpartition(":")
        move = _move(values, place)
        if move is None or not name.strip():
            form = "must be written `Name: dx,dy,dyaw` (metres north, metres west, degrees)"
            problems.append(f"{place}: {form}, got {text[:60]!r}")
        elif moves.setdefault(name.strip(), move) is not move:
            problems.append(
                f"{place}: {name.strip()!r} is moved already, at {moves[name.strip()].place}"
            )
    return moves, problems


def _move(values: str, place: str) -> Displacement | None:
    try:
        dx, dy, dyaw = (float(value) for value in values.split(","))
    except ValueError:
        return None
    if not (abs(dx) <= _MAX_MOVE_M and abs(dy) <= _MAX_MOVE_M and abs(dyaw) <= 360.0):
        return None
    return Displacement(place, -dy, dx, math.radians(-dyaw))


def perturbed(scene: Scene, moves: Mapping[str, Displacement]) -> tuple[Scene, list[str]]:
    """Return the scene with gates and objects moved, their frames and beacons ``NAME_*`` too,
    and unknown names.
    """
    pivots = {thing.name: thing.world_from_asset[:3, 3] for thing in scene.objects}
    pivots |= {gate.name: gate.T_world_gate.p_m for gate in scene.gates}
    problems: list[str] = []
    for name, move in moves.items():
        if name in pivots:
            scene = _moved(scene, name, _about(pivots[name], move))
        else:
            problems.append(
                f"{move.place}: no gate or object is named {name!r}{similar(name, pivots)}"
            )
    return scene, problems


def _about(pivot_m: FloatArray, move: Displacement) -> Transform:
    """Return the move as a transform of world coordinates."""
    q_xyzw = (0.0, 0.0, math.sin(0.5 * move.yaw_rad), math.cos(0.5 * move.yaw_rad))
    shift = np.array([move.east_m, move.north_m, 0.0])
    return Transform.of(pivot_m + shift - yaw_matrix(move.yaw_rad) @ pivot_m, q_xyzw)


def _moved(scene: Scene, name: str, T_new_old: Transform) -> Scene:
    matrix = T_new_old.matrix()

    def placed(thing: SceneObject) -> SceneObject:
        if thing.name != name:
            return thing
        world_from_asset = matrix @ thing.world_from_asset
        path = thing.path and thing.path.moved(T_new_old)
        return replace(thing, world_from_asset=world_from_asset, path=path)

    def opened(gate: Gate) -> Gate:
        if gate.name != name:
            return gate
        return replace(gate, T_world_gate=T_new_old @ gate.T_world_gate)

    def beacon(one: Beacon) -> Beacon:
        if one.carrier or one.name.rpartition("_")[0] != name:
            return one
        return replace(one, p_m=T_new_old.apply(one.p_m))

    return replace(
        scene,
        objects=tuple(placed(thing) for thing in scene.objects),
        gates=tuple(opened(gate) for gate in scene.gates),
        beacons=tuple(beacon(one) for one in scene.beacons),
    )
