"""The shipped human: a builder of 1.75 m with helmet and vest, skinned, standing with the arms half lifted.

Every part is a loft along its bones and overlaps its neighbours. Forward is x; the floor is z = 0.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.clothes import PLACES, clothes
from vil_renderer.embedded.actors.lofts import loft, smooth_table
from vil_renderer.embedded.actors.turning import unit
from vil_renderer.embedded.assets.model import Asset, Node, Primitive, Skin
from vil_renderer.embedded.scenes.shapes import MeshBuilder, UvRect, join

_V = tuple[float, float, float]
_V4 = tuple[float, float, float, float]
_TRUNK: Final[dict[str, tuple[str, _V]]] = {
    "Hips": ("", (0.0, 0.0, 0.95)),
    "Spine": ("Hips", (0.0, 0.0, 1.06)),
    "Chest": ("Spine", (0.0, 0.0, 1.19)),
    "Neck": ("Chest", (-0.012, 0.0, 1.47)),
    "Head": ("Neck", (0.006, 0.0, 1.555)),
}
_LIMBS: Final[dict[str, tuple[str, _V]]] = {
    "Shoulder": ("Chest", (0.0, 0.03, 1.415)),
    "Arm": ("Shoulder", (0.0, 0.185, 1.405)),
    "ForeArm": ("Arm", (-0.010, 0.385, 1.205)),
    "Hand": ("ForeArm", (0.030, 0.555, 1.035)),
    "UpLeg": ("Hips", (0.0, 0.092, 0.91)),
    "Leg": ("UpLeg", (0.012, 0.098, 0.50)),
    "Foot": ("Leg", (-0.020, 0.104, 0.085)),
    "ToeBase": ("Foot", (0.115, 0.110, 0.025)),
}
"""Joints: parent and place, metres; those of the left side."""

# Height; half width, half depth, how far forward the middle lies; from the crotch to the collar.
_TORSO: Final = (
    (0.800, 0.060, 0.055, 0.000),
    (0.840, 0.135, 0.098, -0.008),
    (0.900, 0.170, 0.120, -0.010),
    (0.960, 0.172, 0.120, -0.004),
    (1.060, 0.158, 0.112, 0.004),
    (1.180, 0.168, 0.120, 0.006),
    (1.290, 0.188, 0.128, 0.002),
    (1.370, 0.200, 0.120, -0.006),
    (1.420, 0.186, 0.098, -0.012),
    (1.448, 0.140, 0.080, -0.014),
    (1.470, 0.092, 0.070, -0.014),
    (1.490, 0.066, 0.062, -0.012),
)
# From within the collar to the crown.
_HEAD: Final = (
    (1.440, 0.056, 0.058, -0.014),
    (1.520, 0.054, 0.060, -0.006),
    (1.548, 0.062, 0.082, 0.016),
    (1.585, 0.070, 0.096, 0.022),
    (1.640, 0.077, 0.101, 0.014),
    (1.700, 0.074, 0.096, 0.006),
    (1.735, 0.052, 0.068, 0.002),
    (1.750, 0.018, 0.022, 0.000),
)
_HELMET: Final = (
    (1.668, 0.090, 0.116, 0.008),
    (1.670, 0.103, 0.144, 0.018),
    (1.676, 0.104, 0.144, 0.018),
    (1.684, 0.097, 0.120, 0.006),
    (1.720, 0.092, 0.112, 0.004),
    (1.760, 0.068, 0.084, 0.002),
    (1.781, 0.026, 0.032, 0.000),
)
# Share of the way along both bones (0..1 the upper, 1..2 the lower one); half width, half depth.
_ARM: Final = (
    (-0.22, 0.020, 0.030),
    (-0.12, 0.044, 0.054),
    (0.08, 0.058, 0.063),
    (0.40, 0.056, 0.058),
    (0.85, 0.046, 0.047),
    (1.02, 0.044, 0.046),
    (1.25, 0.046, 0.047),
    (1.75, 0.036, 0.037),
    (2.02, 0.034, 0.035),
)
_LEG: Final = (
    (-0.10, 0.060, 0.070),
    (0.02, 0.086, 0.098),
    (0.20, 0.087, 0.098),
    (0.60, 0.074, 0.082),
    (0.95, 0.062, 0.066),
    (1.05, 0.060, 0.064),
    (1.30, 0.060, 0.066),
    (1.70, 0.052, 0.056),
    (1.98, 0.055, 0.060),
    (2.01, 0.040, 0.045),
)
# Distance from the wrist; half width, half thickness.
_HAND: Final = (
    (-0.015, 0.026, 0.024),
    (0.020, 0.034, 0.021),
    (0.075, 0.042, 0.017),
    (0.120, 0.041, 0.014),
    (0.165, 0.032, 0.011),
    (0.185, 0.012, 0.006),
)
_THUMB: Final = ((0.0, 0.013, 0.013), (0.040, 0.014, 0.012), (0.070, 0.011, 0.010), (0.082, 0.004, 0.004))
# Forward of the ankle; half width, height of the upper, height of the sole's underside.
_SHOE: Final = (
    (-0.078, 0.014, 0.062, 0.018),
    (-0.070, 0.034, 0.086, 0.002),
    (-0.030, 0.042, 0.118, 0.000),
    (0.030, 0.042, 0.112, 0.000),
    (0.080, 0.047, 0.078, 0.000),
    (0.140, 0.052, 0.062, 0.000),
    (0.185, 0.046, 0.052, 0.002),
    (0.208, 0.022, 0.038, 0.010),
)


@cache
def figure() -> Asset:
    """Return the human: its joints and its one skinned mesh."""
    joints = _joints()
    names = list(joints)
    places = np.array([place for _, place in joints.values()])
    nodes = []
    for name, (parent, place) in joints.items():
        above = names.index(parent) if parent else -1
        nodes.append(Node(name, above, np.array(place) - (joints[parent][1] if parent else (0.0, 0.0, 0.0))))
    inverse_bind = np.tile(np.eye(4), (len(names), 1, 1))
    inverse_bind[:, :3, 3] = -places
    skin = Skin(tuple(range(len(names))), inverse_bind)
    nodes.append(Node("builder", primitives=(_primitive(names, joints),), skin=skin))
    return Asset("human", tuple(nodes), origin="procedural")


def _joints() -> dict[str, tuple[str, _V]]:
    joints = dict(_TRUNK)
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        for name, (parent, (x, y, z)) in _LIMBS.items():
            joints[side + name] = (parent if parent in _TRUNK else side + parent, (x, sign * y, z))
    return joints


# --- the mesh ------------------------------------------------------------------------------------

_Part = tuple[MeshBuilder, FloatArray]
"""A mesh, and the weights of all joints on its vertices (n, joints)."""


def _primitive(names: list[str], joints: dict[str, tuple[str, _V]]) -> Primitive:
    at = {name: np.array(place) for name, (_, place) in joints.items()}
    blend = _Blend(names)
    parts = [_torso(blend), _head(blend), _helmet(blend)]
    for side in ("Left", "Right"):
        parts += [_limb(blend, at, side, "arm"), _limb(blend, at, side, "leg")]
        parts += [*_hand(blend, at, side), _shoe(blend, at, side)]
    mesh = join([part for part, _ in parts])
    weights = np.concatenate([share for _, share in parts])
    heaviest = np.argsort(-weights, axis=1, kind="stable")[:, :4]
    largest = np.take_along_axis(weights, heaviest, axis=1)
    shares = (largest / largest.sum(axis=1, keepdims=True)).astype(np.float32)
    return mesh.primitive(clothes(), joints=heaviest.astype(np.uint16), weights=shares)


class _Blend:
    """Weights of joints on vertices."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def along(self, chain: list[str], share: FloatArray) -> FloatArray:
        """Return shares (n,) along a chain: 0 = all the first joint's, 1 = all the second's..., rounded in between."""
        weights = np.zeros((len(share), len(self._names)))
        for k, name in enumerate(chain):
            weights[:, self._names.index(name)] = np.clip(1.0 - np.abs(np.clip(share, 0, len(chain) - 1) - k), 0.0, 1.0)
        return weights

    def towards(self, weights: FloatArray, name: str, share: FloatArray) -> FloatArray:
        """Return the weights with a share (n,) given to one joint."""
        mixed: FloatArray = weights * (1.0 - share)[:, None]
        mixed[:, self._names.index(name)] += share
        return mixed


def _step(x: FloatArray, low: float, high: float) -> FloatArray:
    """Return the cubic smooth step from 0 at ``low`` to 1 at ``high``."""
    t = np.clip((x - low) / (high - low), 0.0, 1.0)
    return np.asarray(t * t * (3.0 - 2.0 * t))


def _rings(
    middle_m: FloatArray, along: FloatArray, back: FloatArray, sizes_m: FloatArray, columns: int, squareness: float
) -> FloatArray:
    """Return rounded cross-sections (rows, columns, 3).

    Args:
        middle_m: (rows, 3).
        along: direction of the path, (rows, 3).
        back: where u begins, roughly square to the path, (3,).
        sizes_m: half sizes across and towards ``back``, (rows, 2).
        columns: points of a ring.
        squareness: exponent of the superellipse, 2 = an ellipse.
    """
    first = unit(back - (along @ back)[:, None] * along)
    second = cross(along, first)
    turn = 2.0 * np.pi * np.arange(columns) / columns
    c, s = (np.sign(f) * np.abs(f) ** (2.0 / squareness) for f in (np.cos(turn), np.sin(turn)))
    deep, wide = sizes_m[:, 1, None, None] * first[:, None], sizes_m[:, 0, None, None] * second[:, None]
    return np.asarray(middle_m[:, None] + c[:, None] * deep + s[:, None] * wide)


def _upright(table: tuple[_V4, ...], part: str, rows: int, columns: int, squareness: float) -> MeshBuilder:
    """Return a loft up along z from a table of height, half width, half depth, middle."""
    z, wide, deep, forward = smooth_table(table, rows).T
    middle = np.stack((forward, np.zeros(rows), z), axis=-1)
    up = np.tile((0.0, 0.0, 1.0), (rows, 1))
    sizes = np.stack((wide, deep), axis=-1)
    return loft(_rings(middle, up, np.array([-1.0, 0.0, 0.0]), sizes, columns, squareness), PLACES[part])


def _torso(blend: _Blend) -> _Part:
    mesh = _upright(_TORSO, "torso", 26, 28, 2.4)
    y, z = mesh.p_m[:, 1], mesh.p_m[:, 2]
    weights = blend.along(["Hips", "Spine", "Chest"], _step(z, 0.95, 1.08) + _step(z, 1.08, 1.24))
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        collar = 0.8 * _step(sign * y, 0.10, 0.18) * _step(z, 1.28, 1.40)
        weights = blend.towards(weights, f"{side}Shoulder", collar)
        seat = 0.5 * _step(sign * y, 0.02, 0.12) * (1.0 - _step(z, 0.82, 0.93))
        weights = blend.towards(weights, f"{side}UpLeg", seat)
    return mesh, weights


def _head(blend: _Blend) -> _Part:
    mesh = _upright(_HEAD, "head", 18, 22, 2.2)
    z = mesh.p_m[:, 2]
    return mesh, blend.along(["Chest", "Neck", "Head"], _step(z, 1.44, 1.48) + _step(z, 1.515, 1.58))


def _helmet(blend: _Blend) -> _Part:
    mesh = _upright(_HELMET, "helmet", 16, 24, 2.0)
    return mesh, blend.along(["Head"], np.zeros(len(mesh.p_m)))


def _limb(blend: _Blend, at: dict[str, FloatArray], side: str, part: str) -> _Part:
    """Build an arm or a leg along both bones, rounded at the bend."""
    arm = part == "arm"
    chain = [side + name for name in (("Shoulder", "Arm", "ForeArm", "Hand") if arm else ("", "UpLeg", "Leg", "Foot"))]
    if not arm:
        chain[0] = "Hips"
    a, b, c = (at[name] for name in chain[1:])
    share, wide, deep = smooth_table(_ARM if arm else _LEG, 22).T
    lower = _step(share, 0.9, 1.1)[:, None]
    along = unit((1.0 - lower) * unit(b - a) + lower * unit(c - b))
    middle = np.where(share[:, None] < 1.0, a + share[:, None] * (b - a), b + (share[:, None] - 1.0) * (c - b))
    rings = _rings(middle, along, np.array([-1.0, 0.0, 0.0]), np.stack((wide, deep), axis=-1), 16, 2.1)
    mesh = loft(rings, _downward(PLACES[part]))
    s = np.concatenate((share[:1], share, share[-1:])).repeat(17)
    weights = blend.along(chain, _step(s, -0.14, 0.12) + _step(s, 0.86, 1.14) + _step(s, 1.93, 2.05))
    return mesh, weights


def _hand(blend: _Blend, at: dict[str, FloatArray], side: str) -> list[_Part]:
    """Build a mitten with its thumb to the front, as an extension of the forearm."""
    wrist = at[f"{side}Hand"]
    along = unit(wrist - at[f"{side}ForeArm"])
    front = unit(np.array([1.0, 0.0, 0.0]) - along[0] * along)
    parts = []
    for table, start, way in (
        (_HAND, np.zeros(3), along),
        (_THUMB, 0.035 * along + 0.018 * front, unit(0.75 * along + 0.65 * front)),
    ):
        out, wide, thick = smooth_table(table, 10).T
        middle = wrist + start + out[:, None] * way
        rings = _rings(middle, np.tile(way, (10, 1)), -front, np.stack((thick, wide), axis=-1), 12, 2.2)
        mesh = loft(rings, _downward(PLACES["hand"]))
        parts.append((mesh, blend.along([f"{side}Hand"], np.zeros(len(mesh.p_m)))))
    return parts


def _shoe(blend: _Blend, at: dict[str, FloatArray], side: str) -> _Part:
    ankle, toe = at[f"{side}Foot"], at[f"{side}ToeBase"]
    forward, wide, top, bottom = smooth_table(_SHOE, 16).T
    turn_out = (toe - ankle)[1] / (toe - ankle)[0]
    middle = np.stack((ankle[0] + forward, ankle[1] + turn_out * forward, 0.5 * (top + bottom)), axis=-1)
    sizes = np.stack((wide, 0.5 * (top - bottom)), axis=-1)
    along = np.tile((1.0, 0.0, 0.0), (len(forward), 1))
    mesh = loft(_rings(middle, along, np.array([0.0, 0.0, -1.0]), sizes, 16, 2.8), PLACES["shoe"])
    bend = _step(mesh.p_m[:, 0], toe[0] - 0.04, toe[0] + 0.03)
    return mesh, blend.along([f"{side}Foot", f"{side}ToeBase"], bend)


def _downward(place: UvRect) -> UvRect:
    """Return the texture rectangle for a loft whose path leads down."""
    left, top, right, bottom = place
    return (right, bottom, left, top)
