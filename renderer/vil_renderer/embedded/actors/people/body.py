"""Trunk, limbs and shoes of a human, dressed: lofts that overlap their neighbours."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.lofts import loft, smooth_table
from vil_renderer.embedded.actors.people.builds import HumanBuild
from vil_renderer.embedded.actors.people.folds import Folds
from vil_renderer.embedded.actors.people.joints import Joints
from vil_renderer.embedded.actors.people.outfits import FOLDS, PLACES
from vil_renderer.embedded.actors.people.rings import (
    BACK,
    bulged,
    downward,
    folded,
    rounded,
    upright,
)
from vil_renderer.embedded.actors.people.weights import Blend, Part, steps
from vil_renderer.embedded.actors.turning import unit

_V4 = tuple[float, float, float, float]

# Height; half width, half depth, how far forward the middle lies.
_PELVIS: Final[tuple[_V4, ...]] = (
    (0.800, 0.060, 0.060, 0.000),
    (0.830, 0.128, 0.096, -0.006),
    (0.880, 0.168, 0.118, -0.010),
    (0.940, 0.170, 0.120, -0.008),
    (1.000, 0.160, 0.114, -0.002),
    (1.060, 0.150, 0.106, 0.002),
    (1.090, 0.146, 0.102, 0.004),
)
_TOP: Final[tuple[_V4, ...]] = (
    (0.925, 0.180, 0.131, -0.009),
    (0.970, 0.176, 0.127, -0.006),
    (1.020, 0.166, 0.120, 0.001),
    (1.080, 0.160, 0.115, 0.004),
    (1.160, 0.165, 0.118, 0.007),
    (1.250, 0.180, 0.127, 0.005),
    (1.320, 0.191, 0.127, 0.001),
    (1.375, 0.196, 0.116, -0.006),
    (1.408, 0.190, 0.101, -0.011),
    (1.432, 0.166, 0.087, -0.014),
    (1.455, 0.118, 0.075, -0.015),
    (1.478, 0.074, 0.067, -0.013),
    (1.492, 0.062, 0.062, -0.011),
)
_SKIRTS_OF_JACKET: Final[_V4] = (0.860, 0.190, 0.142, -0.010)
_SKIRT: Final[tuple[_V4, ...]] = (
    (0.520, 0.236, 0.190, 0.000),
    (0.600, 0.226, 0.180, -0.001),
    (0.720, 0.208, 0.160, -0.004),
    (0.840, 0.190, 0.138, -0.007),
    (0.930, 0.176, 0.124, -0.007),
    (1.020, 0.158, 0.112, 0.000),
    (1.075, 0.150, 0.107, 0.003),
)
# Share of the way along both bones (0..1 the upper, 1..2 the lower one); half width, half depth,
# forward.
_ARM: Final[tuple[_V4, ...]] = (
    (-0.20, 0.016, 0.026, 0.000),
    (-0.12, 0.030, 0.042, 0.000),
    (0.00, 0.043, 0.053, 0.000),
    (0.12, 0.049, 0.057, 0.000),
    (0.25, 0.049, 0.055, 0.001),
    (0.50, 0.044, 0.049, 0.003),
    (0.85, 0.037, 0.040, 0.000),
    (1.02, 0.036, 0.039, -0.002),
    (1.22, 0.040, 0.043, 0.000),
    (1.50, 0.035, 0.037, 0.000),
    (1.80, 0.026, 0.031, 0.000),
    (2.02, 0.023, 0.030, 0.000),
)
_LEG: Final[tuple[_V4, ...]] = (
    (-0.10, 0.056, 0.066, 0.000),
    (0.02, 0.078, 0.092, -0.006),
    (0.20, 0.082, 0.092, -0.002),
    (0.60, 0.068, 0.075, 0.003),
    (0.92, 0.054, 0.058, 0.002),
    (1.05, 0.050, 0.055, 0.000),
    (1.30, 0.052, 0.059, -0.012),
    (1.50, 0.046, 0.051, -0.009),
    (1.80, 0.034, 0.039, -0.002),
    (1.95, 0.034, 0.041, 0.000),
    (2.03, 0.036, 0.044, 0.004),
)
# Forward of the ankle; half width, height of the upper, height of the sole's underside.
_SHOE: Final[tuple[_V4, ...]] = (
    (-0.078, 0.016, 0.060, 0.010),
    (-0.070, 0.032, 0.086, 0.001),
    (-0.030, 0.039, 0.116, 0.000),
    (0.020, 0.039, 0.112, 0.000),
    (0.060, 0.043, 0.086, 0.000),
    (0.100, 0.048, 0.068, 0.000),
    (0.145, 0.050, 0.058, 0.000),
    (0.180, 0.043, 0.050, 0.001),
    (0.203, 0.026, 0.038, 0.008),
    (0.210, 0.010, 0.028, 0.014),
)
_SLEEVE: Final = {"vest": 1.96, "shirt": 1.97, "jacket": 2.00, "tee": 0.62}
_SLEEVE_M: Final = {"vest": 0.008, "shirt": 0.007, "jacket": 0.014, "tee": 0.010}
_TROUSERS_M: Final = 0.010
_HEM_M: Final = 0.026
_HEM: Final = 1.985


def trunk(build: HumanBuild, blend: Blend) -> list[Part]:
    """Return hips and top, or hips, top and skirt."""
    table = _TOP
    loose = 0.002
    if build.top == "jacket":
        table = (_SKIRTS_OF_JACKET, *_TOP)
        loose = 0.012
    elif build.top == "vest":
        loose = 0.006
    top = upright(_widened(table, build), 44, 34, 2.35)
    top = bulged(
        top,
        (0.10, 0.078 * build.shoulders, 1.265, 0.070, build.bust_m or 0.010),
        (0.10, 0.0, 1.06, 0.150, build.belly_m),
        (-0.10, 0.085, 1.33, 0.080, 0.010),
        (-0.10, 0.075, 0.90, 0.085, 0.020),
        (0.0, 0.0, 1.05, 0.40, loose),
    )
    hips = upright(_widened(_PELVIS, build), 18, 30, 2.35)
    hips = bulged(hips, (-0.10, 0.075, 0.90, 0.085, 0.018), (0.10, 0.0, 1.04, 0.120, build.belly_m))
    parts = [
        (loft(folded(top, FOLDS["top"], down=False), PLACES["top"])),
        loft(hips, PLACES["hips"]),
    ]
    if build.legs == "skirt":
        skirt = upright(_widened(_SKIRT, build), 34, 40, 2.1)
        parts.append(loft(_pleated(skirt), PLACES["skirt"]))
    return [(mesh, _trunk_weights(blend, mesh.p_m, skirt=k == 2)) for k, mesh in enumerate(parts)]


def _widened(table: tuple[_V4, ...], build: HumanBuild) -> list[_V4]:
    """Return a table of the trunk with the widths of a build."""
    rows = []
    for z, wide, deep, forward in table:
        at = [0.80, 0.92, 1.09, 1.28, 1.36, 1.44, 1.48]
        shoulders = build.shoulders
        factor = float(
            np.interp(
                z,
                at,
                [build.hips, build.hips, build.waist, shoulders, shoulders, shoulders, build.neck],
            )
        )
        rows.append((z, wide * factor, deep * (0.35 + 0.65 * factor), forward))
    return rows


def _pleated(rings_m: FloatArray) -> FloatArray:
    """Return a skirt with waves that grow towards the hem."""
    around = 2.0 * np.pi * np.arange(rings_m.shape[1]) / rings_m.shape[1]
    wave = 0.6 * np.sin(9.0 * around + 0.8) + 0.4 * np.sin(5.0 * around)
    fall = np.linspace(1.0, 0.0, len(rings_m))[:, None]
    middle = rings_m.mean(axis=1, keepdims=True)
    return np.asarray(rings_m + (0.014 * fall * wave)[..., None] * unit(rings_m - middle))


def _trunk_weights(blend: Blend, p_m: FloatArray, *, skirt: bool) -> FloatArray:
    y = p_m[:, 1]
    z = p_m[:, 2]
    weights = blend.along(["Hips", "Spine", "Chest"], steps(z, (0.95, 1.08), (1.08, 1.24)))
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        collar = 0.8 * steps(sign * y, (0.10, 0.18)) * steps(z, (1.28, 1.40))
        weights = blend.towards(weights, f"{side}Shoulder", collar)
        if skirt:
            seat = steps(sign * y, (-0.05, 0.10)) * (1.0 - steps(z, (0.78, 0.98)))
            weights = blend.towards(weights, f"{side}UpLeg", 0.96 * seat)
        else:
            seat = 0.5 * steps(sign * y, (0.02, 0.12)) * (1.0 - steps(z, (0.82, 0.93)))
            weights = blend.towards(weights, f"{side}UpLegTwist0", seat)
    return weights


def limb(build: HumanBuild, blend: Blend, joints: Joints, side: str, part: str) -> Part:
    """Build an arm or a leg along both bones, rounded at the bend, with its cloth."""
    arm = part == "arm"
    if arm:
        names = ("Arm", "ForeArm", "Hand")
        table = _ARM
        rows = 40
        columns = 18
        girth = build.girth
        back = 0.0 * BACK
    else:
        names = ("UpLeg", "Leg", "Foot")
        table = _LEG
        rows = 46
        columns = 20
        girth = 0.5 + 0.5 * build.girth
        back = BACK
    a, b, c = (joints[side + name][1] for name in names)
    share, wide, deep, forward = smooth_table(table, rows).T
    cloth = _sleeve(build, share) if arm else _trouser(build, share)
    lower = steps(share, (0.88, 1.12))[:, None]
    along = unit((1.0 - lower) * unit(b - a) + lower * unit(c - b))
    middle = np.where(
        share[:, None] < 1.0, a + share[:, None] * (b - a), b + (share[:, None] - 1.0) * (c - b)
    )
    middle = middle - forward[:, None] * back
    slim = np.full(rows, girth)
    if not arm and build.legs == "skirt":
        # Nothing of the thigh stands out of the skirt.
        slim *= 0.6 + 0.4 * steps(share, (0.35, 0.75))
    sizes = np.stack((slim * wide + cloth, slim * deep + cloth), axis=-1)
    rings = rounded(middle, along, BACK, sizes, columns, 2.1)
    if arm or build.legs == "trousers":
        rings = folded(rings, _dressed(build, arm=arm), down=True)
    mesh = loft(rings, downward(PLACES[part]))
    s = np.concatenate((share[:1], share, share[-1:])).repeat(rings.shape[1] + 1)
    return mesh, _limb_weights(blend, side, s, arm=arm)


def _dressed(build: HumanBuild, *, arm: bool) -> Folds:
    if not arm:
        return FOLDS["leg"]
    return FOLDS["short_sleeve"] if build.top == "tee" else FOLDS["arm"]


def _sleeve(build: HumanBuild, share: FloatArray) -> FloatArray:
    """Return how far the sleeve stands off the arm, 0 below its end."""
    end = _SLEEVE[build.top]
    loose = _SLEEVE_M[build.top]
    return np.asarray(loose * (1.0 - steps(share, (end, end + 0.05))))


def _trouser(build: HumanBuild, share: FloatArray) -> FloatArray:
    """Return how far the trousers stand off the leg, most at the hem."""
    if build.legs == "skirt":
        return np.zeros_like(share)
    flare = _TROUSERS_M + (_HEM_M - _TROUSERS_M) * steps(share, (1.25, 1.85))
    return np.asarray(
        flare
        * (1.0 - 0.7 * steps(share, (_HEM, _HEM + 0.04)))
        * (1.0 - 0.6 * steps(-share, (-0.3, 0.1)))
    )


def _limb_weights(blend: Blend, side: str, share: FloatArray, *, arm: bool) -> FloatArray:
    if arm:
        chain = ["Shoulder", "ArmTwist0", "ArmTwist50", "Arm"]
        chain += ["ForeArmTwist0", "ForeArmTwist50", "ForeArmTwist100", "Hand"]
        ranges = [
            (-0.06, 0.20),
            (0.20, 0.50),
            (0.50, 0.84),
            (0.86, 1.14),
            (1.14, 1.5),
            (1.5, 1.9),
            (1.93, 2.05),
        ]
        return blend.along([side + name for name in chain], steps(share, *ranges))
    names = [
        "Hips",
        *(side + name for name in ("UpLegTwist0", "UpLegTwist50", "UpLeg", "Leg", "Foot")),
    ]
    return blend.along(
        names, steps(share, (-0.14, 0.12), (0.12, 0.50), (0.50, 0.84), (0.86, 1.14), (1.93, 2.05))
    )


def shoe(blend: Blend, joints: Joints, side: str) -> Part:
    """Build a shoe about the foot; its underside is the floor."""
    ankle = joints[f"{side}Foot"][1]
    toe = joints[f"{side}ToeBase"][1]
    forward, wide, top, bottom = smooth_table(_SHOE, 20).T
    turn_out = (toe - ankle)[1] / (toe - ankle)[0]
    middle = np.stack(
        (ankle[0] + forward, ankle[1] + turn_out * forward, 0.5 * (top + bottom)), axis=-1
    )
    sizes = np.stack((wide, 0.5 * (top - bottom)), axis=-1)
    along = np.tile((1.0, 0.0, 0.0), (len(forward), 1))
    rings = rounded(middle, along, np.array([0.0, 0.0, -1.0]), sizes, 18, 2.8)
    mesh = loft(rings, PLACES["shoe"])
    bend = steps(mesh.p_m[:, 0], (toe[0] - 0.04, toe[0] + 0.03))
    return mesh, blend.along([f"{side}Foot", f"{side}ToeBase"], bend)
