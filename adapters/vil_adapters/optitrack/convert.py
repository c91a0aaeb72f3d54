"""From Motive's values to the bridge's: names, metres, z up, global bones, nanoseconds.

The only place where streamed ids, units, axes and ticks are interpreted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from vil_adapters.optitrack.codec import ServerInfo
from vil_adapters.optitrack.frame import TRACKED, Frame, Records, SkeletonPose, Suffix
from vil_adapters.optitrack.model import BodyDescription, Models, SkeletonDescription
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_conj, q_mul, q_normalize, q_rotate, yup_to_zup, zup_to_yup
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonFrame, SkeletonModel, SourceFrame

__all__ = [
    "Converter",
    "UpAxis",
    "capture_ns",
    "changed_subjects",
    "global_to_local",
    "local_to_global",
    "ns_to_ticks",
    "ticks_to_ns",
    "zup_to_streamed",
]

UpAxis = Literal["y", "z"]
_Ids = npt.NDArray[np.int32]

BONE_MASK: Final = 0xFFFF
"""The bone's part of a streamed bone id; the rest is the skeleton's."""

_LOCAL_TOLERANCE_M: Final = 0.02


# --- time ----------------------------------------------------------------------------------------


def ticks_to_ns(ticks: int, ticks_per_s: int) -> int:
    """Server ticks in nanoseconds, in integers, since ticks of weeks do not fit a float."""
    return ticks * NS_PER_S // ticks_per_s


def ns_to_ticks(t_ns: int, ticks_per_s: int) -> int:
    """Inverse of :func:`ticks_to_ns`, rounded down."""
    return t_ns * ticks_per_s // NS_PER_S


def capture_ns(suffix: Suffix, info: ServerInfo) -> int | None:
    """Mid-exposure in the server's clock.

    A camera that does not tell it leaves the next later stamp of the same clock. Servers before 3.0
    have only the time since they started, which no echo refers to. None = no stamp at all.
    """
    if info.ticks_per_s:
        ticks = suffix.mid_exposure or suffix.received or suffix.transmit
        return ticks_to_ns(ticks, info.ticks_per_s) if ticks else None
    if suffix.timestamp_s is None or not np.isfinite(suffix.timestamp_s):
        return None
    return round(suffix.timestamp_s * NS_PER_S)


# --- axes ----------------------------------------------------------------------------------------


def _streamed_to_zup(p: FloatArray, q: FloatArray, up_axis: UpAxis) -> tuple[FloatArray, FloatArray]:
    return yup_to_zup(p, q) if up_axis == "y" else (p, q)


def zup_to_streamed(p: FloatArray, q: FloatArray, up_axis: UpAxis) -> tuple[FloatArray, FloatArray]:
    """Room frame to what a server with this up axis streams."""
    return zup_to_yup(p, q) if up_axis == "y" else (p, q)


# --- skeletons -----------------------------------------------------------------------------------


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


def _parents_first(bones: tuple[BodyDescription, ...]) -> list[tuple[BodyDescription, int]]:
    """Bones with the index of their parent in this very order; an unknown or circular parent makes a root."""
    by_id = {bone.id & BONE_MASK: bone for bone in bones}
    index: dict[int, int] = {}
    order: list[tuple[BodyDescription, int]] = []
    for first in by_id:
        chain: dict[int, BodyDescription] = {}
        identity = first
        while identity in by_id and identity not in index and identity not in chain:
            chain[identity] = by_id[identity]
            identity = by_id[identity].parent_id
        for link, bone in reversed(chain.items()):
            order.append((bone, index.get(bone.parent_id, -1)))
            index[link] = len(order) - 1
    return order


class _Skeleton:
    """One described skeleton: its model and how its streamed bones map to it."""

    def __init__(self, description: SkeletonDescription, scale_m: float, up_axis: UpAxis, coordinates: str) -> None:
        order = _parents_first(description.bones)
        offsets = np.array([bone.offset for bone, _ in order], dtype=np.float64).reshape(-1, 3) * scale_m
        identity = np.tile((0.0, 0.0, 0.0, 1.0), (len(order), 1))
        self.model = SkeletonModel(
            name=description.name,
            bones=tuple(bone.name for bone, _ in order),
            parents=tuple(parent for _, parent in order),
            offsets_m=_streamed_to_zup(offsets, identity, up_axis)[0],
        )
        self.coordinates = coordinates
        self._index = {bone.id & BONE_MASK: i for i, (bone, _) in enumerate(order)}
        self._ids = b""
        self._rows = self._slots = np.empty(0, np.intp)

    def frame(self, p: FloatArray, q: FloatArray, tracked: BoolArray, ids: _Ids) -> SkeletonFrame:
        """Poses of the streamed bones, put in the model's order and made global.

        ``tracked`` is True only where a pose was streamed, is one, and everything that it depends on
        is tracked too. Elsewhere the pose means nothing: a bone that was not streamed lies at the
        origin, or at its parent's.
        """
        key = ids.tobytes()
        if key != self._ids:
            slots = [self._index.get(int(identity) & BONE_MASK, -1) for identity in ids]
            self._ids = key
            self._rows = np.flatnonzero(np.array(slots) >= 0)
            self._slots = np.array(slots, dtype=np.intp)[self._rows]
        count = len(self.model.bones)
        p_m, q_xyzw, valid = np.zeros((count, 3)), np.zeros((count, 4)), np.zeros(count, dtype=np.bool_)
        q_xyzw[:, 3] = 1.0
        p_m[self._slots], q_xyzw[self._slots], valid[self._slots] = p[self._rows], q[self._rows], tracked[self._rows]
        if self.coordinates == "auto":
            self._detect(p_m, valid)
        if self.coordinates == "local":
            p_m, q_xyzw = local_to_global(p_m, q_xyzw, self.model.parents)
            self._trust_below_tracked(valid)
        return SkeletonFrame(self.model, p_m, q_xyzw, valid)

    def _detect(self, p_m: FloatArray, tracked: BoolArray) -> None:
        """Bones at their described offsets are local. Until one frame tells, no bone counts as tracked."""
        if not tracked.all():
            tracked[:] = False
            return
        child = np.array(self.model.parents) >= 0
        offsets = self.model.offsets_m[child]
        local = offsets.any() and np.abs(p_m[child] - offsets).max() < _LOCAL_TOLERANCE_M
        self.coordinates = "local" if local else "global"

    def _trust_below_tracked(self, tracked: BoolArray) -> None:
        """A local pose is known no better than the poses above it."""
        above = np.array(self.model.parents)
        for bones in _levels(self.model.parents):
            tracked[bones] &= tracked[above[bones]]


# --- frames --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Binding:
    """Which records of a frame are named bodies, valid for one sequence of ids."""

    ids: bytes
    rows: npt.NDArray[np.intp]
    subjects: tuple[str, ...]


class Converter:
    """Turns frames into :class:`SourceFrame`, by the descriptions of one server.

    Attributes:
        unknown: the last frame held a body or skeleton that is not described.
        nonfinite: poses of the last frame that were called tracked but are none, since they hold NaN,
            infinity or a zero quaternion; they are handed on as untracked.
    """

    def __init__(
        self, source: str, models: Models, info: ServerInfo, *, scale_m: float, up_axis: UpAxis, coordinates: str
    ) -> None:
        self.unknown = False
        self.nonfinite = 0
        self._source = source
        self._info = info
        self._scale_m = scale_m
        self._up_axis: UpAxis = up_axis
        self._names = {body.id: body.name for body in models.bodies}
        self._skeletons = {
            skeleton.id: _Skeleton(skeleton, scale_m, up_axis, coordinates) for skeleton in models.skeletons
        }
        self._binding = _Binding(b"", np.empty(0, np.intp), ())

    @property
    def skeleton_coordinates(self) -> dict[str, str]:
        """What each skeleton's bones are streamed in: ``auto`` while unknown."""
        return {skeleton.model.name: skeleton.coordinates for skeleton in self._skeletons.values()}

    def frame(self, frame: Frame, t_arrival_ns: int) -> SourceFrame:
        """The frame's described subjects, in the room frame."""
        self.nonfinite = 0
        binding = self._bind(frame.bodies["id"])
        self.unknown = len(binding.rows) != len(frame.bodies)
        p_m, q_xyzw, tracked = self._poses(frame.bodies[binding.rows] if self.unknown else frame.bodies)
        return SourceFrame(
            source=self._source,
            frame_number=frame.number,
            t_foreign_ns=capture_ns(frame.suffix, self._info),
            t_arrival_ns=t_arrival_ns,
            subjects=binding.subjects,
            p_m=p_m,
            q_xyzw=q_xyzw,
            tracked=tracked,
            skeletons=tuple(filter(None, map(self._skeleton, frame.skeletons))),
        )

    def _bind(self, ids: _Ids) -> _Binding:
        key = ids.tobytes()
        if key != self._binding.ids:
            names = [self._names.get(int(identity)) for identity in ids]
            rows = np.array([row for row, name in enumerate(names) if name is not None], dtype=np.intp)
            self._binding = _Binding(key, rows, tuple(name for name in names if name is not None))
        return self._binding

    def _poses(self, records: Records) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Positions (n, 3), attitudes (n, 4) and whether they are tracked (n,); always finite."""
        p = records["p"].astype(np.float64) * self._scale_m
        q = records["q"].astype(np.float64)
        tracked: BoolArray = (records["params"] & TRACKED).astype(np.bool_)
        norm2 = np.einsum("ij,ij->i", q, q)
        usable = np.isfinite(p).all(axis=1) & (norm2 > 0.0) & (norm2 < np.inf)
        if not usable.all():
            self.nonfinite += int(np.count_nonzero(tracked & ~usable))
            tracked &= usable
            p[~usable], q[~usable] = 0.0, 0.0
        p_m, q_xyzw = _streamed_to_zup(p, q_normalize(q), self._up_axis)
        return p_m, q_xyzw, tracked

    def _skeleton(self, pose: SkeletonPose) -> SkeletonFrame | None:
        skeleton = self._skeletons.get(pose.id)
        if skeleton is None:
            self.unknown = True
            return None
        return skeleton.frame(*self._poses(pose.bones), pose.bones["id"])


def changed_subjects(before: Models, after: Models) -> list[str]:
    """Names described before and after, but differently: their poses do not continue each other."""
    known = before.by_name
    return [name for name, item in after.by_name.items() if known.get(name, item) != item]
