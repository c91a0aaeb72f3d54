"""Forward kinematics: bones relative to their parents, and in the frame of the skeleton's holder.

One convention for every system that streams humans: parents stand before their children, a parent
of -1 marks a root, and a local pose maps the bone's axes to its parent's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_conj, q_mul, q_rotate
from vil_bridge.core.types import BoolArray, FloatArray

__all__ = ["global_to_local", "local_to_global", "parents_first", "trusted_below"]

_Bone = TypeVar("_Bone")


@lru_cache(maxsize=64)
def _levels(parents: tuple[int, ...]) -> tuple[npt.NDArray[np.intp], ...]:
    """Indices of the bones one, two, three... steps below a root; parents come before children."""
    depth: list[int] = []
    for parent in parents:
        depth.append(0 if parent < 0 else depth[parent] + 1)
    return tuple(np.flatnonzero(np.array(depth) == level) for level in range(1, max(depth, default=0) + 1))


def local_to_global(p: FloatArray, q: FloatArray, parents: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Poses relative to the parents, shapes (m, 3) and (m, 4), to poses in the frame of the root."""
    p, q = p.copy(), q.copy()
    above = np.array(parents)
    for bones in _levels(parents):
        up = above[bones]
        p[bones] = p[up] + q_rotate(q[up], p[bones])
        q[bones] = q_mul(q[up], q[bones])
    return p, q


def global_to_local(p: FloatArray, q: FloatArray, parents: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Inverse of :func:`local_to_global`."""
    child = np.flatnonzero(np.array(parents) >= 0)
    up = np.array(parents)[child]
    p_local, q_local = p.copy(), q.copy()
    inverse = q_conj(q[up])
    p_local[child] = q_rotate(inverse, p[child] - p[up])
    q_local[child] = q_mul(inverse, q[child])
    return p_local, q_local


def trusted_below(tracked: BoolArray, parents: tuple[int, ...]) -> BoolArray:
    """Which bones have a chain of tracked ones above them: a local pose is known no better than that."""
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
        Each bone with the index of its parent in the order returned; a bone whose parent is unknown,
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
