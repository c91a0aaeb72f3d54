"""Snapshots whose poses are one array, and whose actors are made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    FloatArray,
    Lighting,
    SkeletonFrame,
    TrackingState,
    WorldSnapshot,
)


class ActorTable(NamedTuple):
    """Descriptions of a world's actors, in their order."""

    names: tuple[str, ...]
    kinds: tuple[ActorKind, ...]
    prefabs: tuple[str, ...]
    sizes_m: tuple[tuple[float, float, float], ...]

    @classmethod
    def of(cls, actors: Iterable[Any]) -> ActorTable:
        """Return the table of actors, of the world's or those of a snapshot."""
        rows = [(a.name, a.kind, a.prefab, a.size_m) for a in actors]
        return cls(*zip(*rows, strict=True)) if rows else cls((), (), (), ())


class BlockSnapshot(WorldSnapshot):
    """A snapshot that holds an array.

    A changed copy (``dataclasses.replace``) holds its actors alone.

    Attributes:
        poses: shape (n, 7), position and attitude of each actor; None in a changed copy.
        table: names and the like; the same object in all snapshots of a world.
        states, ages_ns, skeletons: of each actor, as :class:`~vil_bridge.core.types.ActorState` has
            them.
    """

    __slots__ = ("ages_ns", "poses", "skeletons", "states", "table")

    poses: FloatArray | None
    table: ActorTable
    states: Sequence[TrackingState]
    ages_ns: Sequence[int | None]
    skeletons: Sequence[SkeletonFrame | None]

    @classmethod
    def of(
        cls,
        t_ns: int,
        table: ActorTable,
        poses: FloatArray,
        states: Sequence[TrackingState],
        ages_ns: Sequence[int | None],
        skeletons: Sequence[SkeletonFrame | None],
        lighting: Lighting | None,
    ) -> BlockSnapshot:
        """Return the snapshot of an instant."""
        snapshot = cls.__new__(cls)
        values = t_ns, table, poses, states, ages_ns, skeletons, lighting
        for name, value in zip(_FIELDS, values, strict=True):
            _set(snapshot, name, value)
        return snapshot

    def __getattr__(self, name: str) -> Any:
        if name == "poses":
            return None
        if name != "actors" or self.poses is None:
            raise AttributeError(name, name=name, obj=self)
        table = self.table
        poses = self.poses
        transforms = map(Transform, poses[:, :3], poses[:, 3:])
        found = table.names, table.kinds, self.states, self.ages_ns, transforms, self.skeletons
        _set(self, "actors", tuple(map(ActorState, *found, table.prefabs, table.sizes_m)))
        return self.actors


_FIELDS: Final = ("t_ns", "table", "poses", "states", "ages_ns", "skeletons", "lighting")
_set: Final = object.__setattr__
