"""From QTM's values to the bridge's: names, metres, z up, quaternions, nanoseconds.

And back for the emulator.

The only place where millimetres, column-major rotations, the order of bodies, axes and stamps are
interpreted.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from vil_adapters.qualisys.codec import DataFrame, Records, body_records, segment_records
from vil_adapters.qualisys.parameters import BodyInfo, Parameters, QualisysSegment, SkeletonInfo
from vil_adapters.sessions.plausible_range import within_reach
from vil_bridge.bodies.skeleton import global_to_local, parents_first
from vil_bridge.core.geometry import q_from_matrix, q_normalize, q_to_matrix, yup_to_zup, zup_to_yup
from vil_bridge.core.types import (
    BoolArray,
    FloatArray,
    MotionFrame,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
)

UpAxis = Literal["y", "z"]

_MM_PER_M: Final = 1e3
_NS_PER_US: Final = 1_000
_IDENTITY: Final[FloatArray] = np.array([0.0, 0.0, 0.0, 1.0])
_ORTHOGONAL_TOLERANCE: Final = 1e-3


def stamp_ns(t_us: int) -> int:
    """Return the server's stamp in nanoseconds."""
    return t_us * _NS_PER_US


def stamp_us(t_ns: int) -> int:
    """Invert :func:`stamp_ns`, rounded down."""
    return t_ns // _NS_PER_US


def up_axis(parameters: Parameters, configured: str) -> UpAxis:
    """Return the configured up axis or, with ``auto``, the announced one.

    Z where that is neither y nor z.
    """
    if configured == "auto":
        return "y" if parameters.up_axis == "+Y" else "z"
    return "y" if configured == "y" else "z"


def _to_room(p: FloatArray, q_xyzw: FloatArray, up: UpAxis) -> tuple[FloatArray, FloatArray]:
    return yup_to_zup(p, q_xyzw) if up == "y" else (p, q_xyzw)


def _from_room(p: FloatArray, q_xyzw: FloatArray, up: UpAxis) -> tuple[FloatArray, FloatArray]:
    return zup_to_yup(p, q_xyzw) if up == "y" else (p, q_xyzw)


# --- from the wire -------------------------------------------------------------------------------


class _Skeleton:
    """One described skeleton: its model, and where each streamed segment stands in it."""

    def __init__(self, info: SkeletonInfo, up: UpAxis) -> None:
        order = parents_first(
            [(s.id, -1 if s.parent is None else s.parent, s) for s in info.segments]
        )
        offsets = np.array([s.p_mm for s, _ in order], dtype=np.float64).reshape(-1, 3) / _MM_PER_M
        self.model = SkeletonModel(
            name=info.name,
            bones=tuple(s.name for s, _ in order),
            parents=tuple(parent for _, parent in order),
            offsets_m=_to_room(offsets, np.tile(_IDENTITY, (len(order), 1)), up)[0],
            scale=info.scale,
        )
        self._slot = {s.id: i for i, (s, _) in enumerate(order)}
        self._up: UpAxis = up

    def frame(self, records: Records) -> SkeletonFrame | None:
        """Return global poses of all segments, untracked where not streamed.

        None with a segment not described.
        """
        slots = [self._slot.get(identity, -1) for identity in records["id"].tolist()]
        if -1 in slots:
            return None
        count = len(self.model.bones)
        p_m = np.zeros((count, 3))
        q_xyzw = np.tile(_IDENTITY, (count, 1))
        tracked = np.zeros(count, dtype=np.bool_)
        p = records["p_mm"].astype(np.float64) / _MM_PER_M
        q = records["q_xyzw"].astype(np.float64)
        norm2 = np.einsum("ij,ij->i", q, q)
        good = within_reach(p) & (norm2 > 0.0) & (norm2 < np.inf)
        valid_rows = np.array(slots, dtype=np.intp)[good]
        p_m[valid_rows], q_xyzw[valid_rows] = _to_room(p[good], q_normalize(q[good]), self._up)
        tracked[valid_rows] = True
        return SkeletonFrame(self.model, p_m, q_xyzw, tracked)


class QualisysConverter:
    """Conversion of frames to :class:`SourceFrame`, by the parameters of one server.

    Attributes:
        subjects: enabled bodies, in the order of the data. skeletons: names, likewise.
    """

    def __init__(self, source: str, parameters: Parameters, up: UpAxis) -> None:
        self.subjects = tuple(body.name for body in parameters.bodies if body.enabled)
        self.skeletons = tuple(skeleton.name for skeleton in parameters.skeletons)
        self._source = source
        self._up: UpAxis = up
        self._skeletons = [_Skeleton(info, up) for info in parameters.skeletons]

    # Any bits may arrive; invalid poses are marked below.
    @np.errstate(invalid="ignore", over="ignore")
    def frame(self, data: DataFrame, t_arrival_ns: int) -> SourceFrame | None:
        """Return the frame's subjects in the room frame.

        None when it does not fit what was described.
        """
        bodies = body_records(0) if data.bodies is None else data.bodies
        streamed = () if data.skeletons is None else data.skeletons
        if len(bodies) != len(self.subjects) or len(streamed) != len(self._skeletons):
            return None
        skeletons = [
            known.frame(records) for known, records in zip(self._skeletons, streamed, strict=True)
        ]
        if None in skeletons:
            return None
        p_m, q_xyzw, tracked = self._poses(bodies)
        return SourceFrame(
            source=self._source,
            frame_number=data.number,
            t_foreign_ns=stamp_ns(data.t_us),
            t_arrival_ns=t_arrival_ns,
            subjects=self.subjects,
            p_m=p_m,
            q_xyzw=q_xyzw,
            tracked=tracked,
            skeletons=tuple(filter(None, skeletons)),
        )

    def _poses(self, bodies: Records) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return positions (n, 3), attitudes (n, 4) and whether they are tracked (n,).

        Always finite.
        """
        p = bodies["p_mm"].astype(np.float64) / _MM_PER_M
        R = bodies["R_columns"].astype(np.float64).reshape(-1, 3, 3).transpose(0, 2, 1)
        error = np.abs(R @ R.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2), initial=0.0)
        tracked: BoolArray = within_reach(p) & (error < _ORTHOGONAL_TOLERANCE)
        p[~tracked] = 0.0
        R[~tracked] = np.eye(3)
        p_m, q_xyzw = _to_room(p, q_from_matrix(R), self._up)
        return p_m, q_xyzw, tracked


# --- to the wire ---------------------------------------------------------------------------------


def describe(
    subjects: tuple[str, ...],
    models: tuple[SkeletonModel, ...],
    up: UpAxis,
    disabled: tuple[str, ...] = (),
) -> Parameters:
    """Return the parameters of a server that streams these subjects; segment ids count from 1."""
    skeletons = []
    for model in models:
        offsets_mm = (
            _from_room(model.offsets_m, np.tile(_IDENTITY, (len(model.bones), 1)), up)[0]
            * _MM_PER_M
        )
        segments = tuple(
            QualisysSegment(
                i + 1, bone, parent + 1 if parent >= 0 else None, (float(x), float(y), float(z))
            )
            for i, (bone, parent, (x, y, z)) in enumerate(
                zip(model.bones, model.parents, offsets_mm, strict=True)
            )
        )
        skeletons.append(SkeletonInfo(model.name, segments, model.scale))
    bodies = tuple(BodyInfo(name, name not in disabled) for name in subjects)
    return Parameters(bodies, tuple(skeletons), f"+{up.upper()}")


def generate(
    seen: MotionFrame,
    number: int,
    t_ns: int,
    up: UpAxis,
    disabled: tuple[str, ...],
    *,
    local: bool = False,
) -> DataFrame:
    """Return the frame that a server streams of a motion: its enabled bodies and its skeletons.

    ``t_ns`` counts from the begin of the measurement in the server's clock; ``local`` segments are
    relative to their parents, as with ``skeleton`` instead of ``skeleton:global``.
    """
    rows = [i for i, name in enumerate(seen.subjects) if name not in disabled]
    p_m, q_xyzw = _from_room(seen.p_m[rows], seen.q_xyzw[rows], up)
    tracked = seen.tracked[rows]
    bodies = body_records(len(rows))
    bodies["p_mm"][tracked] = p_m[tracked] * _MM_PER_M
    bodies["R_columns"][tracked] = q_to_matrix(q_xyzw[tracked]).transpose(0, 2, 1).reshape(-1, 9)
    skeletons = tuple(_generate_skeleton(skeleton, up, local=local) for skeleton in seen.skeletons)
    return DataFrame(stamp_us(t_ns), number, bodies, skeletons)


def _generate_skeleton(skeleton: SkeletonFrame, up: UpAxis, *, local: bool) -> Records:
    if not skeleton.tracked.any():
        return segment_records(0)
    p_m, q_xyzw = _from_room(skeleton.p_m, skeleton.q_xyzw, up)
    if local:
        p_m, q_xyzw = global_to_local(p_m, q_xyzw, skeleton.model.parents)
    segments = segment_records(len(p_m))
    segments["id"] = np.arange(1, len(p_m) + 1)
    segments["p_mm"] = p_m * _MM_PER_M
    segments["q_xyzw"] = q_xyzw
    segments["p_mm"][~skeleton.tracked] = np.nan
    return segments
