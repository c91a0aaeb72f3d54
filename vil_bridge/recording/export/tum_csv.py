"""Text that everything reads: TUM trajectories and CSV."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.text import csv_line
from vil_bridge.monitoring.frame_records import FrameRow
from vil_bridge.recording.export.measurements import readings, samples, sightings
from vil_bridge.recording.export.sensor_tables import sensor_head, sensor_rows
from vil_bridge.recording.ledger import ledger_values
from vil_bridge.recording.metadata import RecordingFacts
from vil_bridge.recording.reader import Recording

_POSE: Final = "x_m,y_m,z_m,qx,qy,qz,qw"
_STAMPS: Final = ("capture", "arrival", "request", "image", "warp", "encode", "send", "received")


class _Tables:
    """Text files that are made when their first row comes."""

    def __init__(self, out: Path, head: str = "") -> None:
        self.rows: Counter[str] = Counter()
        self._out = out
        self._head = head
        self._files: dict[str, IO[str]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> _Tables:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def add(self, name: str, row: str, *, head: str = "") -> None:
        """Write a row, which ends with a newline; ``head`` is the first line of a new file."""
        file = self._files.get(name)
        if file is None:
            path = self._out / name
            file = self._files[name] = self._stack.enter_context(
                path.open("x", encoding="utf-8", newline="\n")
            )
            file.write(head + "\n")
        file.write(row)
        self.rows[name] += 1


def to_tum(recording: Recording, facts: RecordingFacts, out: Path) -> Counter[str]:
    """``ACTOR.txt`` of every actor, Unix seconds; of humans the root bone."""
    with _Tables(out) as tables:
        for seen in sightings(recording, facts):
            pose = seen.placed.T_world_body
            values = [
                _seconds(seen.t_utc_ns),
                *map(repr, [*pose.p_m.tolist(), *pose.q_xyzw.tolist()]),
            ]
            tables.add(
                f"{seen.placed.actor}.txt", " ".join(values) + "\n", head="# t_s x y z qx qy qz qw"
            )
    return tables.rows


def to_csv(recording: Recording, facts: RecordingFacts, out: Path) -> Counter[str]:
    """Poses, skeletons, inertial samples, readings of sensors and the frames' stamps.

    Times are Unix nanoseconds.
    """
    with _Tables(out) as tables:
        for seen in sightings(recording, facts):
            actor, pose, skeleton = seen.placed
            row = [seen.t_utc_ns, *map(repr, [*pose.p_m.tolist(), *pose.q_xyzw.tolist()])]
            tables.add(f"{actor}.csv", csv_line(row), head=f"t_utc_ns,{_POSE}")
            if skeleton is not None:
                bones = zip(
                    skeleton.model.bones,
                    skeleton.p_m.tolist(),
                    skeleton.q_xyzw.tolist(),
                    strict=True,
                )
                for bone, p_m, q_xyzw in bones:
                    row = [seen.t_utc_ns, bone, *map(repr, [*p_m, *q_xyzw])]
                    tables.add(f"{actor}-bones.csv", csv_line(row), head=f"t_utc_ns,bone,{_POSE}")
        for source, felt in samples(recording):
            row = [felt.t_utc_ns, *map(repr, [*felt.w_radps.tolist(), *felt.f_mps2.tolist()])]
            head = "t_utc_ns,wx_radps,wy_radps,wz_radps,fx_mps2,fy_mps2,fz_mps2"
            tables.add(f"{source.replace('/', '-')}.imu.csv", csv_line(row), head=head)
        for one in readings(recording, facts):
            head = f"t_utc_ns,{sensor_head(one.reading)}"
            for values in sensor_rows(one.reading):
                tables.add(
                    f"{one.actor.name}.{one.sensor}.csv",
                    csv_line([one.t_utc_ns, *values]),
                    head=head,
                )
        _frames(recording, tables)
    return tables.rows


def _frames(recording: Recording, tables: _Tables) -> None:
    head = ",".join(
        ["frame_id", "variant", "t_shown_utc_ns", "tracking", *(f"{s}_utc_ns" for s in _STAMPS)]
    )
    for camera, row in ledger_values(recording):
        if isinstance(row, FrameRow):
            stamps = (getattr(row.stamps, name) for name in _STAMPS)
            times = ["" if t is None else t + recording.utc_offset_ns for t in stamps]
            shown_ns = row.t_display_ns + recording.utc_offset_ns
            values = [row.frame_id, row.variant, shown_ns, row.tracking, *times]
            tables.add(f"{camera}.frames.csv", csv_line(values), head=head)


def _seconds(t_ns: int) -> str:
    seconds, nanos = divmod(t_ns, NS_PER_S)
    return f"{seconds}.{nanos:09d}"
