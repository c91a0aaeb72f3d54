"""Stream of an emulated Vicon server.

Descriptions of a motion once, blocks of each frame on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from vil_adapters.vicon.blocks import (
    APPLICATION_INFO,
    FRAME_INFO,
    FRAME_RATE_INFO,
    GLOBAL_SEGMENTS,
    HARDWARE_FRAME_INFO,
    LABELED_RECON,
    LABELED_RECONS,
    LATENCY_INFO,
    LIGHTWEIGHT_SEGMENTS,
    LOCAL_SEGMENTS,
    OBJECT_QUALITY,
    POSE,
    SCALE,
    STREAM_INFO,
    SUBJECT_HEALTH,
    SUBJECT_INFO,
    SUBJECT_SCALE,
    SUBJECT_TOPOLOGY,
    TICKS_PER_S,
    TIMECODE,
    UNLABELED_RECON,
    UNLABELED_RECONS,
    Health,
    LatencySample,
    MarkerInfo,
    Quality,
    SubjectInfo,
    SubjectRows,
    Timecode,
    ViconSegment,
)
from vil_adapters.vicon.config import TrackerEmulatorConfig
from vil_adapters.vicon.convert import M_PER_MM
from vil_adapters.vicon.segments import Table, encode_segments, row_type
from vil_bridge.bodies.skeleton import global_to_local
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_log, q_to_matrix, zup_to_yup
from vil_bridge.core.types import FloatArray, Markers, MotionFrame, SkeletonModel
from vil_bridge.interfaces.ports import MocapMotion

_SEGMENT_TYPES: Final = (LOCAL_SEGMENTS.type, GLOBAL_SEGMENTS.type, LIGHTWEIGHT_SEGMENTS.type)
_LATENCY_PARTS: Final = (("Camera Readout", 0.35), ("Processing", 0.5), ("Streaming", 0.15))
_NO_STANDARD: Final = 0xFFFFFFFF
_MARKER_RADIUS_MM: Final = 7.0


class BlockGenerator:
    """Descriptions of one motion, and its frames.

    Args:
        motion: to stream.
        config: rate and axes.
        first_id: of the subjects; another one after each restart.

    Attributes:
        statics: encoded blocks of what seldom changes, by type, each with their number.
    """

    def __init__(self, motion: MocapMotion, config: TrackerEmulatorConfig, first_id: int) -> None:
        self.motion = motion
        self._config = config
        self.rate_hz = config.rate_hz
        self._models = motion.skeleton_models
        markers = motion.at(0).markers
        self.labels = markers.labels if markers is not None else ()
        names = dict.fromkeys((*motion.subjects, *(model.name for model in self._models)))
        names |= dict.fromkeys(label.partition("/")[0] for label in self.labels if label)
        self.ids = {name: first_id + i for i, name in enumerate(names)}
        self._marker_ids = {
            label: i + 1 for i, label in enumerate(dict.fromkeys(filter(None, self.labels)))
        }
        self.statics = self._statics()
        bodies = [(self.ids[name], 1) for name in motion.subjects]
        bones = [(self.ids[m.name], i + 1) for m in self._models for i in range(len(m.bones))]
        self.keys = np.array([*bodies, *bones], dtype=np.uint32).reshape(-1, 2)

    def recons(self, markers: Markers) -> tuple[Table, Table]:
        """Return the labeled and unlabeled markers that are seen, in the server's axes."""
        p = markers.p_m
        if self.y_up:
            p = np.asarray(zup_to_yup(p, np.zeros((len(p), 4)))[0])
        named = [
            i
            for i, label in enumerate(markers.labels)
            if label in self._marker_ids and markers.tracked[i]
        ]
        loose = [i for i, label in enumerate(markers.labels) if not label and markers.tracked[i]]
        labeled = np.zeros(len(named), LABELED_RECON)
        unlabeled = np.zeros(len(loose), UNLABELED_RECON)
        labeled["subject"] = [self.ids[markers.labels[i].partition("/")[0]] for i in named]
        labeled["marker"] = [self._marker_ids[markers.labels[i]] for i in named]
        for table, rows in ((labeled, named), (unlabeled, loose)):
            table["p"] = p[rows] / M_PER_MM
            table["radius"] = _MARKER_RADIUS_MM
            table["trajectory"] = rows
        return labeled, unlabeled

    @property
    def y_up(self) -> bool:
        """Return whether the server's world has its y axis up."""
        return self._config.up_axis == "y"

    def _statics(self) -> dict[int, tuple[int, bytes]]:
        subjects = [self._subject(name) for name in self.ids]
        health = [
            SUBJECT_HEALTH.encode(Health(identity, 0.1, 1.0)) for identity in self.ids.values()
        ]
        models = self._models
        return {
            STREAM_INFO.type: (1, STREAM_INFO.encode(round(TICKS_PER_S / self._config.rate_hz))),
            APPLICATION_INFO.type: (1, APPLICATION_INFO.encode(int(self.y_up))),
            SUBJECT_INFO.type: (len(subjects), b"".join(map(SUBJECT_INFO.encode, subjects))),
            SUBJECT_TOPOLOGY.type: (
                len(models),
                b"".join(SUBJECT_TOPOLOGY.encode(self._rest(m)) for m in models),
            ),
            SUBJECT_SCALE.type: (
                len(models),
                b"".join(SUBJECT_SCALE.encode(self._scale(m)) for m in models),
            ),
            SUBJECT_HEALTH.type: (len(health), b"".join(health)),
        }

    def _subject(self, name: str) -> SubjectInfo:
        segments = [(0, name)] if name in self.motion.subjects else []
        for model in self._models:
            if model.name == name:
                segments = [
                    (parent + 1, bone)
                    for bone, parent in zip(model.bones, model.parents, strict=True)
                ]
        markers = {
            label: i for label, i in self._marker_ids.items() if label.partition("/")[0] == name
        }
        return SubjectInfo(
            self.ids[name],
            name,
            tuple(
                ViconSegment(parent, i + 1, (0.0,) * 6, bone)
                for i, (parent, bone) in enumerate(segments)
            ),
            tuple(MarkerInfo(i, label.partition("/")[2]) for label, i in markers.items()),
        )

    def _rest(self, model: SkeletonModel) -> SubjectRows:
        rest = np.zeros(len(model.bones), POSE)
        offsets = model.offsets_m
        if self.y_up:
            offsets = zup_to_yup(offsets, np.zeros((len(rest), 4)))[0]
        child = (np.array(model.parents) >= 0)[:, None]
        rest["id"] = np.arange(1, len(rest) + 1)
        rest["p"] = np.where(child, offsets / model.scale, offsets) / M_PER_MM
        rest["R"] = np.eye(3)
        return SubjectRows(self.ids[model.name], rest)

    def _scale(self, model: SkeletonModel) -> SubjectRows:
        scale = np.zeros(len(model.bones), SCALE)
        scale["id"] = np.arange(1, len(scale) + 1)
        scale["scale"] = model.scale
        return SubjectRows(self.ids[model.name], scale)


class EncodedFrame:
    """One frame: each type of block is encoded once, however many clients want it."""

    def __init__(
        self, generator: BlockGenerator, frame_id: int, seen: MotionFrame, latency_ns: int
    ) -> None:
        self.generator = generator
        self._frame_id = frame_id
        self._seen = seen
        self._latency_ns = latency_ns
        self._encoded: dict[tuple[int, frozenset[int]], tuple[int, bytes]] = {}

    def block(self, kind: int, passing: AbstractSet[int] = frozenset()) -> tuple[int, bytes]:
        """Return number and bytes of the blocks of one type.

        ``passing``: ids of subjects, empty = all.
        """
        key = kind, frozenset(passing)
        if key not in self._encoded:
            self._encoded[key] = self._block(*key)
        return self._encoded[key]

    def _block(self, kind: int, passing: frozenset[int]) -> tuple[int, bytes]:
        if kind in _SEGMENT_TYPES:
            table = self._segments(kind)
            if passing:
                table = table[np.isin(table["subject"], list(passing))]
            return len(np.unique(table["subject"])), encode_segments(kind, table)
        single = self._single(kind)
        if single is not None:
            return 1, single
        if kind == OBJECT_QUALITY.type:
            return self._quality()
        return 0, b""

    def _single(self, kind: int) -> bytes | None:
        """Return the one block of types that come once per frame, None for others."""
        if kind == FRAME_INFO.type:
            return FRAME_INFO.encode(self._frame_id)
        if kind == HARDWARE_FRAME_INFO.type:
            return HARDWARE_FRAME_INFO.encode(self._frame_id)
        if kind == LATENCY_INFO.type:
            total_s = self._latency_ns / NS_PER_S
            return LATENCY_INFO.encode(
                tuple(LatencySample(name, part * total_s) for name, part in _LATENCY_PARTS)
            )
        if kind == FRAME_RATE_INFO.type:
            return FRAME_RATE_INFO.encode(
                dict.fromkeys(("Camera", "Hardware"), self.generator.rate_hz)
            )
        if kind == TIMECODE.type:
            return TIMECODE.encode(Timecode(0, 0, 0, 0, 0, 0, _NO_STANDARD, 0, 0))
        if kind in (LABELED_RECONS.type, UNLABELED_RECONS.type) and self._seen.markers is not None:
            labeled, unlabeled = self.generator.recons(self._seen.markers)
            both = LABELED_RECONS.encode(labeled), UNLABELED_RECONS.encode(unlabeled)
            return both[kind == UNLABELED_RECONS.type]
        return None

    def _quality(self) -> tuple[int, bytes]:
        tracked: Sequence[Any] = self._seen.tracked.tolist()
        found = zip(self._seen.subjects, tracked, strict=True)
        blocks = [
            OBJECT_QUALITY.encode(Quality(self.generator.ids[name], 0.9 if good else 0.0))
            for name, good in found
        ]
        return len(blocks), b"".join(blocks)

    def _segments(self, kind: int) -> Table:
        """Return the seen segments of all subjects, in the server's axes."""
        seen = self._seen
        parts = [(seen.p_m, seen.q_xyzw)]
        for skeleton in seen.skeletons:
            pose = skeleton.p_m, skeleton.q_xyzw
            if kind != GLOBAL_SEGMENTS.type:
                pose = global_to_local(*pose, skeleton.model.parents)
            parts.append(pose)
        p: FloatArray = np.concatenate([p for p, _ in parts])
        q: FloatArray = np.concatenate([q for _, q in parts])
        tracked = np.concatenate((seen.tracked, *(s.tracked for s in seen.skeletons)))
        if self.generator.y_up:
            p, q = zup_to_yup(p, q)
        table = np.empty(len(p), row_type(kind))
        table["subject"], table["id"] = self.generator.keys.T
        table["p"] = p / M_PER_MM
        if kind == LIGHTWEIGHT_SEGMENTS.type:
            table["rotvec"] = q_log(q)
        else:
            table["R"] = q_to_matrix(q)
        return table[tracked]
