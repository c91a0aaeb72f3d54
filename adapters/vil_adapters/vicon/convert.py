"""From Vicon's values to the bridge's: names, metres, z up, global bones, nanoseconds.

The only place where streamed ids, units, axes and frame numbers are interpreted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_adapters.sessions.plausible_range import within_reach
from vil_adapters.vicon.blocks import (
    APPLICATION_INFO,
    FRAME_RATE_INFO,
    GLOBAL_SEGMENTS,
    LABELED_RECONS,
    LATENCY_INFO,
    LIGHTWEIGHT_SEGMENTS,
    STREAM_INFO,
    SUBJECT_INFO,
    SUBJECT_SCALE,
    SUBJECT_TOPOLOGY,
    TICKS_PER_S,
    UNLABELED_RECONS,
    SubjectInfo,
)
from vil_adapters.vicon.codec import Blocks
from vil_adapters.vicon.compiled_segments import IS_COMPILED, SegmentRows
from vil_adapters.vicon.segments import Table, decode_segments, row_type
from vil_bridge.bodies.skeleton import local_to_global, parents_first, trusted_below
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_exp, q_from_matrix, q_to_matrix, yup_to_zup
from vil_bridge.core.types import (
    BoolArray,
    FloatArray,
    Markers,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
)

M_PER_MM: Final = 1e-3
_ROTATION_TOLERANCE: Final = 1e-3
_MAX_LATENCY_S: Final = 60.0
_MIN_RATE_HZ: Final = 1e-3
_STATIC: Final = tuple(
    b.type for b in (SUBJECT_INFO, SUBJECT_TOPOLOGY, SUBJECT_SCALE, APPLICATION_INFO)
)
_Indices = npt.NDArray[np.intp]


# --- time ----------------------------------------------------------------------------------------


def period_ticks(blocks: Blocks) -> int:
    """Return the frame period in ticks of 135 MHz, from the stream's information or its rates.

    0 = unknown.
    """
    ticks = STREAM_INFO.first(blocks)
    if ticks is not None and ticks > 0:
        return ticks
    rates = FRAME_RATE_INFO.first(blocks) or {}
    known = [rate for rate in rates.values() if _MIN_RATE_HZ <= rate < TICKS_PER_S]
    return round(TICKS_PER_S / max(known)) if known else 0


def ticks_to_ns(ticks: int) -> int:
    """Convert ticks of 135 MHz to nanoseconds, in integers."""
    return ticks * NS_PER_S // TICKS_PER_S


def latency_ns(blocks: Blocks) -> int:
    """Return the time from capture to transmission, all parts together; 0 = unknown."""
    total_s = sum(sample.seconds for sample in LATENCY_INFO.first(blocks) or ())
    return round(total_s * NS_PER_S) if 0.0 <= total_s <= _MAX_LATENCY_S else 0


# --- what is described ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Skeleton:
    """A subject of several segments: which slots of the scene are its bones, parents first."""

    model: SkeletonModel
    slots: slice


class _Scene:
    """Places of the described segments and markers in a frame.

    Attributes:
        bodies: names of rigid bodies. body_slots: the segment of each.
        segment_slot: (subject id, segment id) to slot. marker_slot: (subject id, marker id) to
            slot.
    """

    def __init__(self, blocks: Blocks, *, segments: bool) -> None:
        self.y_up = APPLICATION_INFO.first(blocks) == 1
        self.skeletons: list[_Skeleton] = []
        self.segment_slot: dict[tuple[int, int], int] = {}
        self.marker_slot: dict[tuple[int, int], int] = {}
        self.markers: list[str] = []
        rest = {item.subject: item.rows for item in SUBJECT_TOPOLOGY.all(blocks)}
        scales = {item.subject: item.rows for item in SUBJECT_SCALE.all(blocks)}
        bodies: list[tuple[str, int]] = []
        subjects = SUBJECT_INFO.all(blocks)
        for subject in {subject.id: subject for subject in subjects}.values():
            first = len(self.segment_slot)
            order = parents_first([(s.id, s.parent, s) for s in subject.segments])
            for segment, _ in order:
                self.segment_slot[subject.id, segment.id] = len(self.segment_slot)
            if len(order) == 1:
                bodies.append((subject.name, first))
            elif order:
                model = self._model(subject, order, rest.get(subject.id), scales.get(subject.id))
                self.skeletons.append(_Skeleton(model, slice(first, first + len(order))))
                if segments:
                    bodies += [
                        (f"{subject.name}/{s.name}", first + i) for i, (s, _) in enumerate(order)
                    ]
            for marker in subject.markers:
                self.marker_slot[subject.id, marker.id] = len(self.markers)
                self.markers.append(f"{subject.name}/{marker.name}")
        self.names = tuple(subject.name for subject in subjects)
        self.bodies = tuple(name for name, _ in bodies)
        self.body_slots = _places([slot for _, slot in bodies])

    @property
    def parents(self) -> list[int]:
        """Return the slot of each slot's parent, -1 for the root of a person and for a rigid
        body.
        """
        parents = [-1] * len(self.segment_slot)
        for skeleton in self.skeletons:
            first = skeleton.slots.start
            parents[skeleton.slots] = [
                first + above if above >= 0 else -1 for above in skeleton.model.parents
            ]
        return parents

    def slots(self, table: Table) -> list[int]:
        """Return the slot of each segment, -1 for one that is not described."""
        keys = zip(table["subject"].tolist(), table["id"].tolist(), strict=True)
        return [self.segment_slot.get(key, -1) for key in keys]

    def _model(
        self,
        subject: SubjectInfo,
        order: Sequence[tuple[Any, int]],
        rest: Table | None,
        scale: Table | None,
    ) -> SkeletonModel:
        """Return the names, parents and rest offsets.

        A bone's offset is scaled as its parent is.
        """
        row = {segment.id: i for i, (segment, _) in enumerate(order)}
        parents = tuple(parent for _, parent in order)
        offsets = np.zeros((len(order), 3))
        scales = np.ones((len(order), 3))
        if rest is not None:
            for item in rest:
                if int(item["id"]) in row and np.isfinite(item["p"]).all():
                    offsets[row[int(item["id"])]] = item["p"] * M_PER_MM
        if scale is not None:
            for item in scale:
                if int(item["id"]) in row and np.isfinite(item["scale"]).all():
                    scales[row[int(item["id"])]] = item["scale"]
        child = np.array(parents) >= 0
        offsets[child] *= scales[np.array(parents)[child]]
        if self.y_up:
            offsets = yup_to_zup(offsets, np.zeros((len(order), 4)))[0]
        bones = tuple(segment.name for segment, _ in order)
        return SkeletonModel(subject.name, bones, parents, offsets, float(scales.mean()))


def _places(slots: list[int]) -> slice | _Indices:
    """Return an index of some slots, one that copies nothing where they follow each other."""
    if slots == list(range(len(slots))):
        return slice(len(slots))
    return np.array(slots, dtype=np.intp)


# --- frames --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Binding:
    """Described rows of a table and their slots; valid for one sequence of ids."""

    ids: bytes
    rows: _Indices
    slots: _Indices


class ViconConverter:
    """Conversion of cached blocks to :class:`SourceFrame`.

    Args:
        source: name of the source.
        segments: hand on the segments of persons as bodies ``subject/segment`` too.
        markers: ``none``, ``labeled``, or ``all`` of them.

    Attributes:
        subjects: names that the server describes. bodies: names that are handed on as rigid bodies.
        skeletons: models of the subjects with several segments.
        undescribed: segments of the last frame that no description names.
        invalid: segments of the last frame that were no pose: not finite, beyond 10 km, or no
            rotation.
    """

    def __init__(self, source: str, *, segments: bool = False, markers: str = "none") -> None:
        self.undescribed = 0
        self.invalid = 0
        self._source = source
        self._segments = segments
        self._markers = markers
        self._statics: list[list[bytes] | None] = []
        self._scene = _Scene({}, segments=False)
        self._binding = _Binding(b"", np.empty(0, np.intp), np.empty(0, np.intp))
        self._rows: SegmentRows | None = None

    @property
    def subjects(self) -> tuple[str, ...]:
        """Return the names that the server describes."""
        return self._scene.names

    @property
    def bodies(self) -> tuple[str, ...]:
        """Return the names that are emitted as rigid bodies."""
        return self._scene.bodies

    @property
    def skeletons(self) -> tuple[SkeletonModel, ...]:
        """Return the models of the subjects with several segments."""
        return tuple(skeleton.model for skeleton in self._scene.skeletons)

    @property
    def y_up(self) -> bool:
        """Return whether the server's world has its y axis up."""
        return self._scene.y_up

    def describe(self, blocks: Blocks) -> bool:
        """Read the descriptions if they are others than before; True when they are.

        Raises:
            ProtocolError: a description is malformed.
        """
        statics = [blocks.get(kind) for kind in _STATIC]
        if statics == self._statics:
            return False
        self._scene = _Scene(blocks, segments=self._segments)
        self._statics = statics
        self._binding = _Binding(b"", np.empty(0, np.intp), np.empty(0, np.intp))
        self._rows = None
        return True

    def frame(
        self,
        blocks: Blocks,
        number: int,
        t_foreign_ns: int | None,
        latency_ns: int,
        t_arrival_ns: int,
    ) -> SourceFrame:
        """Return all described subjects in the room frame.

        Raises:
            ProtocolError: segments or markers are malformed.
        """
        scene = self._scene
        if IS_COMPILED:
            p_m, q_xyzw, tracked = self._compiled_poses(blocks)
        else:
            p_m, q_xyzw, tracked = self._segment_poses(blocks)
        markers: Markers | None = None
        if self._markers != "none":
            markers = self._marker_positions(blocks)
        return SourceFrame(
            source=self._source,
            frame_number=number,
            t_foreign_ns=t_foreign_ns,
            t_arrival_ns=t_arrival_ns,
            subjects=scene.bodies,
            p_m=p_m[scene.body_slots],
            q_xyzw=q_xyzw[scene.body_slots],
            tracked=tracked[scene.body_slots],
            skeletons=tuple(
                [
                    SkeletonFrame(s.model, p_m[s.slots], q_xyzw[s.slots], tracked[s.slots])
                    for s in scene.skeletons
                ]
            ),
            markers=markers,
            latency_ns=latency_ns,
        )

    def _compiled_poses(self, blocks: Blocks) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return what :meth:`_segment_poses` does, by the compiled kernel."""
        light = LIGHTWEIGHT_SEGMENTS.type in blocks
        kind = LIGHTWEIGHT_SEGMENTS.type if light else GLOBAL_SEGMENTS.type
        bodies = blocks.get(kind, ())
        rows = self._rows
        if rows is None or not rows.convert(bodies, light=light):
            table = decode_segments(bodies, row_type(kind))
            rows = self._rows = SegmentRows(
                table,
                self._scene.slots(table),
                self._scene.parents,
                light=light,
                y_up=self._scene.y_up,
                rotation_tolerance=_ROTATION_TOLERANCE,
            )
            rows.convert(bodies, light=light)
        self.undescribed = rows.undescribed
        self.invalid = rows.invalid
        pose = rows.pose.copy()
        return pose[:, :3], pose[:, 3:], rows.tracked.copy()

    # Any bits may arrive; invalid poses are marked below.
    @np.errstate(invalid="ignore", over="ignore")
    def _segment_poses(self, blocks: Blocks) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return the global poses of all slots in the room.

        A segment that is missing is not tracked.
        """
        light = LIGHTWEIGHT_SEGMENTS.type in blocks
        kind = LIGHTWEIGHT_SEGMENTS.type if light else GLOBAL_SEGMENTS.type
        table = decode_segments(blocks.get(kind, ()), row_type(kind))
        binding = self._bind(table)
        self.undescribed = len(table) - len(binding.rows)
        if self.undescribed:
            table = table[binding.rows]
        count = len(self._scene.segment_slot)
        p_m = np.zeros((count, 3))
        q = np.zeros((count, 4))
        tracked = np.zeros(count, dtype=np.bool_)
        q[:, 3] = 1.0
        p_read = table["p"].astype(np.float64) * M_PER_MM
        if light:
            q_read, good = _rotvec_attitudes(table["rotvec"])
        else:
            q_read, good = _matrix_attitudes(table["R"])
        good &= within_reach(p_read)
        self.invalid = len(good) - int(np.count_nonzero(good))
        slots = binding.slots
        if self.invalid:
            slots = slots[good]
            p_read = p_read[good]
            q_read = q_read[good]
        p_m[slots] = p_read
        q[slots] = q_read
        tracked[slots] = True
        if light:
            for skeleton in self._scene.skeletons:
                bones = skeleton.slots
                parents = skeleton.model.parents
                p_m[bones], q[bones] = local_to_global(p_m[bones], q[bones], parents)
                tracked[bones] = trusted_below(tracked[bones], parents)
        if self._scene.y_up:
            p_m, q = yup_to_zup(p_m, q)
        return p_m, q, tracked

    def _bind(self, table: Table) -> _Binding:
        ids = table["subject"].tobytes() + table["id"].tobytes()
        if ids != self._binding.ids:
            slots = np.array(self._scene.slots(table), dtype=np.intp)
            rows = np.flatnonzero(slots >= 0)
            self._binding = _Binding(ids, rows, slots[rows])
        return self._binding

    def _marker_positions(self, blocks: Blocks) -> Markers:
        scene = self._scene
        p = np.zeros((len(scene.markers), 3))
        tracked = np.zeros(len(scene.markers), dtype=np.bool_)
        for recons in LABELED_RECONS.all(blocks):
            keys = zip(recons["subject"].tolist(), recons["marker"].tolist(), strict=True)
            slots = np.array([scene.marker_slot.get(key, -1) for key in keys], dtype=np.intp)
            known = (slots >= 0) & np.isfinite(recons["p"]).all(axis=1)
            p[slots[known]] = recons["p"][known] * M_PER_MM
            tracked[slots[known]] = True
        labels = tuple(scene.markers)
        if self._markers == "all":
            loose = [
                r["p"][np.isfinite(r["p"]).all(axis=1)] * M_PER_MM
                for r in UNLABELED_RECONS.all(blocks)
            ]
            p = np.concatenate((p, *loose))
            labels += ("",) * (len(p) - len(labels))
            tracked = np.concatenate((tracked, np.ones(len(p) - len(tracked), dtype=np.bool_)))
        if scene.y_up:
            p = yup_to_zup(p, np.zeros((len(p), 4)))[0]
        return Markers(labels, p, tracked)


def _matrix_attitudes(R: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the quaternions (k, 4) of matrices (k, 3, 3), and which of these are rotations.

    K,.
    """
    q = q_from_matrix(R)
    error = np.abs(q_to_matrix(q) - R).reshape(-1, 9).max(axis=1)
    return q, error < _ROTATION_TOLERANCE


def _rotvec_attitudes(rotvec: npt.NDArray[np.float32]) -> tuple[FloatArray, BoolArray]:
    """Return quaternions (k, 4) of rotation vectors (k, 3), and which of these are finite (k,)."""
    wide = rotvec.astype(np.float64)
    good: BoolArray = np.asarray(np.isfinite(wide).all(axis=1))
    return q_exp(np.where(good[:, None], wide, 0.0)), good
