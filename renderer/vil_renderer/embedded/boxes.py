"""Oriented boxes: what rays hit and spheres touch. Everything solid in a scene has its boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray

__all__ = ["Boxes"]


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """n oriented boxes in the world.

    Attributes:
        centre_m: shape (n, 3). R_world_box: shape (n, 3, 3). half_m: half extents in box axes, shape (n, 3).
    """

    centre_m: FloatArray
    R_world_box: FloatArray
    half_m: FloatArray

    @classmethod
    def none(cls) -> Boxes:
        """No box at all."""
        return cls(np.zeros((0, 3)), np.zeros((0, 3, 3)), np.zeros((0, 3)))

    @classmethod
    def join(cls, parts: Sequence[Boxes]) -> Boxes:
        """All boxes of several sets."""
        if not parts:
            return cls.none()
        return cls(
            np.concatenate([b.centre_m for b in parts]),
            np.concatenate([b.R_world_box for b in parts]),
            np.concatenate([b.half_m for b in parts]),
        )

    def where(self, keep: BoolArray) -> Boxes:
        """The boxes picked by a mask (n,)."""
        return Boxes(self.centre_m[keep], self.R_world_box[keep], self.half_m[keep])

    def touches_sphere(self, centre_m: FloatArray, radius_m: float) -> bool:
        """Whether a sphere overlaps any box."""
        local = np.einsum("nji,nj->ni", self.R_world_box, centre_m - self.centre_m)
        gap = np.maximum(np.abs(local) - self.half_m, 0.0)
        return bool(np.any(np.einsum("ni,ni->n", gap, gap) <= radius_m * radius_m))

    def ray_distance_m(self, origin_m: FloatArray, direction: FloatArray) -> float:
        """Distance to the first surface along a unit direction, inf for none; boxes around the origin are ignored."""
        return float(np.min(self._entry(origin_m[None], direction[None]), initial=math.inf))

    def between(self, from_m: FloatArray, to_m: FloatArray) -> BoolArray:
        """For m segments (m, 3) to (m, 3): whether a box lies between, shape (m,)."""
        hit: BoolArray = np.any(self._entry(from_m, to_m - from_m) < 1.0, axis=1)
        return hit

    def _entry(self, origins_m: FloatArray, directions: FloatArray) -> FloatArray:
        """Ray parameter of entry into each box, shape (m, n); inf = missed, behind, or started inside."""
        shape = (len(origins_m), len(self.centre_m))
        enter, leave = np.full(shape, -math.inf), np.full(shape, math.inf)
        for axis in range(3):
            unit = self.R_world_box[:, :, axis]
            start = origins_m @ unit.T - np.einsum("ni,ni->n", unit, self.centre_m)
            slope = directions @ unit.T
            # A ray parallel to a slab crosses it "at infinity"; the tiny slope keeps the arithmetic finite.
            inverse = 1.0 / np.where(np.abs(slope) < 1e-12, 1e-12, slope)
            a, b = (-self.half_m[:, axis] - start) * inverse, (self.half_m[:, axis] - start) * inverse
            np.maximum(enter, np.minimum(a, b), out=enter)
            np.minimum(leave, np.maximum(a, b), out=leave)
        return np.where((enter <= leave) & (enter >= 0.0), enter, math.inf)
