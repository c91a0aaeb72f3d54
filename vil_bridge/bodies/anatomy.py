"""Parts of a human found in the tree of a skeleton.

Two legs below the hips, two arms and a head above a spine.

Names only help: they say which of two limbs is the left one, and which bone of a chain is which
where the tree leaves a choice. Lengths of bones do not depend on the axes that a system gives to
its bones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray, SkeletonModel

_SIDES: Final = ("left", "right")
_ARM: Final = ("upper_arm", "lower_arm", "hand")
_LEG: Final = ("upper_leg", "lower_leg", "foot")
_FEWEST_BONES: Final = 3  # of a limb: upper, lower, end
_MOST_CHILDREN: Final = 24  # of one bone that are compared with each other
_MOST_TRIED: Final = 8  # pairs of limbs
_ALIKE: Final = 0.1  # difference in length between a left and a right limb


def has_human_parts(parts: Mapping[str, int]) -> bool:
    """Return True when the parts are enough to pose a human: hips, head and one whole limb."""
    limbs = ((f"{side}_{limb[0]}", f"{side}_{limb[2]}") for limb in (_ARM, _LEG) for side in _SIDES)
    return {"hips", "head"} <= parts.keys() and any(
        first in parts and last in parts for first, last in limbs
    )


def parts_by_tree(model: SkeletonModel, named: Mapping[str, int]) -> dict[str, int]:
    """Return the bone of each part of a human, empty when the tree is not a human's.

    Args:
        model: the skeleton.
        named: parts that the names of the bones suggest.
    """
    tree = _Tree(model, named)
    found = filter(None, (tree.best_pair(bone, _LEG, _ARM) for bone in range(len(model.bones))))
    # Rigs have chains of controls: what the names know comes first, then what is nearest to the
    # root.
    for legs in sorted(found, key=lambda pair: not pair.expected)[:_MOST_TRIED]:
        children = [child for child in tree.children[legs.parent] if child not in legs.roots]
        trunk = [bone for child in children for bone in tree.below(child)]
        pairs = filter(None, (tree.best_pair(bone, _ARM, _LEG) for bone in trunk))
        for arms in sorted(pairs, key=_rank, reverse=True)[:_MOST_TRIED]:
            parts = tree.parts(legs, arms)
            if parts:
                return parts
    return {}


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two chains of bones that leave one bone, mirrored: the left one first where ``sided``."""

    parent: int
    chains: tuple[list[int], list[int]]
    sided: bool
    expected: bool  # by its names
    length_m: float

    @property
    def roots(self) -> tuple[int, int]:
        return self.chains[0][0], self.chains[1][0]


def _rank(pair: _Pair) -> tuple[bool, float]:
    return pair.expected, pair.length_m


class _Tree:
    """Children, lengths and main chains of a skeleton's bones."""

    def __init__(self, model: SkeletonModel, named: Mapping[str, int]) -> None:
        self._model = model
        self._named = named
        self._names = [bone.lower() for bone in model.bones]
        self._rest_m = _rest(model)
        self._length_m: list[float] = np.linalg.norm(model.offsets_m, axis=1).tolist()
        self.children: list[list[int]] = [[] for _ in model.bones]
        for bone, parent in enumerate(model.parents):
            if parent >= 0:
                self.children[parent].append(bone)
        # The way down with the longest bones: past helpers, down one finger.
        self._next = [-1] * len(model.bones)
        reach: list[tuple[float, int]] = [(0.0, 0)] * len(model.bones)
        for bone in reversed(range(len(model.bones))):
            if self.children[bone]:
                ways = [
                    (self._length_m[c] + reach[c][0], 1 + reach[c][1], -c)
                    for c in self.children[bone]
                ]
                length_m, count, below = max(ways)
                reach[bone] = (length_m, count)
                self._next[bone] = -below
        self._reach_m = [self._length_m[bone] + reach[bone][0] for bone in range(len(model.bones))]
        self._count = [1 + bones for _, bones in reach]

    def chain(self, bone: int) -> list[int]:
        """Return the main chain that begins at a bone."""
        found = []
        while bone >= 0:
            found.append(bone)
            bone = self._next[bone]
        return found

    def below(self, bone: int) -> list[int]:
        """Return a bone and all its descendants, parents first."""
        found = [bone]
        for one in found:
            found += self.children[one]
        return found

    def best_pair(self, parent: int, limb: Sequence[str], other: Sequence[str]) -> _Pair | None:
        """Return the pair of chains at a bone that is most likely the limb named, None without
        one.
        """
        limbs = [child for child in self.children[parent] if self._count[child] >= _FEWEST_BONES][
            :_MOST_CHILDREN
        ]
        pairs = (self._pair(parent, a, b, limb) for a, b in combinations(limbs, 2))
        wrong = {
            self._named[f"{side}_{part}"]
            for side in _SIDES
            for part in other
            if f"{side}_{part}" in self._named
        }
        found = [
            p
            for p in pairs
            if p is not None and (p.expected or wrong.isdisjoint(p.chains[0] + p.chains[1]))
        ]
        return max(found, key=_rank, default=None)

    def _pair(self, parent: int, a: int, b: int, limb: Sequence[str]) -> _Pair | None:
        order = _mirrored(self._names[a], self._names[b])
        if not order:
            difference_m = abs(self._reach_m[a] - self._reach_m[b])
            if (
                self._count[a] != self._count[b]
                or difference_m > _ALIKE * self._reach_m[a]
                or not self._apart(self.chain(a), self.chain(b)).any()
            ):
                return None
        first, second = (self.chain(bone) for bone in ((b, a) if order < 0 else (a, b)))
        expected = {self._named.get(f"{side}_{part}", -1) for side in _SIDES for part in limb}
        length_m = self._reach_m[a] + self._reach_m[b]
        return _Pair(
            parent, (first, second), bool(order), not expected.isdisjoint(first + second), length_m
        )

    def _apart(self, a: list[int], b: list[int]) -> FloatArray:
        """Return the way from the middle of one chain at rest to that of another, (3,)."""
        apart: FloatArray = self._rest_m[a].mean(axis=0) - self._rest_m[b].mean(axis=0)
        return apart

    def parts(self, legs: _Pair, arms: _Pair) -> dict[str, int]:
        """Return all parts, empty without a head, or without a way to know left from right."""
        hips = legs.parent
        chest = arms.parent
        ups = [child for child in self.children[chest] if child not in arms.roots]
        if not ups:
            return {}
        head_side = {self._named.get("neck"), self._named.get("head")}
        neck = self.chain(
            max(ups, key=lambda up: (not head_side.isdisjoint(self.below(up)), self._reach_m[up]))
        )
        head = self._head(neck)
        parts = {"hips": hips, "chest": chest, "head": head}
        spine = self._path(hips, chest)
        if spine:
            parts["spine"] = spine[0]
        if head != neck[0]:
            parts["neck"] = neck[0]
        for pair, limb in ((legs, _LEG), (arms, _ARM)):
            chains = pair.chains
            if not pair.sided:
                left = self._left(legs, chest)
                to_the_left = 0.0
                if left is not None:
                    to_the_left = float(self._apart(*chains) @ left)
                if abs(to_the_left) < 1e-9:
                    return {}
                if not to_the_left > 0.0:
                    chains = (chains[1], chains[0])
            for side, chain in zip(_SIDES, chains, strict=True):
                parts |= self._limb(side, limb, chain)
        if self._named.keys() & parts.keys() or self._upright(parts):
            return parts
        return {}

    def _head(self, neck: list[int]) -> int:
        named = self._named.get("head", -1)
        if named in self.below(neck[0]):
            return named
        return neck[min(1, len(neck) - 1)]

    def _path(self, above: int, bone: int) -> list[int]:
        """Return the bones strictly between two, from above."""
        path: list[int] = []
        bone = self._model.parents[bone]
        while bone != above:
            path.append(bone)
            bone = self._model.parents[bone]
        return path[::-1]

    def _limb(self, side: str, limb: Sequence[str], chain: list[int]) -> dict[str, int]:
        """Return where a chain begins, bends and ends.

        By names, else at the two longest bones in a row.
        """
        named = {part: self._named.get(f"{side}_{part}", -1) for part in limb}
        places = {part: chain.index(bone) for part, bone in named.items() if bone in chain}
        order = [places.get(part, -1) for part in limb]
        known = -1 < order[0] < order[1] < order[2] or (order[1] < 0 <= order[0] == order[2] - 1)
        if not known:
            lengths_m = [self._length_m[bone] for bone in chain]
            sums = [lengths_m[k + 1] + lengths_m[k + 2] for k in range(len(chain) - 2)]
            first = sums.index(max(sums))
            places = dict(zip(limb, range(first, first + 3), strict=True))
        found = {f"{side}_{part}": chain[place] for part, place in places.items()}
        begin = places[limb[0]]
        end = places[limb[2]]
        if limb is _ARM and begin > 0:
            found[f"{side}_shoulder"] = chain[begin - 1]
        elif limb is _LEG and end + 1 < len(chain):
            toe = self._named.get(f"{side}_toe", -1)
            if toe not in self.below(chain[end])[1:]:
                toe = chain[end + 1]
            found[f"{side}_toe"] = toe
        return found

    def _left(self, legs: _Pair, chest: int) -> FloatArray | None:
        """Return the direction to the left by the rest of spine and toes; None without toes."""
        rest_m = self._rest_m
        up = rest_m[chest] - rest_m[legs.parent]
        forward = np.zeros(3)
        for chain in legs.chains:
            limb = self._limb("left", _LEG, chain)
            if "left_toe" not in limb:
                return None
            forward += rest_m[limb["left_toe"]] - rest_m[limb["left_foot"]]
        return np.asarray(np.cross(up, forward), dtype=np.float64)

    def _upright(self, parts: Mapping[str, int]) -> bool:
        """Return True when the legs leave the hips away from the spine, which distinguishes a
        human from a dog.
        """
        rest_m = self._rest_m
        spine = rest_m[parts["chest"]] - rest_m[parts["hips"]]
        legs = np.sum(
            [rest_m[parts[f"{side}_foot"]] - rest_m[parts[f"{side}_upper_leg"]] for side in _SIDES],
            axis=0,
        )
        size = float(np.linalg.norm(spine) * np.linalg.norm(legs))
        return size > 0.0 and float(spine @ legs) < -0.7 * size


def _mirrored(a: str, b: str) -> int:
    """Return 1 when names in lower case differ in their side only and a is the left one, -1 for
    the right, else 0.
    """
    for left, right, order in ((a, b, 1), (b, a, -1)):
        if "left" in left and left.replace("left", "right", 1) == right:
            return order
        differing = [(x, y) for x, y in zip(left, right, strict=False) if x != y]
        if len(left) == len(right) and differing == [("l", "r")]:
            return order
    return 0


def _rest(model: SkeletonModel) -> FloatArray:
    """Return the origins of all bones with all axes parallel, (m, 3)."""
    rest_m = np.array(model.offsets_m, np.float64)
    for bone, parent in enumerate(model.parents):
        rest_m[bone] = rest_m[parent] + rest_m[bone] if parent >= 0 else 0.0
    return rest_m
