"""From Motive's values to the bridge's: names, metres, z up, global bones, nanoseconds.

The only place where streamed ids, units, axes and ticks are interpreted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from vil_adapters.common.plausible_range import within_reach
from vil_adapters.optitrack.codec import ServerInfo
from vil_adapters.optitrack.frame import BODY, TRACKED, NatNetFrame, Records, Suffix
from vil_adapters.optitrack.labels import BONE_MASK, MarkerLabels
from vil_adapters.optitrack.model import AssetDescription, Models, SkeletonDescription, firsts
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import yup_to_zup, zup_to_yup
from vil_bridge.core.skeleton import local_to_global, parents_first, trusted_below
from vil_bridge.core.types import BoolArray, FloatArray, Markers, SkeletonFrame, SkeletonModel, SourceFrame

UpAxis = Literal["y", "z"]
MarkerChoice = Literal["none", "labeled", "all"]
_Ids = npt.NDArray[np.int32]

_LOCAL_TOLERANCE_M: Final = 0.02
LARGEST_NS: Final = 2**63 - 1
"""Largest time that 64 bits hold, 292 years; larger ones are no times."""


# --- time ----------------------------------------------------------------------------------------


def ticks_to_ns(ticks: int, ticks_per_s: int) -> int:
    """Convert server ticks to nanoseconds, in integers, since ticks of weeks do not fit a float."""
    return ticks * NS_PER_S // ticks_per_s


def ns_to_ticks(t_ns: int, ticks_per_s: int) -> int:
    """Invert :func:`ticks_to_ns`, rounded down."""
    return t_ns * ticks_per_s // NS_PER_S


def capture_ns(suffix: Suffix, info: ServerInfo) -> int | None:
    """Return the mid-exposure time in the server's clock.

    A camera without it leaves the next later stamp of the same clock. Servers before 3.0
    have only the time since they started, which no echo refers to. None = no stamp at all, or one of more than
    292 years, which 64 bits do not hold.
    """
    if info.ticks_per_s:
        ticks = suffix.mid_exposure or suffix.received or suffix.transmit
        t_ns = ticks_to_ns(ticks, info.ticks_per_s)
        return t_ns if ticks > 0 and t_ns <= LARGEST_NS else None
    return stamp_ns(suffix.timestamp_s)


def stamp_ns(stamp_s: float | None) -> int | None:
    """Return seconds since the server started in nanoseconds; None where they are missing or impossible."""
    return round(stamp_s * NS_PER_S) if stamp_s is not None and abs(stamp_s) < LARGEST_NS / NS_PER_S else None


def latency_ns(suffix: Suffix, info: ServerInfo) -> int:
    """Return the time from capture to transmission as far as known, else 0."""
    captured = suffix.mid_exposure or suffix.received
    if not (info.ticks_per_s and captured and suffix.transmit):
        return 0
    latency = ticks_to_ns(suffix.transmit - captured, info.ticks_per_s)
    return latency if 0 < latency <= LARGEST_NS else 0


# --- axes ----------------------------------------------------------------------------------------


def _streamed_to_zup(p: FloatArray, q: FloatArray, up_axis: UpAxis) -> tuple[FloatArray, FloatArray]:
    return yup_to_zup(p, q) if up_axis == "y" else (p, q)


def zup_to_streamed(p: FloatArray, q: FloatArray, up_axis: UpAxis) -> tuple[FloatArray, FloatArray]:
    """Convert poses of the room frame to those that a server with this up axis streams."""
    return zup_to_yup(p, q) if up_axis == "y" else (p, q)


# --- skeletons -----------------------------------------------------------------------------------


class _Skeleton:
    """One described skeleton: its model and how its streamed bones map to it."""

    def __init__(self, description: SkeletonDescription, scale_m: float, up_axis: UpAxis, coordinates: str) -> None:
        order = parents_first([(bone.id & BONE_MASK, bone.parent_id, bone) for bone in description.bones])
        offsets = np.array([bone.offset for bone, _ in order], dtype=np.float64).reshape(-1, 3) * scale_m
        offsets[~np.isfinite(offsets)] = 0.0  # described by no number: as good as not described
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
        self._in_order = False

    def frame(self, p_m: FloatArray, q_xyzw: FloatArray, tracked: BoolArray, ids: bytes) -> SkeletonFrame:
        """Return the global poses of the streamed bones, in the model's order.

        ``tracked`` is True only where a pose was streamed, is one, and everything that it depends on
        is tracked too. Elsewhere the pose means nothing: a bone that was not streamed lies at the
        origin, or at its parent's.
        """
        if ids != self._ids:
            self._bind(ids)
        if not self._in_order:
            p_m, q_xyzw, tracked = self._ordered(p_m, q_xyzw, tracked)
        if self.coordinates == "auto":
            tracked = self._detect(p_m, tracked)
        if self.coordinates == "local":
            p_m, q_xyzw = local_to_global(p_m, q_xyzw, self.model.parents)
            tracked = trusted_below(tracked, self.model.parents)
        return SkeletonFrame(self.model, p_m, q_xyzw, tracked)

    def _bind(self, ids: bytes) -> None:
        slots = [self._index.get(identity & BONE_MASK, -1) for identity in np.frombuffer(ids, np.int32).tolist()]
        self._ids = ids
        self._rows = np.flatnonzero(np.array(slots) >= 0)
        self._slots = np.array(slots, dtype=np.intp)[self._rows]
        self._in_order = slots == list(range(len(self.model.bones)))

    def _ordered(self, p: FloatArray, q: FloatArray, tracked: BoolArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        count = len(self.model.bones)
        p_m, q_xyzw, valid = np.zeros((count, 3)), np.zeros((count, 4)), np.zeros(count, dtype=np.bool_)
        q_xyzw[:, 3] = 1.0
        p_m[self._slots], q_xyzw[self._slots], valid[self._slots] = p[self._rows], q[self._rows], tracked[self._rows]
        return p_m, q_xyzw, valid

    def _detect(self, p_m: FloatArray, tracked: BoolArray) -> BoolArray:
        """Detect local coordinates: bones are at their described offsets. Until a frame decides, no bone is tracked.

        A frame decides when half of the bones are tracked: fingers or toes may never be.
        """
        child = np.array(self.model.parents) >= 0
        seen = child & tracked
        if 2 * np.count_nonzero(seen) < np.count_nonzero(child):
            return np.zeros_like(tracked)
        offsets = self.model.offsets_m[seen]
        local = offsets.any() and np.abs(p_m[seen] - offsets).max() < _LOCAL_TOLERANCE_M
        self.coordinates = "local" if local else "global"
        return tracked


# --- frames --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Binding:
    """Rows of a frame's poses that are named bodies, valid for one sequence of ids.

    Attributes:
        rows: None when all rows are, in this order.
        unknown: some rows are not described.
    """

    ids: bytes
    rows: npt.NDArray[np.intp] | None
    subjects: tuple[str, ...]
    unknown: bool = False


class NatNetConverter:
    """Conversion of frames to :class:`SourceFrame`, by the descriptions of one server.

    Of several subjects of a kind with one name, the first described one is used.

    Attributes:
        unknown: the last frame held a body, skeleton or trained marker set that is not described.
        implausible: poses of the last frame that were called tracked and lie more than 10 km from the
            origin; they are handed on as untracked.
        nonfinite: poses of the last frame that were called tracked but are none, since they hold NaN,
            infinity or a zero quaternion; they are handed on as untracked.
    """

    def __init__(
        self,
        source: str,
        models: Models,
        info: ServerInfo,
        *,
        scale_m: float,
        up_axis: UpAxis,
        coordinates: str,
        markers: MarkerChoice = "none",
    ) -> None:
        self.unknown = False
        self.nonfinite = self.implausible = 0
        self._source = source
        self._info = info
        self._axes = _pose_matrix(scale_m, up_axis)
        rigid = firsts(models.rigid)
        skeletons = firsts(models.skeletons)
        self._names = {body.id: body.name if body in rigid else _IGNORED for body in models.bodies}
        self._asset_names = {asset.id: asset_body_names(asset) for asset in models.assets if asset in rigid}
        self._skeletons = {s.id: _Skeleton(s, scale_m, up_axis, coordinates) for s in skeletons}
        self._ignored_skeletons = {s.id for s in models.skeletons} - self._skeletons.keys()
        self._labels = None if markers == "none" else MarkerLabels(models, unlabeled=markers == "all")
        self._binding = _Binding(b"", None, ())

    @property
    def skeleton_coordinates(self) -> dict[str, str]:
        """Return the coordinates of the streamed bones: ``auto`` while unknown."""
        return {skeleton.model.name: skeleton.coordinates for skeleton in self._skeletons.values()}

    @np.errstate(invalid="ignore", over="ignore")  # any bits may arrive; invalid poses are marked below
    def frame(self, frame: NatNetFrame, t_arrival_ns: int) -> SourceFrame:
        """Return the frame's described subjects, in the room frame."""
        self.unknown = False
        self.nonfinite = self.implausible = 0
        records = _joined(frame)
        poses, all_tracked = self._poses(records)
        count = len(records) - sum([len(skeleton.bones) for skeleton in frame.skeletons])
        binding = self._bind(frame, records["id"][:count])
        p_m, q_xyzw, tracked = poses[:count, :3], poses[:count, 3:], all_tracked[:count]
        self.unknown |= binding.unknown
        if binding.rows is not None:
            p_m, q_xyzw, tracked = p_m[binding.rows], q_xyzw[binding.rows], tracked[binding.rows]
        return SourceFrame(
            source=self._source,
            frame_number=frame.number,
            t_foreign_ns=capture_ns(frame.suffix, self._info),
            t_arrival_ns=t_arrival_ns,
            subjects=binding.subjects,
            p_m=p_m,
            q_xyzw=q_xyzw,
            tracked=tracked,
            skeletons=tuple(self._skeleton_frames(frame, poses, all_tracked, count)) if frame.skeletons else (),
            markers=None if self._labels is None else self._markers(frame, self._labels),
            latency_ns=latency_ns(frame.suffix, self._info),
        )

    def _bind(self, frame: NatNetFrame, ids: _Ids) -> _Binding:
        """Return the names of the rows: rigid bodies, then the bodies of each trained marker set."""
        key = ids.tobytes()
        if frame.assets:
            key += b"".join(b"%d:%d," % (asset.id, len(asset.bodies)) for asset in frame.assets)
        if key != self._binding.ids:
            bodies = ids[: len(frame.bodies)].tolist()
            names = [self._names.get(identity) for identity in bodies]
            for asset in frame.assets:
                known = self._asset_names.get(asset.id, {})
                names += [known.get(identity & BONE_MASK) for identity in asset.bodies["id"].tolist()]
            used = [(row, name) for row, name in enumerate(names) if name is not None and name != _IGNORED]
            rows = None if len(used) == len(names) else np.array([row for row, _ in used], dtype=np.intp)
            self._binding = _Binding(key, rows, tuple(name for _, name in used), unknown=None in names)
        return self._binding

    def _poses(self, records: Records) -> tuple[FloatArray, BoolArray]:
        """Return the poses (n, 7) in the room, always finite, and whether they are tracked (n,)."""
        pose = records.view(_PACKED_POSE)["pose"].astype(np.float64)
        tracked: BoolArray = (records["params"] & TRACKED).astype(np.bool_)
        q = pose[:, 3:]
        norm2 = (q * q) @ _ONES
        # One sum for all of them: the common case is that every pose is one.
        if not (math.isfinite(np.add.reduce(pose, axis=None)) and np.minimum.reduce(norm2, initial=1.0) > 0.0):
            usable = np.isfinite(pose.sum(axis=1)) & (norm2 > 0.0)
            self.nonfinite += int(np.count_nonzero(tracked & ~usable))
            tracked &= usable
            pose[~usable] = _NO_POSE
            norm2[~usable] = 1.0
        room = pose @ self._axes
        room[:, 3:] /= np.sqrt(norm2)[:, None]
        near = within_reach(room[:, :3])
        if not near.all():
            self.implausible += int(np.count_nonzero(tracked & ~near))
            tracked &= near
            room[~near] = _NO_POSE
        return room, tracked

    def _skeleton_frames(
        self, frame: NatNetFrame, poses: FloatArray, tracked: BoolArray, start: int
    ) -> Iterator[SkeletonFrame]:
        """Return the described skeletons; their bones begin at row ``start``."""
        for streamed in frame.skeletons:
            rows = slice(start, start + len(streamed.bones))
            start = rows.stop
            skeleton = self._skeletons.get(streamed.id)
            if skeleton is None:
                self.unknown |= streamed.id not in self._ignored_skeletons
                continue
            yield skeleton.frame(poses[rows, :3], poses[rows, 3:], tracked[rows], streamed.bones["id"].tobytes())

    def _markers(self, frame: NatNetFrame, labels: MarkerLabels) -> Markers:
        names, p, tracked = labels.read(frame, before_3=not self._info.ticks_per_s)
        p_m = p @ self._axes[:3, :3]
        near = within_reach(p_m)
        return Markers(names, np.where(near[:, None], p_m, 0.0), tracked & near)


_PACKED_POSE: Final = np.dtype(
    {"names": ["pose"], "formats": [("<f4", 7)], "offsets": [BODY["id"].itemsize], "itemsize": BODY.itemsize}
)
_ONES: Final = np.ones(4)
_IGNORED: Final = ""
"""Stands for the name of a body that shares it with an earlier one."""
_NO_POSE: Final = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def _pose_matrix(scale_m: float, up_axis: UpAxis) -> FloatArray:
    """Return the factors by which streamed pose rows (n, 7) become room poses in metres."""
    matrix = np.zeros((7, 7))
    matrix[:3, :3] = _streamed_to_zup(np.eye(3), np.zeros((3, 4)), up_axis)[0] * scale_m
    matrix[3:, 3:] = _streamed_to_zup(np.zeros((4, 3)), np.eye(4), up_axis)[1]
    return matrix


def _joined(frame: NatNetFrame) -> Records:
    """Return all bodies and bones of a frame in one array without gaps: bodies, assets' bodies, bones."""
    if not (frame.assets or frame.skeletons) and frame.bodies.flags.c_contiguous:
        return frame.bodies
    blocks = [frame.bodies, *(a.bodies for a in frame.assets), *(s.bones for s in frame.skeletons)]
    return np.frombuffer(b"".join([block.tobytes() for block in blocks]), BODY)


def asset_body_names(asset: AssetDescription) -> dict[int, str]:
    """Return the subjects of a trained marker set by body id: a single body has the name of the set."""
    if len(asset.bodies) == 1:
        return {asset.bodies[0].id & BONE_MASK: asset.name}
    return {body.id & BONE_MASK: f"{asset.name}/{body.name}" for body in asset.bodies}


def changed_subjects(before: Models, after: Models) -> list[str]:
    """Return the names whose description changed: their poses begin a new history."""
    known = before.by_name
    return [name for name, item in after.by_name.items() if known.get(name, item) != item]
