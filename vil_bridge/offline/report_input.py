"""A recording's part of a report: its ledger, and the errors of the predicted poses."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.assembly.recorded import recorded_config, recording_metadata
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform, q_conj, q_log, q_mul, q_slerp
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.ports import CameraInfo
from vil_bridge.monitoring.frame_records import CameraHead, CameraLedger, FrameRow
from vil_bridge.monitoring.report.figures import PredictionErrors
from vil_bridge.recording.export.measurements import sightings
from vil_bridge.recording.ledger import ledger_values
from vil_bridge.recording.metadata import RecordingFacts
from vil_bridge.recording.reader import Recording

_NEWEST_FRAMES: Final = 200_000
_LONGEST_GAP_NS: Final = 50 * NS_PER_MS
"""Between poses farther apart the body's pose is unknown."""


def is_recording(file: Path) -> bool:
    """Return True for a recording, False for a ledger."""
    with file.open("rb") as opened:
        return opened.read(5) == b"\x89MCAP"


def recorded_report(file: Path) -> tuple[list[CameraLedger], dict[str, PredictionErrors]]:
    """Return the ledgers of the cameras, and the errors of their predicted poses.

    Raises:
        RecordingError: the file cannot be read.
    """
    with Recording(file) as recording:
        facts = recording_metadata(
            recorded_config(recording), recording.utc_offset_ns, recording.version
        )
        return _ledgers(recording), prediction_errors(recording, facts)


def _ledgers(recording: Recording) -> list[CameraLedger]:
    """Return the newest frames of each camera, and the newest word on what it dropped."""
    heads: dict[str, CameraHead] = {}
    rows: dict[str, deque[FrameRow]] = {}
    for camera, value in ledger_values(recording):
        if isinstance(value, CameraHead):
            heads[camera] = value
        else:
            rows.setdefault(camera, deque(maxlen=_NEWEST_FRAMES)).append(value)
    return [CameraLedger(head, list(rows.get(camera, ()))) for camera, head in heads.items()]


class _Track(NamedTuple):
    """Measured poses of a body: shapes (n,), (n, 3), (n, 4); times are bridge time."""

    t_ns: npt.NDArray[np.int64]
    p_m: FloatArray
    q_xyzw: FloatArray

    def at(self, t_ns: int) -> Transform | None:
        """Interpolate between the two poses around an instant; None where the body was not seen."""
        after = int(np.searchsorted(self.t_ns, t_ns))
        if not 0 < after < len(self.t_ns):
            return None
        begin_ns = int(self.t_ns[after - 1])
        end_ns = int(self.t_ns[after])
        if end_ns - begin_ns > _LONGEST_GAP_NS:
            return None
        share = (t_ns - begin_ns) / (end_ns - begin_ns)
        p_m = (1.0 - share) * self.p_m[after - 1] + share * self.p_m[after]
        return Transform(p_m, q_slerp(self.q_xyzw[after - 1], self.q_xyzw[after], share))


def prediction_errors(recording: Recording, facts: RecordingFacts) -> dict[str, PredictionErrors]:
    """Compare the poses that pictures were rendered and shown for with the measured ones.

    By camera.

    A picture's instant lies in the future when its pose is predicted; later measurements show how
    far off that was.
    """
    tracks = _tracks(recording, facts)
    found: dict[str, list[tuple[float, float, float, float]]] = {}
    cameras = {camera.model.name: camera for camera in facts.cameras if camera.actor in tracks}
    for header in recording.headers():
        camera = cameras.get(header["camera"])
        if camera is not None and "pose_rendered" in header:
            error = _error(header, camera, tracks[camera.actor])
            if error is not None:
                found.setdefault(camera.model.name, []).append(error)
    return {name: PredictionErrors(*np.array(rows).T) for name, rows in found.items()}


def _tracks(recording: Recording, facts: RecordingFacts) -> dict[str, _Track]:
    poses: dict[str, list[tuple[int, FloatArray, FloatArray]]] = {}
    for seen in sightings(recording, facts):
        pose = seen.placed.T_world_body
        row = seen.t_utc_ns - recording.utc_offset_ns, pose.p_m, pose.q_xyzw
        poses.setdefault(seen.placed.actor, []).append(row)
    return {actor: _Track(*map(np.array, zip(*rows, strict=True))) for actor, rows in poses.items()}


def _error(
    header: dict[str, Any], camera: CameraInfo, track: _Track
) -> tuple[float, float, float, float] | None:
    """Return the seconds from the start, position (mm) and angle (degrees) as rendered, angle as
    shown.
    """
    drawn = track.at(header["t_render_ns"])
    shown = track.at(header["t_display_ns"])
    if drawn is None or shown is None:
        return None
    rendered = _pose(header["pose_rendered"])
    displayed = _pose(header["pose_display"])
    drawn = drawn @ camera.T_body_optical
    shown = shown @ camera.T_body_optical
    begin_ns = int(track.t_ns[0])
    return (
        (header["t_render_ns"] - begin_ns) / NS_PER_S,
        1e3 * float(np.linalg.norm(rendered.p_m - drawn.p_m)),
        _angle_deg(rendered, drawn),
        _angle_deg(displayed, shown),
    )


def _pose(pose: dict[str, list[float]]) -> Transform:
    return Transform.of(pose["p_m"], pose["q_xyzw"])


def _angle_deg(a: Transform, b: Transform) -> float:
    return float(np.degrees(np.linalg.norm(q_log(q_mul(q_conj(a.q_xyzw), b.q_xyzw)))))
