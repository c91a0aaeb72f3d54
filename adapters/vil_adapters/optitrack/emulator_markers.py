"""Markers of the emulated room, in the sections of NatNet."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_adapters.optitrack.convert import UpAxis, zup_to_streamed
from vil_adapters.optitrack.frame import INNER_MARKER, MARKER, OCCLUDED, MarkerSet, Points, Records
from vil_adapters.optitrack.model import MarkerSetDescription
from vil_bridge.core.types import FloatArray, Markers, MotionFrame

__all__ = ["SceneMarkers"]

_LABELED_PARAMS: Final = 10
_UNLABELED_PARAMS: Final = 18
_FIRST_UNLABELED_ID: Final = 50_000
_SIZE_M: Final = 0.014
_NONE: Final = Markers((), np.empty((0, 3)), np.empty(0, np.bool_))


class SceneMarkers:
    """Markers of a motion, from its first frame; their labels are ``subject/marker``.

    Args:
        opening: markers when the motion begins. ids: of each subject. bodies: rigid bodies, in their order.

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
        sets = [MarkerSetDescription(s, tuple(self._names[row] for row in rows)) for s, rows in self._rows.items()]
        every = tuple(f"{described.name}_{name}" for described in sets for name in described.markers)
        self.sets = (*sets, MarkerSetDescription("all", every)) if labels else ()

    def of(self, seen: MotionFrame, subject: str) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the positions of a subject's markers in the room, shape (k, 3), and their names."""
        rows = self._rows.get(subject, [])
        return (seen.markers or _NONE).p_m[rows], tuple(self._names[row] for row in rows)

    def records(self, seen: MotionFrame, subject: str) -> Records:
        """Return a subject's markers, records of type ``MARKER``."""
        return self._labeled_records(seen, self._rows.get(subject, []))

    def labeled(self, seen: MotionFrame, without: tuple[str, ...]) -> Records:
        """Return all markers but those of some subjects, unlabeled ones last."""
        rows = [row for subject, rows in self._rows.items() if subject not in without for row in rows]
        return self._labeled_records(seen, rows + self._unlabeled)

    def unlabeled(self, seen: MotionFrame) -> Points:
        """Return the positions of those without a label, shape (k, 3)."""
        return self._streamed(seen)[self._unlabeled]

    def streamed_sets(self, seen: MotionFrame) -> tuple[MarkerSet, ...]:
        """Return the marker sets as described."""
        if not self.sets:
            return ()
        p = self._streamed(seen)
        every = [row for rows in self._rows.values() for row in rows]
        return (*(MarkerSet(subject, p[rows]) for subject, rows in self._rows.items()), MarkerSet("all", p[every]))

    def inside_bodies(self, seen: MotionFrame) -> tuple[Records, ...]:
        """Return the markers inside each body, as servers of 2.x send them."""
        p = self._streamed(seen)
        blocks = []
        for subject in self._bodies:
            rows = self._rows.get(subject, [])
            block: Records = np.zeros(len(rows), INNER_MARKER)
            block["p"], block["id"] = p[rows], np.arange(1, len(rows) + 1)
            block["size"] = _SIZE_M * self._units_per_m
            blocks.append(block)
        return tuple(blocks)

    def _labeled_records(self, seen: MotionFrame, rows: list[int]) -> Records:
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
        return (zup_to_streamed(p_m, still, self._up_axis)[0] * self._units_per_m).astype(np.float32)
