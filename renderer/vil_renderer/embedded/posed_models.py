"""All models of one instant: arrays by asset for drawing, single ones on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from typing import Final, overload

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, FloatArray
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scene import AT_REST, Posed

NO_CAPSULES: Final[FloatArray] = np.zeros((0, 8))


def stretches(linear: FloatArray) -> FloatArray:
    """Return upper bounds on the stretch of any direction, by each matrix (k, 3, 3)."""
    # Columns, (3, k) each: fast for many small matrices.
    x, y, z = np.ascontiguousarray(linear.transpose(2, 1, 0))
    xy, xz, yz = (np.abs((a * b).sum(axis=0)) for a, b in ((x, y), (x, z), (y, z)))
    xx, yy, zz = ((a * a).sum(axis=0) for a in (x, y, z))
    return np.asarray(np.sqrt(np.maximum(np.maximum(xx + xy + xz, xy + yy + yz), xz + yz + zz)))


@dataclass(frozen=True, eq=False)
class PosedGroup:
    """Models of one asset, k of them.

    Attributes:
        names, bodies, layers, joint_light, capsules: of each, as in :class:`Posed`.
        morphs: of each, as in :class:`Posed`; None = all are at rest.
        world_from_node: (k, n, 4, 4).
        ids: semantic id << 16 | instance id, uint32 (k,).
        p_m: origins of the bodies, (k, 3). half_size_m: half of the boxes around them, (k, 3).
    """

    asset: Asset
    names: tuple[str, ...]
    world_from_node: FloatArray
    ids: npt.NDArray[np.uint32]
    bodies: Sequence[Transform]
    p_m: FloatArray
    half_size_m: FloatArray
    layers: Sequence[str]
    joint_light: Sequence[FloatArray | None]
    capsules: Sequence[FloatArray]
    morphs: Sequence[Mapping[int, FloatArray]] | None = None

    @cached_property
    def stretch(self) -> FloatArray:
        """Upper bounds on the stretch of any direction by each node, (k, n)."""
        m = self.world_from_node
        return stretches(m[..., :3, :3].reshape(-1, 3, 3)).reshape(m.shape[:2])

    @classmethod
    def of(cls, posed: Posed) -> PosedGroup:
        """Return a group of one."""
        return cls(
            posed.asset,
            (posed.name,),
            posed.world_from_node[None],
            np.array([posed.semantic << 16 | posed.instance], np.uint32),
            (posed.T_world_body,),
            posed.T_world_body.p_m[None],
            np.array([posed.half_size_m]),
            (posed.layer,),
            (posed.joint_light,),
            (posed.capsules,),
            (posed.morph,) if posed.morph else None,
        )

    @classmethod
    def joined(cls, groups: Sequence[PosedGroup]) -> PosedGroup:
        """Return groups of one asset as one."""
        if len(groups) == 1:
            return groups[0]
        morphs: Sequence[Mapping[int, FloatArray]] | None = None
        if any(g.morphs for g in groups):
            morphs = list(chain.from_iterable(g.every_morph() for g in groups))
        return cls(
            groups[0].asset,
            tuple(chain.from_iterable(g.names for g in groups)),
            np.concatenate([g.world_from_node for g in groups]),
            np.concatenate([g.ids for g in groups]),
            list(chain.from_iterable(g.bodies for g in groups)),
            np.concatenate([g.p_m for g in groups]),
            np.concatenate([g.half_size_m for g in groups]),
            list(chain.from_iterable(g.layers for g in groups)),
            list(chain.from_iterable(g.joint_light for g in groups)),
            list(chain.from_iterable(g.capsules for g in groups)),
            morphs,
        )

    def every_morph(self) -> Sequence[Mapping[int, FloatArray]]:
        """Return the morphs of each model, those at rest included."""
        return (AT_REST,) * len(self.names) if self.morphs is None else self.morphs

    def only(self, which: BoolArray) -> PosedGroup:
        """Return some of the models, chosen by a mask (k,)."""
        if which.all():
            return self
        return PosedGroup(
            self.asset,
            tuple(compress(self.names, which)),
            self.world_from_node[which],
            self.ids[which],
            list(compress(self.bodies, which)),
            self.p_m[which],
            self.half_size_m[which],
            list(compress(self.layers, which)),
            list(compress(self.joint_light, which)),
            list(compress(self.capsules, which)),
            None if self.morphs is None else list(compress(self.morphs, which)),
        )

    def single(self) -> Iterator[Posed]:
        """Yield the models one by one."""
        columns = (
            self.names,
            self.world_from_node,
            self.ids.tolist(),
            self.bodies,
            self.half_size_m.tolist(),
        )
        rest = (self.layers, self.joint_light, self.capsules, self.every_morph())
        for name, matrices, ids, body, (x, y, z), *more in zip(*columns, *rest, strict=True):
            yield Posed(name, self.asset, matrices, ids >> 16, ids & 0xFFFF, body, (x, y, z), *more)


class PosedModels(Sequence[Posed]):
    """Models of one instant, each asset's together.

    As a sequence, single ones in the order of the groups.

    Attributes:
        groups: one for each asset.
    """

    def __init__(self, groups: Iterable[PosedGroup] = ()) -> None:
        by_asset: dict[int, list[PosedGroup]] = {}
        for group in groups:
            if group.names:
                by_asset.setdefault(id(group.asset), []).append(group)
        self.groups = tuple(PosedGroup.joined(same) for same in by_asset.values())

    @classmethod
    def of(cls, posed: Iterable[Posed]) -> PosedModels:
        """Return single models as groups."""
        return cls(map(PosedGroup.of, posed))

    def __len__(self) -> int:
        return sum(len(group.names) for group in self.groups)

    @overload
    def __getitem__(self, index: int) -> Posed: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Posed]: ...
    def __getitem__(self, index: int | slice) -> Posed | Sequence[Posed]:
        return self._single[index]

    def __iter__(self) -> Iterator[Posed]:
        return iter(self._single)

    @cached_property
    def _single(self) -> tuple[Posed, ...]:
        return tuple(chain.from_iterable(group.single() for group in self.groups))

    @cached_property
    def rows(self) -> dict[str, int]:
        """Place of each model in the sequence, by name."""
        names = chain.from_iterable(group.names for group in self.groups)
        return {name: i for i, name in enumerate(names)}

    @cached_property
    def p_m(self) -> FloatArray:
        """Origins of all bodies, (n, 3)."""
        return np.concatenate([np.zeros((0, 3)), *(group.p_m for group in self.groups)])

    @cached_property
    def half_size_m(self) -> FloatArray:
        """Half of the boxes around all bodies, (n, 3)."""
        return np.concatenate([np.zeros((0, 3)), *(group.half_size_m for group in self.groups)])

    def shown(self, hide: Iterable[str], layer: str) -> BoolArray:
        """Return which models a view shows, (n,).

        Those of its layer (empty = all) that are not hidden.
        """
        if layer:
            shown = np.array(
                [own == layer for group in self.groups for own in group.layers], np.bool_
            )
        else:
            shown = np.ones(len(self), np.bool_)
        shown[[self.rows[name] for name in hide if name in self.rows]] = False
        return shown

    def matrices_of(self, group: PosedGroup) -> tuple[FloatArray, BoolArray]:
        """Return where the nodes of another instant's models are here, (k, n, 4, 4), and which are
        known, (k,).

        Models are the same if name and number of nodes are.
        """
        shape = group.world_from_node.shape
        for own in self.groups:
            if own.names == group.names and own.world_from_node.shape == shape:
                return own.world_from_node, np.ones(shape[0], np.bool_)
        found = np.zeros(shape)
        known = np.zeros(shape[0], np.bool_)
        for i, name in enumerate(group.names):
            own_matrices = self._matrices.get(name)
            if own_matrices is not None and len(own_matrices) == shape[1]:
                found[i] = own_matrices
                known[i] = True
        return found, known

    def morph_of(self, name: str) -> Mapping[int, FloatArray] | None:
        """Return the morph of a model by its name; None if there is none of that name."""
        row = self.rows.get(name)
        return None if row is None else self[row].morph

    @cached_property
    def _matrices(self) -> dict[str, FloatArray]:
        return {
            name: matrices
            for group in self.groups
            for name, matrices in zip(group.names, group.world_from_node, strict=True)
        }
