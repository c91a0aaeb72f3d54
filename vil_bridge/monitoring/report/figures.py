"""Figures of one camera's frames for a report, as arrays."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.monitoring.frame_records import PARTS, STAGES, CameraLedger, FrameRow, stage_ns

_LATE: Final = 1.5
"""A frame that comes later than this many usual periods after the last one ends a gap."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gap:
    """Frames that were not handed over: between two that were, and how many were due."""

    begin_s: float
    end_s: float
    missing: int


@dataclass(frozen=True, slots=True)
class PredictionErrors:
    """A camera's poses against those measured later for the same instants, shapes (n,).

    Attributes:
        t_s: from the first measured pose. position_mm, angle_deg: of the pose rendered for.
        shown_angle_deg: of the pose that the picture was warped to.
    """

    t_s: Floats
    position_mm: Floats
    angle_deg: Floats
    shown_angle_deg: Floats


@dataclass(frozen=True, slots=True)
class CameraFigures:
    """One camera's frames, oldest first; times count from the first one's request.

    Attributes:
        t_s: shape (n,), of the requests.
        stage_ns: by stage, int64 of the frames that have it, any length.
        total_ms: shape (n,), glass to glass; NaN where the frame was not reported as received.
        parts_ms: by part of the way, shape (m,), of the m frames that have all of them.
        parts_t_s: shape (m,), their requests.
        ahead_ms: shape (n,), from the capture of the newest pose behind a frame to the instant that
            it shows.
        angle_deg, horizon_ms, valid, imu_age_ms: shape (n,), of the warp; NaN where it has none.
        gaps: in the order of time.
        methods: frames by how they were warped and how the pose was found.
        never_sent: frames that no registered reader was sent. unreported: sent, and not reported
            back.
    """

    t_s: Floats
    stage_ns: dict[str, npt.NDArray[np.int64]]
    total_ms: Floats
    parts_ms: dict[str, Floats]
    parts_t_s: Floats
    ahead_ms: Floats
    angle_deg: Floats
    horizon_ms: Floats
    valid: Floats
    imu_age_ms: Floats
    gaps: tuple[Gap, ...]
    methods: Counter[str]
    never_sent: int
    unreported: int


def figures_of(ledger: CameraLedger) -> CameraFigures:
    """Return arrays of a ledger's frames.

    Those without a request stamp, which no bridge makes, are left out.
    """
    rows = [row for row in ledger.rows if row.stamps.request is not None]
    t_ns = np.array([row.stamps.request for row in rows], dtype=np.int64)
    t_s = (t_ns - t_ns[:1]) / NS_PER_S
    durations = {stage: _durations(rows, stage) for stage in STAGES}
    parts = [durations[part] for part in PARTS]
    whole = [i for i, spans in enumerate(zip(*parts, strict=True)) if None not in spans]
    return CameraFigures(
        t_s=t_s,
        stage_ns={stage: _known(found) for stage, found in durations.items()},
        total_ms=_floats(durations["capture_to_received"]) / NS_PER_MS,
        parts_ms={part: _floats(durations[part])[whole] / NS_PER_MS for part in PARTS},
        parts_t_s=t_s[whole],
        ahead_ms=_floats([_ahead_ns(row) for row in rows]) / NS_PER_MS,
        angle_deg=np.degrees(_warp(rows, "angle_rad")),
        horizon_ms=_warp(rows, "horizon_ns") / NS_PER_MS,
        valid=_warp(rows, "valid_fraction"),
        imu_age_ms=_warp(rows, "imu_age_ns") / NS_PER_MS,
        gaps=tuple(_gaps(t_s, ledger.head.rate_hz)),
        methods=Counter(_method(row) for row in rows),
        never_sent=sum(row.stamps.send is None for row in rows),
        unreported=sum(row.stamps.send is not None and row.stamps.received is None for row in rows),
    )


def _durations(rows: list[FrameRow], stage: str) -> list[int | None]:
    return [stage_ns(row, stage) for row in rows]


def _known(values: list[int | None]) -> npt.NDArray[np.int64]:
    return np.array([value for value in values if value is not None], np.int64)


def _floats(values: list[int | float | None] | list[int | None]) -> Floats:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def _ahead_ns(row: FrameRow) -> int | None:
    return None if row.stamps.capture is None else row.t_display_ns - row.stamps.capture


def _warp(rows: list[FrameRow], key: str) -> Floats:
    values = [row.compensation.get(key) for row in rows]
    return _floats([v if isinstance(v, int | float) else None for v in values])


def _method(row: FrameRow) -> str:
    methods = [
        str(row.compensation[key]) for key in ("method", "pose_method") if row.compensation.get(key)
    ]
    return f"{row.variant}: {', '.join(methods)}" if methods else row.variant


def _gaps(t_s: Floats, rate_hz: float) -> list[Gap]:
    """By the usual period, which is longer than the one asked for where a renderer cannot
    follow.
    """
    steps_s = np.diff(t_s)
    if not steps_s.size:
        return []
    periods = steps_s / max(1.0 / rate_hz, float(np.median(steps_s)))
    return [
        Gap(float(t_s[i]), float(t_s[i + 1]), round(periods[i]) - 1)
        for i in np.flatnonzero(periods > _LATE)
    ]
