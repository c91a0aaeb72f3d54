"""From Motive's values to the bridge's: names, metres, z up, global bones, nanoseconds.

The only place where streamed ids, units, axes and ticks are interpreted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_adapters.optitrack.compiled_frame import PackedFrame, PoseRows, StreamedFrame
from vil_adapters.optitrack.fast_codec import decode_poses
from vil_adapters.optitrack.labels import BONE_MASK, MarkerLabels
from vil_adapters.optitrack.skeletons import StreamedSkeleton
from vil_adapters.sessions.plausible_range import within_reach
from vil_bridge.core.block_frame import BlockFrame, BlockLayout
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import (
    BoolArray,
    FloatArray,
    Markers,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
)
from vil_bridge.protocols.natnet.axes import UpAxis, pose_matrix
from vil_bridge.protocols.natnet.codec import ServerInfo
from vil_bridge.protocols.natnet.frame import BODY, TRACKED, NatNetFrame, Records, Suffix
from vil_bridge.protocols.natnet.model import AssetDescription, Models, firsts

MarkerChoice = Literal["none", "labeled", "all"]
_Ids = npt.NDArray[np.int32]

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
    have only the time since they started, which no echo refers to. None = no stamp at all, or one
    of more than 292 years, which 64 bits do not hold.
    """
    if info.ticks_per_s:
        ticks = suffix.mid_exposure or suffix.received or suffix.transmit
        t_ns = ticks_to_ns(ticks, info.ticks_per_s)
        return t_ns if ticks > 0 and t_ns <= LARGEST_NS else None
    return stamp_ns(suffix.timestamp_s)


def stamp_ns(stamp_s: float | None) -> int | None:
    """Return seconds since the server started in nanoseconds.

    None where they are missing or impossible.
    """
    if stamp_s is not None and abs(stamp_s) < LARGEST_NS / NS_PER_S:
        return round(stamp_s * NS_PER_S)
    return None


def latency_ns(suffix: Suffix, info: ServerInfo) -> int:
    """Return the time from capture to transmission as far as known, else 0."""
    captured = suffix.mid_exposure or suffix.received
    if not (info.ticks_per_s and captured and suffix.transmit):
        return 0
    latency = ticks_to_ns(suffix.transmit - captured, info.ticks_per_s)
    return latency if 0 < latency <= LARGEST_NS else 0


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


class _PackedBinding(NamedTuple):
    """Meaning of the poses that the kernel converts, valid for frames of one layout.

    Attributes:
        rows, layout: those of the named bodies, then those of each described skeleton in its
            model's order.
        skeletons: those of the layout, and whether their coordinates were known when this was made.
        settled: all were.
    """

    rows: PoseRows
    layout: BlockLayout
    skeletons: tuple[tuple[StreamedSkeleton, bool], ...]
    unknown: bool
    settled: bool

    def decided(self) -> bool:
        """Return whether a skeleton has found its coordinates since this was made."""
        return any(
            not settled and skeleton.coordinates != "auto" for skeleton, settled in self.skeletons
        )


class NatNetConverter:
    """Conversion of frames to :class:`SourceFrame`, by the descriptions of one server.

    Of several subjects of a kind with one name, the first described one is used.

    Attributes:
        unknown: the last frame held a body, skeleton or trained marker set that is not described.
        implausible: poses of the last frame that were called tracked and lie more than 10 km from
            the origin; they are handed on as untracked.
        nonfinite: poses of the last frame that were called tracked but are none, since they hold
            NaN, infinity or a zero quaternion; they are handed on as untracked.
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
        self._axes = pose_matrix(scale_m, up_axis)
        rigid = firsts(models.rigid)
        skeletons = firsts(models.skeletons)
        self._names = {body.id: body.name if body in rigid else _IGNORED for body in models.bodies}
        self._asset_names = {
            asset.id: asset_body_names(asset) for asset in models.assets if asset in rigid
        }
        self._skeletons = {
            s.id: StreamedSkeleton(s, scale_m, up_axis, coordinates) for s in skeletons
        }
        self._ignored_skeletons = {s.id for s in models.skeletons} - self._skeletons.keys()
        self._labels: MarkerLabels | None = None
        if markers != "none":
            self._labels = MarkerLabels(models, unlabeled=markers == "all")
        self._binding = _Binding(b"", None, ())
        self._packed: _PackedBinding | None = None

    @property
    def skeleton_coordinates(self) -> dict[str, str]:
        """Return the coordinates of the streamed bones: ``auto`` while unknown."""
        return {skeleton.model.name: skeleton.coordinates for skeleton in self._skeletons.values()}

    def frame(self, frame: StreamedFrame, t_arrival_ns: int) -> SourceFrame:
        """Return the frame's described subjects, in the room frame."""
        self.unknown = False
        self.nonfinite = self.implausible = 0
        if isinstance(frame, PackedFrame):
            return self._converted(frame, t_arrival_ns)
        return self._read(frame, t_arrival_ns)

    # --- in the compiled kernel -------------------------------------------------------------------

    def _converted(self, frame: PackedFrame, t_arrival_ns: int) -> SourceFrame:
        binding = self._packed
        if binding is None or not binding.rows.convert(frame):
            decoded = decode_poses(frame.datagram, frame.version)
            if self._labels is not None or (binding := self._bind_packed(decoded)) is None:
                return self._read(decoded, t_arrival_ns)
            binding.rows.convert(frame)
        self._packed = binding
        stamps = (
            capture_ns(frame.suffix, self._info),
            t_arrival_ns,
            latency_ns(frame.suffix, self._info),
        )
        return self.streamed(frame.number, *stamps, all_poses=binding.rows.all_poses)

    @property
    def settled_rows(self) -> PoseRows | None:
        """Return the arrays of the layout of now.

        None while there is none, or a skeleton's coordinates are unknown.
        """
        if self._packed is None or not self._packed.settled:
            return None
        return self._packed.rows

    def streamed(
        self,
        number: int,
        t_foreign_ns: int | None,
        t_arrival_ns: int,
        latency_ns: int,
        *,
        all_poses: bool,
    ) -> SourceFrame:
        """Return the frame that the kernel has just converted into the arrays of the layout of now.

        ``all_poses`` is False where some tracked poses are none.
        """
        binding = self._packed
        assert binding is not None, "the kernel converted by it"
        self.unknown = binding.unknown
        rows = binding.rows
        self.nonfinite = self.implausible = 0
        if not all_poses:
            self.nonfinite = rows.nonfinite
            self.implausible = rows.implausible
        frame = BlockFrame.of(
            self._source,
            number,
            t_foreign_ns,
            t_arrival_ns,
            latency_ns,
            binding.layout,
            rows.block(),
        )
        if binding.settled:
            return frame
        return self._placed(binding, frame)

    def _placed(self, binding: _PackedBinding, frame: BlockFrame) -> SourceFrame:
        """Return a frame with global bones of the skeletons whose coordinates are not known yet."""
        found = [
            bones if settled else skeleton.placed(bones.p_m, bones.q_xyzw, bones.tracked)
            for bones, (skeleton, settled) in zip(frame.skeletons, binding.skeletons, strict=True)
        ]
        if binding.decided():
            self._packed = None
        return replace(frame, skeletons=tuple(found))

    def _bind_packed(self, frame: NatNetFrame) -> _PackedBinding | None:
        """Return the meaning of a layout's poses.

        None where its skeletons have more bones than one would stream.
        """
        names = self._row_names(frame)
        subjects = tuple(name for name in names if name)
        numbers = itertools.count()
        rows = [next(numbers) if name else -1 for name in names]
        parents = [-1] * len(subjects)
        skeletons: list[tuple[StreamedSkeleton, bool]] = []
        firsts: list[tuple[SkeletonModel, int]] = []
        unknown = None in names
        for streamed in frame.skeletons:
            start = len(parents)
            skeleton = self._skeletons.get(streamed.id)
            if skeleton is None:
                unknown |= streamed.id not in self._ignored_skeletons
                rows += [-1] * len(streamed.bones)
                continue
            rows += _counted_from(start, skeleton.slots(streamed.bones["id"].tolist()))
            above: tuple[int, ...] = (-1,) * len(skeleton.model.bones)
            if skeleton.coordinates == "local":
                above = skeleton.model.parents
            parents += _counted_from(start, above)
            skeletons.append((skeleton, skeleton.coordinates != "auto"))
            firsts.append((skeleton.model, start))
            if len(parents) > _MOST_ROWS:
                return None
        pose_rows = PoseRows(frame, rows, parents, self._axes)
        layout = BlockLayout(len(parents), subjects, tuple(firsts))
        settled = all(known for _, known in skeletons)
        return _PackedBinding(pose_rows, layout, tuple(skeletons), unknown, settled)

    def _row_names(self, frame: NatNetFrame) -> list[str | None]:
        """Return the names of the rigid bodies, then those of the bodies of each trained marker
        set; None = unknown.
        """
        names = [self._names.get(identity) for identity in frame.bodies["id"].tolist()]
        for asset in frame.assets:
            known = self._asset_names.get(asset.id, {})
            names += [known.get(identity & BONE_MASK) for identity in asset.bodies["id"].tolist()]
        return names

    # --- in NumPy ---------------------------------------------------------------------------------

    # Any bits may arrive; invalid poses are marked below.
    @np.errstate(invalid="ignore", over="ignore")
    def _read(self, frame: NatNetFrame, t_arrival_ns: int) -> SourceFrame:
        records = _joined(frame)
        poses, all_tracked = self._poses(records)
        count = len(records) - sum([len(skeleton.bones) for skeleton in frame.skeletons])
        binding = self._bind(frame, records["id"][:count])
        p_m = poses[:count, :3]
        q_xyzw = poses[:count, 3:]
        tracked = all_tracked[:count]
        self.unknown |= binding.unknown
        if binding.rows is not None:
            p_m = p_m[binding.rows]
            q_xyzw = q_xyzw[binding.rows]
            tracked = tracked[binding.rows]
        skeletons: tuple[SkeletonFrame, ...] = ()
        if frame.skeletons:
            skeletons = tuple(self._skeleton_frames(frame, poses, all_tracked, count))
        markers: Markers | None = None
        if self._labels is not None:
            markers = self._markers(frame, self._labels)
        return SourceFrame(
            source=self._source,
            frame_number=frame.number,
            t_foreign_ns=capture_ns(frame.suffix, self._info),
            t_arrival_ns=t_arrival_ns,
            subjects=binding.subjects,
            p_m=p_m,
            q_xyzw=q_xyzw,
            tracked=tracked,
            skeletons=skeletons,
            markers=markers,
            latency_ns=latency_ns(frame.suffix, self._info),
        )

    def _bind(self, frame: NatNetFrame, ids: _Ids) -> _Binding:
        """Return the names of the rows.

        Rigid bodies, then the bodies of each trained marker set.
        """
        key = ids.tobytes()
        if frame.assets:
            key += b"".join(b"%d:%d," % (asset.id, len(asset.bodies)) for asset in frame.assets)
        if key != self._binding.ids:
            names = self._row_names(frame)
            used = [
                (row, name)
                for row, name in enumerate(names)
                if name is not None and name != _IGNORED
            ]
            rows: npt.NDArray[np.intp] | None = None
            if len(used) != len(names):
                rows = np.array([row for row, _ in used], dtype=np.intp)
            self._binding = _Binding(
                key, rows, tuple(name for _, name in used), unknown=None in names
            )
        return self._binding

    def _poses(self, records: Records) -> tuple[FloatArray, BoolArray]:
        """Return the poses (n, 7) in the room, always finite, and whether they are tracked (n,)."""
        pose = records.view(_PACKED_POSE)["pose"].astype(np.float64)
        tracked: BoolArray = (records["params"] & TRACKED).astype(np.bool_)
        q = pose[:, 3:]
        norm2 = (q * q) @ _ONES
        # One sum for all of them: the common case is that every pose is one.
        if not (
            math.isfinite(np.add.reduce(pose, axis=None))
            and np.minimum.reduce(norm2, initial=1.0) > 0.0
        ):
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
            yield skeleton.frame(
                poses[rows, :3], poses[rows, 3:], tracked[rows], streamed.bones["id"].tobytes()
            )

    def _markers(self, frame: NatNetFrame, labels: MarkerLabels) -> Markers:
        names, p, tracked = labels.read(frame, before_3=not self._info.ticks_per_s)
        p_m = p @ self._axes[:3, :3]
        near = within_reach(p_m)
        return Markers(names, np.where(near[:, None], p_m, 0.0), tracked & near)


_PACKED_POSE: Final = np.dtype(
    {
        "names": ["pose"],
        "formats": [("<f4", 7)],
        "offsets": [BODY["id"].itemsize],
        "itemsize": BODY.itemsize,
    }
)
_MOST_ROWS: Final = 4096
"""Rows of poses that the kernel converts: twice what one datagram can stream."""
_ONES: Final = np.ones(4)
_IGNORED: Final = ""
"""Stands for the name of a body that shares it with an earlier one."""
_NO_POSE: Final = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def _counted_from(start: int, places: Sequence[int]) -> list[int]:
    """Return places that begin at a row; -1 stays none."""
    return [start + place if place >= 0 else -1 for place in places]


def _joined(frame: NatNetFrame) -> Records:
    """Return all bodies and bones of a frame in one array without gaps.

    Bodies, assets' bodies, bones.
    """
    if not (frame.assets or frame.skeletons) and frame.bodies.flags.c_contiguous:
        return frame.bodies
    blocks = [frame.bodies, *(a.bodies for a in frame.assets), *(s.bones for s in frame.skeletons)]
    return np.frombuffer(b"".join([block.tobytes() for block in blocks]), BODY)


def asset_body_names(asset: AssetDescription) -> dict[int, str]:
    """Return the subjects of a trained marker set by body id.

    A single body has the name of the set.
    """
    if len(asset.bodies) == 1:
        return {asset.bodies[0].id & BONE_MASK: asset.name}
    return {body.id & BONE_MASK: f"{asset.name}/{body.name}" for body in asset.bodies}


def changed_subjects(before: Models, after: Models) -> list[str]:
    """Return the names whose description changed: their poses begin a new history."""
    known = before.by_name
    return [name for name, item in after.by_name.items() if known.get(name, item) != item]
