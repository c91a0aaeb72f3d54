"""A human from a skeleton: one tapered capsule per bone, from its joint to each child's joint.

What touches a bone that is not tracked is drawn greyer, since its place is remembered and not seen;
where that place cannot be (a bone that nobody completed lies in the origin) it is not drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import cross, q_rotate
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame, SkeletonModel
from vil_renderer.embedded.boxes import Boxes
from vil_renderer.embedded.textures import Layer

__all__ = ["shape"]

_Rows = npt.NDArray[np.float32]
_Colour = tuple[float, float, float, float]

_SKIN: Final[_Colour] = (0.86, 0.62, 0.50, 0.0)
_VEST: Final[_Colour] = (0.86, 0.92, 0.22, 0.0)
_TROUSERS: Final[_Colour] = (0.24, 0.31, 0.46, 0.0)
_SHOES: Final[_Colour] = (0.20, 0.17, 0.16, 0.0)
_HELMET: Final[_Colour] = (1.05, 1.02, 0.96, 0.0)


@dataclass(frozen=True, slots=True)
class _Look:
    radius_m: float
    colour: _Colour
    tip_m: float = 0.05


# Words in bone names (Motive, Vicon, BVH, Unreal), the first that matches wins.
_LOOKS: Final = (
    (("head",), _Look(0.055, _SKIN, 0.10)),
    (("neck",), _Look(0.055, _SKIN)),
    (("hand", "wrist", "finger", "thumb"), _Look(0.034, _SKIN, 0.11)),
    (("farm", "forearm", "lowerarm", "elbow"), _Look(0.040, _SKIN)),
    (("uarm", "arm"), _Look(0.053, _VEST)),
    (("shoulder", "clavicle", "collar"), _Look(0.075, _VEST)),
    (("chest", "spine", "torso", "ab", "back"), _Look(0.125, _VEST)),
    (("thigh", "upleg", "upperleg"), _Look(0.080, _TROUSERS)),
    (("shin", "calf", "knee", "leg"), _Look(0.056, _TROUSERS)),
    (("foot", "ankle"), _Look(0.046, _SHOES)),
    (("toe",), _Look(0.040, _SHOES, 0.06)),
    (("hip", "pelvis", "root"), _Look(0.120, _TROUSERS)),
)
_PLAIN: Final = _Look(0.06, _VEST)

_UNSEEN: Final = np.array([0.42, 0.43, 0.46])
_UNSEEN_SHARE: Final = 0.65
_STRETCH: Final = 1.5
_STRETCH_M: Final = 0.1

# Half extents of head and helmet across, across, along the neck; how far up the neck's line they sit.
_HEAD_M: Final = np.array([0.082, 0.082, 0.115])
_HELMET_M: Final = np.array([0.108, 0.108, 0.090])
_HEAD_UP_M: Final = 0.10
_HELMET_UP_M: Final = 0.155


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """Capsules of a skeleton model.

    Attributes:
        start: bone of each capsule (n,). end: child it reaches to, -1 = a leaf's own tip.
        link: bone whose place relative to its parent the capsule shows: the child, or the leaf (n,).
        tip: leaf extension in the bone's own axes, metres, shape (n, 3).
        paint: two radii, colour with glow, layer, shape (n, 7).
        heads: bones that carry a head. up: direction out of the neck in their axes, shape (k, 3).
    """

    start: npt.NDArray[np.intp]
    end: npt.NDArray[np.intp]
    link: npt.NDArray[np.intp]
    tip_m: FloatArray
    paint: FloatArray
    heads: npt.NDArray[np.intp]
    up: FloatArray


def shape(skeleton: SkeletonFrame) -> tuple[_Rows, _Rows, Boxes, _Rows]:
    """Capsule rows, sphere rows, boxes and shadow of a skeleton in the world (:class:`actors.Figure`)."""
    plan = _plan(_ModelKey(skeleton.model))
    p, q, tracked = skeleton.p_m, skeleton.q_xyzw, skeleton.tracked
    finite: BoolArray = np.all(np.isfinite(np.hstack((p, q))), axis=1)
    placed, joined = _plausible(skeleton)
    a = p[plan.start]
    tip = a + q_rotate(q[plan.start], plan.tip_m)
    b = np.where(plan.end[:, None] >= 0, p[plan.end], tip)
    sound = joined[plan.link] | ((plan.end < 0) & placed[plan.link])
    keep = sound & finite[plan.start] & finite[plan.link]
    paint = plan.paint.copy()
    _dull(paint[:, 2:5], tracked[plan.start] & tracked[plan.link])
    a, b, paint = a[keep], b[keep], paint[keep]
    capsules = np.hstack((a, b, paint)).astype(np.float32)
    carried = (finite & placed)[plan.heads]
    heads = plan.heads[carried]
    spheres = _heads(p[heads], q_rotate(q[heads], plan.up[carried]))
    _dull(spheres[:, 12:15], np.repeat(tracked[heads], 2))
    return capsules, spheres, _capsule_boxes(a, b, paint[:, :2].max(axis=1)), _shadow(a)


def _plausible(skeleton: SkeletonFrame) -> tuple[BoolArray, BoolArray]:
    """Which bones can be where they are said to be, and which are rightly joined to their parents, both (m,).

    A tracked bone is; another one if it lies near a parent that is.
    """
    placed: BoolArray = skeleton.tracked.copy()
    joined: BoolArray = np.ones(len(placed), dtype=np.bool_)
    if placed.all():
        return placed, joined
    parents = np.array(skeleton.model.parents, np.intp)
    length_m = np.linalg.norm(skeleton.p_m - skeleton.p_m[parents], axis=1)
    near = length_m <= _STRETCH * np.linalg.norm(skeleton.model.offsets_m, axis=1) + _STRETCH_M
    for bone, parent in enumerate(skeleton.model.parents):
        if parent >= 0 and not (skeleton.tracked[bone] and skeleton.tracked[parent]):
            joined[bone] = near[bone] and placed[parent]
            placed[bone] |= joined[bone]
    return placed, joined


def _dull(colours: FloatArray | _Rows, tracked: BoolArray) -> None:
    """Take most of the colour from the rows (n, 3) that are not tracked, in place."""
    colours[~tracked] *= 1.0 - _UNSEEN_SHARE
    colours[~tracked] += _UNSEEN_SHARE * _UNSEEN


def _heads(p_m: FloatArray, up: FloatArray) -> _Rows:
    rows = []
    for place, z in zip(p_m, up, strict=True):
        axes = _basis(z[None])[0].T
        for half, rise, colour in ((_HEAD_M, _HEAD_UP_M, _SKIN), (_HELMET_M, _HELMET_UP_M, _HELMET)):
            rows.append((*(axes * half[:, None]).ravel(), *(place + rise * z), *colour, float(Layer.CLOTH)))
    return np.array(rows, np.float32).reshape(-1, 17)


def _capsule_boxes(a: FloatArray, b: FloatArray, radius_m: FloatArray) -> Boxes:
    along = b - a
    length = np.linalg.norm(along, axis=1)
    up = np.where(length[:, None] > 1e-6, along / np.maximum(length, 1e-6)[:, None], (0.0, 0.0, 1.0))
    return Boxes(0.5 * (a + b), _basis(up), np.stack((radius_m, radius_m, 0.5 * length + radius_m), axis=-1))


def _basis(z: FloatArray) -> FloatArray:
    """Rotations (n, 3, 3) whose third column is the given unit vector (n, 3)."""
    helper = np.where(np.abs(z[:, 2:3]) < 0.9, (0.0, 0.0, 1.0), (1.0, 0.0, 0.0))
    x = cross(helper, z)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack((x, cross(z, x), z), axis=-1)


def _shadow(a: FloatArray) -> _Rows:
    if not len(a):
        return np.zeros((0, 4), np.float32)
    low = a[a[:, 2] < a[:, 2].min() + 0.12]
    centre = low[:, :2].mean(axis=0)
    feet = [(x, y, 0.22, 0.6 / (1.0 + 4.0 * max(0.0, z))) for x, y, z in low]
    return np.array([(centre[0], centre[1], 0.55, 0.45), *feet], np.float32)


class _ModelKey:
    """Makes a skeleton model usable as a cache key: models of the same rest pose are the same."""

    def __init__(self, model: SkeletonModel) -> None:
        self.model = model
        self._key = (model.bones, model.parents, model.offsets_m.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ModelKey) and self._key == other._key


@lru_cache(maxsize=32)
def _plan(key: _ModelKey) -> _Plan:
    model = key.model
    looks = [_look(name) for name in model.bones]
    start, end, tips, paint = [], [], [], []
    parents = set(model.parents)
    for child, parent in enumerate(model.parents):
        if parent >= 0:
            start.append(parent)
            end.append(child)
            tips.append(np.zeros(3))
            paint.append(_paint(looks[parent], min(looks[parent].radius_m, 1.25 * looks[child].radius_m)))
    for bone, look in enumerate(looks):
        if bone not in parents:
            start.append(bone)
            end.append(-1)
            tips.append(look.tip_m * _outward(model, bone))
            paint.append(_paint(look, 0.85 * look.radius_m))
    heads = [bone for bone, name in enumerate(model.bones) if "head" in name.lower() and bone not in parents]
    return _Plan(
        np.array(start, np.intp),
        np.array(end, np.intp),
        np.array([child if child >= 0 else bone for bone, child in zip(start, end, strict=True)], np.intp),
        np.array(tips).reshape(-1, 3),
        np.array(paint).reshape(-1, 7),
        np.array(heads, np.intp),
        np.array([_outward(model, bone) for bone in heads]).reshape(-1, 3),
    )


def _paint(look: _Look, end_radius_m: float) -> tuple[float, ...]:
    return (look.radius_m, end_radius_m, *look.colour, float(Layer.CLOTH))


def _look(bone: str) -> _Look:
    name = bone.lower()
    return next((look for words, look in _LOOKS if any(word in name for word in words)), _PLAIN)


def _outward(model: SkeletonModel, bone: int) -> FloatArray:
    """Direction in which a bone goes on from its parent, in its own axes (at rest all axes are parallel)."""
    offset = model.offsets_m[bone]
    length = float(np.linalg.norm(offset))
    return offset / length if model.parents[bone] >= 0 and length > 1e-6 else np.array([0.0, 0.0, 1.0])
