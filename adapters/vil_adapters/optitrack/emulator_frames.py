"""Simulated or recorded motion as frames and descriptions of NatNet, for the emulated server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_bridge.bodies.skeleton import global_to_local
from vil_bridge.core.geometry import q_conj, q_rotate
from vil_bridge.core.types import BoolArray, FloatArray, Markers, MotionFrame
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.protocols.natnet.axes import UpAxis, zup_to_streamed
from vil_bridge.protocols.natnet.codec import TICKS_SINCE, Version
from vil_bridge.protocols.natnet.frame import (
    INNER_MARKER,
    MARKER,
    NO_MARKERS,
    NO_POINTS,
    OCCLUDED,
    TRACKED,
    UNLABELED,
    AnalogSamples,
    AssetPose,
    MarkerSet,
    NatNetFrame,
    Points,
    Records,
    SkeletonPose,
)
from vil_bridge.protocols.natnet.model import (
    AssetDescription,
    AssetMarkerDescription,
    BodyDescription,
    Description,
    DeviceDescription,
    ForcePlateDescription,
    MarkerDescription,
    MarkerSetDescription,
    Models,
)
from vil_bridge.protocols.natnet.streamed import (
    body_records,
    bone_ids,
    describe_skeleton,
    streamed_vectors,
)

_LABELED_PARAMS: Final = 10
_UNLABELED_PARAMS: Final = 18
_FIRST_UNLABELED_ID: Final = 50_000
_SIZE_M: Final = 0.014
_NONE: Final = Markers((), np.empty((0, 3)), np.empty(0, np.bool_))
_NO_INNER_MARKERS: Final[Records] = np.empty(0, INNER_MARKER)


class SceneMarkers:
    """Markers of a motion, from its first frame; their labels are ``subject/marker``.

    Args:
        opening: markers when the motion begins. ids: of each subject. bodies: rigid bodies, in
            their order.

    Attributes:
        sets: one description for each subject with markers, and one named "all".
    """

    def __init__(
        self,
        opening: Markers | None,
        ids: dict[str, int],
        bodies: tuple[str, ...],
        up_axis: UpAxis,
        units_per_m: float,
    ) -> None:
        self._up_axis: UpAxis = up_axis
        self._units_per_m = units_per_m
        self._bodies = bodies
        labels = (opening or _NONE).labels
        self._rows: dict[str, list[int]] = {}
        for row, label in enumerate(labels):
            if label:
                self._rows.setdefault(label.rpartition("/")[0], []).append(row)
        self._unlabeled = [row for row, label in enumerate(labels) if not label]
        self._names = tuple(label.rpartition("/")[2] for label in labels)
        self._ids = np.zeros(len(labels), np.int32)
        for subject, rows in self._rows.items():
            self._ids[rows] = (ids.get(subject, 0) << 16) + np.arange(1, len(rows) + 1)
        self._ids[self._unlabeled] = _FIRST_UNLABELED_ID + np.arange(len(self._unlabeled))
        sets = []
        for subject, rows in self._rows.items():
            names = tuple(self._names[row] for row in rows)
            sets.append(MarkerSetDescription(subject, names))
        every = tuple(
            f"{described.name}_{name}" for described in sets for name in described.markers
        )
        self.sets = (*sets, MarkerSetDescription("all", every)) if labels else ()

    def of(self, seen: MotionFrame, subject: str) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the positions of a subject's markers in the room, shape (k, 3), and their
        names.
        """
        rows = self._rows.get(subject, [])
        return (seen.markers or _NONE).p_m[rows], tuple(self._names[row] for row in rows)

    def records(self, seen: MotionFrame, subject: str) -> Records:
        """Return a subject's markers, records of type ``MARKER``."""
        return self._labeled_records(seen, self._rows.get(subject, []))

    def labeled(self, seen: MotionFrame, without: tuple[str, ...]) -> Records:
        """Return all markers but those of some subjects, unlabeled ones last."""
        rows = [
            row for subject, rows in self._rows.items() if subject not in without for row in rows
        ]
        return self._labeled_records(seen, rows + self._unlabeled)

    def unlabeled(self, seen: MotionFrame) -> Points:
        """Return the positions of those without a label, shape (k, 3)."""
        return self._streamed(seen)[self._unlabeled] if self._unlabeled else NO_POINTS

    def streamed_sets(self, seen: MotionFrame) -> tuple[MarkerSet, ...]:
        """Return the marker sets as described."""
        if not self.sets:
            return ()
        p = self._streamed(seen)
        every = [row for rows in self._rows.values() for row in rows]
        return (
            *(MarkerSet(subject, p[rows]) for subject, rows in self._rows.items()),
            MarkerSet("all", p[every]),
        )

    def inside_bodies(self, seen: MotionFrame) -> tuple[Records, ...]:
        """Return the markers inside each body, as servers of 2.x send them."""
        if not self._rows:
            return (_NO_INNER_MARKERS,) * len(self._bodies)
        p = self._streamed(seen)
        blocks = []
        for subject in self._bodies:
            rows = self._rows.get(subject, [])
            block: Records = np.zeros(len(rows), INNER_MARKER)
            block["p"] = p[rows]
            block["id"] = np.arange(1, len(rows) + 1)
            block["size"] = _SIZE_M * self._units_per_m
            blocks.append(block)
        return tuple(blocks)

    def _labeled_records(self, seen: MotionFrame, rows: list[int]) -> Records:
        if not rows:
            return NO_MARKERS
        records: Records = np.zeros(len(rows), MARKER)
        records["id"] = self._ids[rows]
        records["p"] = self._streamed(seen)[rows]
        records["size"] = _SIZE_M * self._units_per_m
        kinds = np.where(self._ids[rows] >> 16 == 0, _UNLABELED_PARAMS, _LABELED_PARAMS)
        records["params"] = np.where((seen.markers or _NONE).tracked[rows], kinds, kinds | OCCLUDED)
        return records

    def _streamed(self, seen: MotionFrame) -> Points:
        p_m = (seen.markers or _NONE).p_m
        still = np.tile((0.0, 0.0, 0.0, 1.0), (len(p_m), 1))
        return (zup_to_streamed(p_m, still, self._up_axis)[0] * self._units_per_m).astype(
            np.float32
        )


_MM_PER_M: Final = 1000.0
_MARKER_ERROR_M: Final = 0.0005
_PLATE_CHANNELS: Final = ("Fx", "Fy", "Fz", "Mx", "My", "Mz")
_DEVICE_CHANNELS: Final = ("a0", "a1")
_SAMPLES_PER_FRAME: Final = 4


class FrameGenerator:
    """Generator of the frames of one motion.

    Bodies and skeletons are numbered in the motion's order.

    Args:
        first_id: id of the first body, skeleton and asset; a server that restarts may hand out
            others.

    Attributes:
        models: descriptions, with zero offsets for rigid bodies.
        subjects: names of the streamed rigid bodies, in their order.
        skeletons: names of the streamed skeletons.
    """

    def __init__(
        self, motion: MocapMotion, config: MotiveEmulatorConfig, first_id: int = 1
    ) -> None:
        self._config = config
        self._up_axis: UpAxis = config.up_axis
        self._local = config.skeleton_coordinates == "local"
        self._units_per_m = _MM_PER_M / config.units_to_millimeters
        self._held: dict[str | None, tuple[FloatArray, FloatArray]] = {}
        self._first_id = first_id
        self._rows = [i for i, name in enumerate(motion.subjects) if name not in config.assets]
        self._asset_rows = [i for i, name in enumerate(motion.subjects) if name in config.assets]
        self.subjects = tuple(motion.subjects[i] for i in self._rows)
        self.skeletons = tuple(model.name for model in motion.skeleton_models)
        assets = tuple(motion.subjects[i] for i in self._asset_rows)
        first = motion.at(0)
        self._markers = SceneMarkers(
            first.markers,
            {
                name: first_id + i
                for names in (self.subjects, self.skeletons, assets)
                for i, name in enumerate(names)
            },
            self.subjects,
            self._up_axis,
            self._units_per_m,
        )
        self.models = Models(tuple(self._describe(motion, first, assets)))

    # --- descriptions -----------------------------------------------------------------------------

    def _describe(
        self, motion: MocapMotion, first: MotionFrame, assets: Sequence[str]
    ) -> list[Description]:
        items: list[Description] = [*self._markers.sets]
        for i, name in enumerate(self.subjects):
            items.append(
                BodyDescription(name, self._first_id + i, markers=self._body_markers(first, name))
            )
        items += [
            describe_skeleton(model, self._first_id + i, self._up_axis, self._units_per_m)
            for i, model in enumerate(motion.skeleton_models)
        ]
        for i in range(self._config.force_plates):
            zeros = (0.0,) * 144, (0.0,) * 12
            items.append(
                ForcePlateDescription(
                    i + 1, f"FP{i + 1}", 0.4, 0.6, (0.0, 0.0, 0.0), *zeros, 0, 0, _PLATE_CHANNELS
                )
            )
        items += [
            DeviceDescription(i + 1, f"DAQ{i + 1}", f"S{i + 1}", 2, 0, _DEVICE_CHANNELS)
            for i in range(self._config.devices)
        ]
        for i, name in enumerate(assets):
            markers = self._body_markers(first, name)
            described = tuple(
                AssetMarkerDescription(m.name, n, m.p) for n, m in enumerate(markers, start=1)
            )
            bodies = (BodyDescription(name, 1, 0),)
            items.append(AssetDescription(name, self._first_id + i, bodies, described))
        return items

    def _body_markers(self, first: MotionFrame, name: str) -> tuple[MarkerDescription, ...]:
        """Return the markers of a body at their places on it when the motion begins."""
        row = first.subjects.index(name)
        p_room_m, names = self._markers.of(first, name)
        p_body_m = q_rotate(q_conj(first.q_xyzw[row]), p_room_m - first.p_m[row])
        return tuple(
            MarkerDescription(p, 0, n)
            for p, n in zip(
                streamed_vectors(p_body_m, self._up_axis, self._units_per_m), names, strict=True
            )
        )

    # --- frames -----------------------------------------------------------------------------------

    def frame(self, number: int, seen: MotionFrame) -> NatNetFrame:
        """Return the frame of a server of the newest version.

        An untracked subject has its last tracked pose.
        """
        p_m, q_xyzw = self._hold(None, seen.p_m, seen.q_xyzw, seen.tracked)
        body_ids = self._first_id + np.arange(len(self._rows))
        bodies = self._records(
            body_ids, p_m[self._rows], q_xyzw[self._rows], seen.tracked[self._rows]
        )
        skeletons = []
        for i, skeleton in enumerate(seen.skeletons, start=self._first_id):
            bones_p_m, bones_q = self._hold(
                skeleton.model.name, skeleton.p_m, skeleton.q_xyzw, skeleton.tracked
            )
            if self._local:
                bones_p_m, bones_q = global_to_local(bones_p_m, bones_q, skeleton.model.parents)
            ids = bone_ids(i, len(bones_p_m))
            skeletons.append(
                SkeletonPose(i, self._records(ids, bones_p_m, bones_q, skeleton.tracked))
            )
        assets = []
        for i, row in enumerate(self._asset_rows, start=self._first_id):
            body = self._records(
                np.array([(i << 16) + 1]), p_m[[row]], q_xyzw[[row]], seen.tracked[[row]]
            )
            assets.append(AssetPose(i, body, self._markers.records(seen, seen.subjects[row])))
        return NatNetFrame(
            number,
            bodies,
            tuple(skeletons),
            self._markers.labeled(seen, self._config.assets),
            assets=tuple(assets),
            marker_sets=self._markers.streamed_sets(seen),
            other_markers=self._markers.unlabeled(seen),
            body_markers=self._markers.inside_bodies(seen),
            force_plates=_analog(self._config.force_plates, len(_PLATE_CHANNELS), number),
            devices=_analog(self._config.devices, len(_DEVICE_CHANNELS), number),
        )

    def _hold(
        self, key: str | None, p_m: FloatArray, q_xyzw: FloatArray, tracked: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        if not tracked.all():
            held_p_m, held_q_xyzw = self._held.get(key, (p_m, q_xyzw))
            p_m = np.where(tracked[:, None], p_m, held_p_m)
            q_xyzw = np.where(tracked[:, None], q_xyzw, held_q_xyzw)
        self._held[key] = p_m, q_xyzw
        return p_m, q_xyzw

    def _records(
        self, ids: npt.NDArray[np.int64], p_m: FloatArray, q_xyzw: FloatArray, tracked: BoolArray
    ) -> Records:
        return body_records(
            ids,
            p_m,
            q_xyzw,
            tracked,
            up_axis=self._up_axis,
            units_per_m=self._units_per_m,
            error_m=_MARKER_ERROR_M,
        )


def _analog(count: int, channels: int, number: int) -> tuple[AnalogSamples, ...]:
    """Return a slow ramp on every channel of every device."""
    if not count:
        return ()
    ramp = (np.arange(_SAMPLES_PER_FRAME) + number * _SAMPLES_PER_FRAME).astype(np.float32) % 1000.0
    return tuple(AnalogSamples(i + 1, (ramp,) * channels) for i in range(count))


# --- frames for one client -----------------------------------------------------------------------


def dated(frame: NatNetFrame, version: Version) -> NatNetFrame:
    """Return a frame as a server of a version sends it.

    Before 3.0 unlabeled markers come in their own section only; before 2.6 only a pose of zeros
    marks an untracked body.
    """
    if version < TICKS_SINCE:
        frame = replace(frame, markers=frame.markers[(frame.markers["params"] & UNLABELED) == 0])
    if version < (2, 6):
        skeletons = tuple(
            replace(skeleton, bones=_zeroed(skeleton.bones)) for skeleton in frame.skeletons
        )
        frame = replace(frame, bodies=_zeroed(frame.bodies), skeletons=skeletons)
    return frame


def _zeroed(records: Records) -> Records:
    lost = (records["params"] & TRACKED) == 0
    out = records.copy()
    out["p"][lost] = 0.0
    out["q"][lost] = 0.0
    return out
