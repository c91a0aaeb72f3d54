"""Humans and bodies from labelled markers alone: rigid segments that carry them, joined to a tree.

A template is fitted once, from frames in which all its markers are seen: where each marker sits on
its segment, and how far skin and clothes let it move there. Then every frame gives each segment the
pose that fits its visible markers best (weighted least squares, Horn 1987). Segments that show too
few of them follow their parents; markers that are hidden are expected where their segment carries
them, and markers without labels are taken for hidden ones that are expected nearby.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.bodies.skeleton import parents_first
from vil_bridge.core.geometry import q_conj, q_mul, q_rotate, q_to_matrix
from vil_bridge.core.types import BoolArray, FloatArray, Markers, SkeletonFrame, SkeletonModel

_IntArray = npt.NDArray[np.intp]

_FEWEST: Final = 3
_LEAST_SPREAD_M: Final = 0.005
"""Markers nearer to one line than this (root mean square) fix no rotation about it."""

_NOISE_M: Final = 0.001
_FIT_ROWS: Final = 200
_FIT_ROUNDS: Final = 4
_GATE_M: Final = 0.03

_IDENTITY: Final[FloatArray] = np.array([0.0, 0.0, 0.0, 1.0])

# A rotation matrix is a quadratic form of its quaternion. Row r c of the table is the symmetric 4x4
# matrix of entry (r, c), so that the sum of (seen . R rest) over markers is q^T N q, with N =
# covariance @ table: the best q is the eigenvector of N's largest eigenvalue.
_A = np.eye(4)[:, None]
_B = np.eye(4)[None]
_HORN: Final[FloatArray] = (0.25 * (q_to_matrix(_A + _B) - q_to_matrix(_A - _B))).reshape(16, 9).T


@dataclass(frozen=True, slots=True)
class Segment:
    """A rigid part of a subject.

    Attributes:
        markers: labels of those that it carries, at least three.
        parent: name of the segment that it hangs on; None = it is a root.
        origin: labels whose middle is its joint to the parent, on whichever segments; empty = its
            own markers.
    """

    name: str
    markers: tuple[str, ...]
    parent: str | None = None
    origin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Poses:
    """Poses of all segments: ``p_m`` (..., s, 3), ``q_xyzw`` (..., s, 4), ``known`` (..., s)."""

    p_m: FloatArray
    q_xyzw: FloatArray
    known: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class MarkerTemplate:
    """A subject as rigid segments with markers.

    At rest, which is how the subject stood in the first fitted frame, the axes of all segments are
    the room's.

    Attributes:
        model: the segments as bones.
        labels: of the markers, length k.
        segments: shape (k,), index of the segment that carries each marker.
        rest_m: shape (k, 3), where it sits in its segment's axes.
        wobble_m: shape (k,), how far it moved there while fitted (root mean square).
    """

    model: SkeletonModel
    labels: tuple[str, ...]
    segments: _IntArray
    rest_m: FloatArray
    wobble_m: FloatArray

    @classmethod
    def fit(
        cls,
        name: str,
        segments: Sequence[Segment],
        labels: Sequence[str],
        p_m: FloatArray,
        tracked: BoolArray,
    ) -> MarkerTemplate:
        """Fit from recorded markers.

        Args:
            name: of the subject.
            segments: its parts, in any order.
            labels: of the recorded markers, which may be more than those of the subject.
            p_m: shape (n, len(labels), 3), room frame.
            tracked: shape (n, len(labels)).

        Raises:
            ValueError: a label or parent is unknown, a label is used twice, or no frame shows all
                markers.
        """
        order = _ordered(segments)
        column = _columns(name, [segment for segment, _ in order], labels)
        needed = sorted({column[label] for s, _ in order for label in (*s.markers, *s.origin)})
        full = np.flatnonzero(tracked[:, needed].all(axis=1))
        if not len(full):
            raise ValueError(
                f"{name}: no frame shows all {len(needed)} markers: leave out those that are hidden"
            )
        first_m = p_m[full[0]]
        origins = []
        for segment, _ in order:
            own = [column[label] for label in segment.origin or segment.markers]
            origins.append(first_m[own].mean(axis=0))
        origins_m = np.array(origins)
        parents = tuple(parent for _, parent in order)
        above_m = np.zeros((len(parents), 3))
        for row, parent in enumerate(parents):
            if parent >= 0:
                above_m[row] = origins_m[parent]
        model = SkeletonModel(name, tuple(s.name for s, _ in order), parents, origins_m - above_m)
        carried = tuple(label for segment, _ in order for label in segment.markers)
        carriers = np.repeat(np.arange(len(order)), [len(s.markers) for s, _ in order])
        columns = np.array([column[label] for label in carried], dtype=np.intp)
        start = cls(
            model, carried, carriers, first_m[columns] - origins_m[carriers], np.zeros(len(carried))
        )
        rows = full[np.linspace(0, len(full) - 1, min(len(full), _FIT_ROWS)).astype(np.intp)]
        return start.refined(p_m[rows][:, columns])

    def refined(self, p_m: FloatArray) -> MarkerTemplate:
        """Return the same model with its markers where they sit on average over frames (n, k, 3)
        that show them all.

        Raises:
            ValueError: the markers of a segment lie on one line.
        """
        template = self
        everything = np.ones(p_m.shape[:2], dtype=np.bool_)
        for _ in range(_FIT_ROUNDS):
            poses = template.solve(p_m, everything)
            lame = [self.model.bones[i] for i in np.flatnonzero(~poses.known.all(axis=0))]
            if lame:
                raise ValueError(f"{self.model.name}: markers lie on one line: {', '.join(lame)}")
            back = q_conj(poses.q_xyzw)[:, self.segments]
            local_m = q_rotate(back, p_m - poses.p_m[:, self.segments])
            rest_m = local_m.mean(axis=0)
            wobble_m = np.sqrt(np.square(local_m - rest_m).sum(axis=2).mean(axis=0))
            template = MarkerTemplate(self.model, self.labels, self.segments, rest_m, wobble_m)
        return template

    def solve(self, p_m: FloatArray, visible: BoolArray) -> _Poses:
        """Return the pose of every segment from its visible markers, (..., k, 3) and (..., k)."""
        count = len(self.model.bones)
        weight = visible / (_NOISE_M**2 + np.square(self.wobble_m))
        W = (self.segments == np.arange(count)[:, None]) * weight[..., None, :]
        total = W.sum(axis=-1)
        share = W / np.where(total > 0.0, total, 1.0)[..., None]
        shown = visible[..., None]
        rest_mean = share @ self.rest_m
        seen_mean = share @ np.where(shown, p_m, 0.0)
        rest = (self.rest_m - rest_mean[..., self.segments, :]) * shown
        seen = np.where(shown, p_m - seen_mean[..., self.segments, :], 0.0)
        weighted = share[..., None] * rest[..., None, :, :]
        covariance = np.swapaxes(seen, -1, -2)[..., None, :, :] @ weighted
        _, vectors = np.linalg.eigh(
            (covariance.reshape(*total.shape, 9) @ _HORN).reshape(*total.shape, 4, 4)
        )
        q_xyzw = vectors[..., 3]
        spread = np.linalg.eigvalsh(np.swapaxes(rest, -1, -2)[..., None, :, :] @ weighted)[..., 1]
        known = (np.count_nonzero(W, axis=-1) >= _FEWEST) & (spread > _LEAST_SPREAD_M**2)
        return _Poses(seen_mean - q_rotate(q_xyzw, rest_mean), q_xyzw, known)


def check_segments(name: str, segments: Sequence[Segment]) -> None:
    """Check what can be known of a template before any marker came.

    Raises:
        ValueError: as :meth:`MarkerTemplate.fit`, but for labels that the markers have not.
    """
    _ordered(segments)
    _columns(name, segments, [label for s in segments for label in (*s.markers, *s.origin)])


def _columns(name: str, segments: Sequence[Segment], labels: Sequence[str]) -> dict[str, int]:
    """Return the index of each label among the recorded ones.

    Raises:
        ValueError: a label that is not recorded, or that stands on two segments.
    """
    column = {label: i for i, label in enumerate(labels) if label}
    absent = sorted({label for s in segments for label in (*s.markers, *s.origin)} - column.keys())
    if absent:
        raise ValueError(
            f"{name}: no markers {', '.join(absent)}; there are {', '.join(sorted(column))}"
        )
    uses = Counter(label for segment in segments for label in segment.markers)
    twice = [label for label, count in uses.items() if count > 1]
    if twice:
        raise ValueError(f"{name}: on two segments: {', '.join(twice)}")
    return column


def _ordered(segments: Sequence[Segment]) -> list[tuple[Segment, int]]:
    """Return segments with the index of their parents, parents first.

    Raises:
        ValueError: a name twice, a parent that is unknown or a descendant, too few markers.
    """
    index = {segment.name: i for i, segment in enumerate(segments)}
    if len(index) != len(segments) or not segments:
        raise ValueError("segments need names of their own")
    for segment in segments:
        if segment.parent is not None and segment.parent not in index:
            raise ValueError(f"segment {segment.name}: no segment is named {segment.parent!r}")
        if len(segment.markers) < _FEWEST:
            raise ValueError(
                f"segment {segment.name}: {len(segment.markers)} markers, {_FEWEST} fix a pose"
            )
    order = parents_first(
        [(i, -1 if s.parent is None else index[s.parent], s) for i, s in enumerate(segments)]
    )
    lost = [s.name for s, parent in order if parent < 0 and s.parent is not None]
    if lost:
        raise ValueError(f"segment {lost[0]}: hangs on itself")
    return order


class MarkerTracker:
    """Tracker of a subject from frame to frame.

    Attributes:
        p_m: shape (k, 3), the template's markers in the newest frame, measured or expected.
        seen: shape (k,), which of them were measured.
        matched: unlabeled markers that were taken for hidden ones so far.
    """

    def __init__(self, template: MarkerTemplate, *, gate_m: float = _GATE_M) -> None:
        model = template.model
        self.template = template
        self.matched = 0
        self._gate_m = gate_m
        self._above = np.array(model.parents)
        # Poses in the parent's axes; a root's in the room, where it was last.
        self._p_rel = model.offsets_m.copy()
        self._q_rel = np.tile(_IDENTITY, (len(model.bones), 1))
        self._local_m = template.rest_m.copy()
        self.seen = np.zeros(len(template.labels), dtype=np.bool_)
        unseen = _Poses(self._p_rel, self._q_rel, np.zeros(len(model.bones), dtype=np.bool_))
        self.p_m = self._expected(self._placed(unseen))
        self._labels: tuple[str, ...] = ()
        self._present = self._columns = self._loose = np.empty(0, np.intp)

    def follow(self, markers: Markers) -> SkeletonFrame:
        """Return the segments as bones.

        ``tracked`` where enough markers of a segment are seen, else expected.
        """
        self._bind(markers.labels)
        template = self.template
        visible = np.zeros_like(self.seen)
        p_m = np.zeros_like(self.p_m)
        visible[self._present] = markers.tracked[self._columns]
        p_m[self._present] = markers.p_m[self._columns]
        poses = self._placed(template.solve(p_m, visible))
        expected_m = self._expected(poses)
        loose_m = markers.p_m[self._loose][markers.tracked[self._loose]]
        if len(loose_m) and not visible.all():
            found = self._match(expected_m, visible, loose_m)
            if found:
                slots, points = map(list, zip(*found, strict=True))
                p_m[slots] = loose_m[points]
                visible[slots] = True
                self.matched += len(found)
                poses = self._placed(template.solve(p_m, visible))
                expected_m = self._expected(poses)
        self.p_m = np.where(visible[:, None], p_m, expected_m)
        self.seen = visible
        self._update(poses, visible)
        return SkeletonFrame(template.model, poses.p_m, poses.q_xyzw, poses.known)

    def _bind(self, labels: tuple[str, ...]) -> None:
        if labels is self._labels or labels == self._labels:
            return
        column = {label: i for i, label in enumerate(labels)}
        self._labels = labels
        found = [
            (i, column[label]) for i, label in enumerate(self.template.labels) if label in column
        ]
        self._present, self._columns = np.array(found, dtype=np.intp).reshape(-1, 2).T
        self._loose = np.array([i for i, label in enumerate(labels) if not label], dtype=np.intp)

    def _placed(self, poses: _Poses) -> _Poses:
        """Place the segments that show too little relative to their parents as they last were.

        Parents come first.
        """
        p_m = poses.p_m.copy()
        q_xyzw = poses.q_xyzw.copy()
        for i in np.flatnonzero(~poses.known):
            parent = self._above[i]
            if parent < 0:
                p_m[i], q_xyzw[i] = self._p_rel[i], self._q_rel[i]
            else:
                p_m[i] = p_m[parent] + q_rotate(q_xyzw[parent], self._p_rel[i])
                q_xyzw[i] = q_mul(q_xyzw[parent], self._q_rel[i])
        return _Poses(p_m, q_xyzw, poses.known)

    def _expected(self, poses: _Poses) -> FloatArray:
        """Return the markers' positions on their segments, as these last carried them."""
        R = q_to_matrix(poses.q_xyzw)[self.template.segments]
        carried: FloatArray = poses.p_m[self.template.segments] + np.einsum(
            "kij,kj->ki", R, self._local_m
        )
        return carried

    def _match(
        self, expected_m: FloatArray, visible: BoolArray, loose_m: FloatArray
    ) -> list[tuple[int, int]]:
        """Return pairs of a hidden marker and an unlabeled one, the nearest first, each used
        once.
        """
        hidden = np.flatnonzero(~visible)
        distance = np.linalg.norm(expected_m[hidden, None] - loose_m[None], axis=2)
        pairs: list[tuple[int, int]] = []
        while distance.size and distance.min() < self._gate_m:
            row, point = np.unravel_index(int(distance.argmin()), distance.shape)
            pairs.append((int(hidden[row]), int(point)))
            distance[row] = np.inf
            distance[:, point] = np.inf
        return pairs

    def _update(self, poses: _Poses, visible: BoolArray) -> None:
        segments = self.template.segments
        above = self._above
        root = above < 0
        fresh = poses.known & (root | poses.known[above])
        up_p = np.where(root[:, None], 0.0, poses.p_m[above])
        up_q = np.where(root[:, None], _IDENTITY, poses.q_xyzw[above])
        back = q_conj(up_q[fresh])
        self._p_rel[fresh] = q_rotate(back, poses.p_m[fresh] - up_p[fresh])
        self._q_rel[fresh] = q_mul(back, poses.q_xyzw[fresh])
        seen = visible & poses.known[segments]
        self._local_m[seen] = q_rotate(
            q_conj(poses.q_xyzw)[segments[seen]], self.p_m[seen] - poses.p_m[segments[seen]]
        )
