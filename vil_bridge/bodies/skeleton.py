"""Forward kinematics: bones relative to their parents, and in the frame of the skeleton's holder.

One convention for every system that streams humans: parents stand before their children, a parent
of -1 marks a root, and a local pose maps the bone's axes to its parent's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from vil_bridge.bodies.anatomy import has_human_parts, parts_by_tree
from vil_bridge.core.geometry import Transform, q_conj, q_mul, q_rotate
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame, SkeletonModel

_Bone = TypeVar("_Bone")


@lru_cache(maxsize=64)
def _levels(parents: tuple[int, ...]) -> tuple[npt.NDArray[np.intp], ...]:
    """Return the indices of the bones one, two, three... steps below a root.

    Parents come before children.
    """
    depth: list[int] = []
    for parent in parents:
        depth.append(0 if parent < 0 else depth[parent] + 1)
    return tuple(
        np.flatnonzero(np.array(depth) == level) for level in range(1, max(depth, default=0) + 1)
    )


def local_to_global(
    p: FloatArray, q: FloatArray, parents: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Convert poses relative to the parents, shapes (m, 3) and (m, 4), to poses in the frame of
    the root.
    """
    p = p.copy()
    q = q.copy()
    above = np.array(parents)
    for bones in _levels(parents):
        up = above[bones]
        p[bones] = p[up] + q_rotate(q[up], p[bones])
        q[bones] = q_mul(q[up], q[bones])
    return p, q


def global_to_local(
    p: FloatArray, q: FloatArray, parents: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Apply the inverse of :func:`local_to_global`."""
    child = np.flatnonzero(np.array(parents) >= 0)
    up = np.array(parents)[child]
    p_local = p.copy()
    q_local = q.copy()
    inverse = q_conj(q[up])
    p_local[child] = q_rotate(inverse, p[child] - p[up])
    q_local[child] = q_mul(inverse, q[child])
    return p_local, q_local


def trusted_below(tracked: BoolArray, parents: tuple[int, ...]) -> BoolArray:
    """Return the bones with a chain of tracked ones above them.

    A local pose is not better known than that.
    """
    trusted = tracked.copy()
    above = np.array(parents)
    for bones in _levels(parents):
        trusted[bones] &= trusted[above[bones]]
    return trusted


def parents_first(bones: Sequence[tuple[int, int, _Bone]]) -> list[tuple[_Bone, int]]:
    """Order streamed bones so that parents come first.

    Args:
        bones: (id, id of the parent, anything) of each bone.

    Returns:
        Each bone with the index of its parent in the order returned; a bone whose parent is
            unknown,
        or its own descendant, is a root (-1).
    """
    by_id = {identity: (parent, bone) for identity, parent, bone in bones}
    index: dict[int, int] = {}
    order: list[tuple[_Bone, int]] = []
    for first in by_id:
        chain: list[int] = []
        identity = first
        while identity in by_id and identity not in index and identity not in chain:
            chain.append(identity)
            identity = by_id[identity][0]
        for link in reversed(chain):
            parent, bone = by_id[link]
            order.append((bone, index.get(parent, -1)))
            index[link] = len(order) - 1
    return order


# --- names of bones ------------------------------------------------------------------------------

# Names without sides, prefixes and separators, the preferred ones first; a spine of many bones
# gives its lowest and its highest. Motive, FBX and Qualisys, CMU's library, Vicon (anatomical).
_CENTRAL: Final = {
    "hips": ("hips", "hip", "pelvis", "root"),
    "spine": ("lowerback", "ab", "abdomen", "spine", "lowertorso", "lumbar", "spine1"),
    "chest": (
        "chest",
        "upperchest",
        "thorax",
        "uppertorso",
        "torso",
        "spine4",
        "spine3",
        "spine2",
        "spine1",
    ),
    "neck": ("neck", "neck1"),
    "head": ("head",),
}
_SIDED: Final = {
    "shoulder": ("shoulder", "clavicle", "collar", "scapula"),
    "upper_arm": ("uarm", "upperarm", "arm", "humerus"),
    "lower_arm": ("farm", "forearm", "lowerarm", "radius"),
    "hand": ("hand", "wrist"),
    "upper_leg": ("thigh", "upleg", "upperleg", "femur"),
    "lower_leg": ("shin", "leg", "lowerleg", "tibia", "calf"),
    "foot": ("foot", "ankle"),
    "toe": ("toe", "toebase", "toes"),
}


def _forms(side: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the ways to write the names of a part with its side."""
    return tuple(form for n in names for form in (side + n, side[0] + n, n + side, n + side[0]))


_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    **_CENTRAL,
    **{
        f"{side}_{part}": _forms(side, names)
        for side in ("left", "right")
        for part, names in _SIDED.items()
    },
}
CANONICAL_BONES: Final = tuple(_PARTS)
"""The parts of a human that :func:`canonical_bones` finds."""


def canonical_bones(model: SkeletonModel) -> dict[str, int]:
    """Return which bone of a skeleton is which part of a human, for retargeting.

    Parts that it has not are left out.

    The tree decides: legs, spine, arms and head where they branch off. Names are hints, and decide
    alone where the tree is not that of a whole human. Case, separators and prefixes
    (``mixamorig:``, the skeleton's own name) do not matter.
    """
    return dict(
        _canonical(
            model.name,
            model.bones,
            model.parents,
            np.asarray(model.offsets_m, np.float64).tobytes(),
        )
    )


def is_human(model: SkeletonModel) -> bool:
    """Return True when a skeleton has the parts by which a human is posed."""
    return has_human_parts(canonical_bones(model))


def place_of(skeleton: SkeletonFrame) -> Transform:
    """Return the pose of the bone at which an actor stands.

    Its hips, or the root where none are recognised.

    Some programs hang the hips on a root that never leaves the origin.
    """
    bone = place_bone(skeleton.model)
    return Transform(skeleton.p_m[bone], skeleton.q_xyzw[bone])


def place_bone(model: SkeletonModel) -> int:
    """Return the index of the bone of :func:`place_of`."""
    if not is_human(model):
        return 0
    return canonical_bones(model).get("hips", 0)


def body_parents(model: SkeletonModel) -> tuple[int, ...]:
    """Return the parents with -1 where the parent lies above the bone of :func:`place_of`, as no
    part of the body.
    """
    above: set[int] = set()
    bone = model.parents[place_bone(model)] if model.parents else -1
    while bone >= 0:
        above.add(bone)
        bone = model.parents[bone]
    return tuple(-1 if parent in above else parent for parent in model.parents)


@lru_cache(maxsize=256)
def _canonical(
    name: str, bones: tuple[str, ...], parents: tuple[int, ...], offsets_m: bytes
) -> Mapping[str, int]:
    model = SkeletonModel(name, bones, parents, np.frombuffer(offsets_m).reshape(-1, 3))
    named = _named_parts(model)
    return parts_by_tree(model, named) or named


def _named_parts(model: SkeletonModel) -> dict[str, int]:
    """Return the parts that the names alone suggest."""
    index: dict[str, int] = {}
    for i, bone in enumerate(model.bones):
        bare = bone.rpartition(":")[2].removeprefix(f"{model.name}_")
        index.setdefault(re.sub(r"[\W_]", "", bare).lower(), i)
    found: dict[str, int] = {}
    for part, names in _PARTS.items():
        bones = (index[name] for name in names if name in index)
        free = next((bone for bone in bones if bone not in found.values()), None)
        if free is not None:
            found[part] = free
    return found
