"""Surfaces that rays hit, each with the ball around it.

Those of rigid models are made when rays come near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.geometry.surfaces import Capsules, TriangleSurface
from vil_renderer.embedded.posed_models import PosedGroup, stretches


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A surface that rays hit and that moves as one.

    Attributes:
        name: of the object or actor; the first part of a world, all static objects, has none.
        node: index of the asset's node, -1 = the whole asset or the capsules of a human.
        owner: index into :attr:`RayWorld.names`, -1 for static objects.
        shape: in the part's axes. world_from_part: (4, 4).
        centre: of the ball around it, world, (3,).
    """

    name: str
    node: int
    owner: int
    shape: TriangleSurface | Capsules
    world_from_part: FloatArray
    centre: FloatArray
    radius: float

    @staticmethod
    def of(
        name: str,
        node: int,
        owner: int,
        shape: TriangleSurface | Capsules,
        world_from_part: FloatArray,
    ) -> Part:
        """Return the part with the ball around it."""
        m = world_from_part
        radius = float(stretches(m[None, :3, :3])[0]) * shape.radius
        return Part(name, node, owner, shape, m, m[:3, :3] @ shape.centre + m[:3, 3], radius)

    def local(
        self, origins: Float32Array, directions: Float32Array
    ) -> tuple[Float32Array, Float32Array]:
        """Return rays in the part's axes."""
        inverse = np.linalg.inv(self.world_from_part)
        turn = inverse[:3, :3].T
        o = (origins @ turn + inverse[:3, 3]).astype(np.float32)
        return o, (directions @ turn).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class RigidParts:
    """Parts of k rigid models with j meshes each, a model's together.

    Attributes:
        names: of the models. owner: of each, (k,). meshes: node and shape of each, j of them.
        world_from_part: (k, j, 4, 4). centre: of the balls, (k, j, 3). radius: (k, j).
    """

    names: tuple[str, ...]
    owner: npt.NDArray[np.intp]
    meshes: tuple[tuple[int, TriangleSurface], ...]
    world_from_part: FloatArray
    centre: FloatArray
    radius: FloatArray

    @classmethod
    def of(
        cls,
        group: PosedGroup,
        owner: npt.NDArray[np.intp],
        meshes: tuple[tuple[int, TriangleSurface], ...],
    ) -> RigidParts:
        """Return the parts of models."""
        nodes = [node for node, _ in meshes]
        m = group.world_from_node[:, nodes]
        local = np.array([shape.centre for _, shape in meshes])
        centre = np.einsum("kjab,jb->kja", m[..., :3, :3], local) + m[..., :3, 3]
        radius = group.stretch[:, nodes] * [shape.radius for _, shape in meshes]
        return cls(group.names, owner, meshes, m, centre, radius)

    def part(self, index: int) -> Part:
        """Return one part."""
        model, mesh = divmod(index, len(self.meshes))
        node, shape = self.meshes[mesh]
        centre = self.centre[model, mesh]
        radius = float(self.radius[model, mesh])
        return Part(
            self.names[model],
            node,
            int(self.owner[model]),
            shape,
            self.world_from_part[model, mesh],
            centre,
            radius,
        )


class Parts(Sequence[Part]):
    """All surfaces of one instant: single ones, then those of rigid models.

    Attributes:
        centre: of the balls around them, float32 (p, 3). radius: (p,).
    """

    def __init__(self, single: Sequence[Part], rigid: Sequence[RigidParts]) -> None:
        self._made = dict(enumerate(single))
        self._rigid = rigid
        self._ends = np.cumsum([len(single), *(r.radius.size for r in rigid)])
        centres = [
            np.array([part.centre for part in single]).reshape(-1, 3),
            *(r.centre.reshape(-1, 3) for r in rigid),
        ]
        radii = [np.array([part.radius for part in single]), *(r.radius.ravel() for r in rigid)]
        self.centre: Float32Array = np.concatenate(centres).astype(np.float32)
        self.radius: Float32Array = np.concatenate(radii).astype(np.float32)

    def __len__(self) -> int:
        return len(self.radius)

    @overload
    def __getitem__(self, index: int) -> Part: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Part]: ...
    def __getitem__(self, index: int | slice) -> Part | Sequence[Part]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        if place not in self._made:
            block = int(np.searchsorted(self._ends, place, side="right"))
            self._made[place] = self._rigid[block - 1].part(place - int(self._ends[block - 1]))
        return self._made[place]
