"""A recorded flight as an EuRoC folder, for visual-inertial programs and for evo."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import RecordingError
from vil_bridge.core.geometry import Transform, cross
from vil_bridge.interfaces.ports import CameraInfo
from vil_bridge.protocols import opencv as cv2
from vil_bridge.protocols.euroc import EurocCamera, EurocImu, EurocWriter, camera_folder
from vil_bridge.recording.export.images import decoded, shown
from vil_bridge.recording.export.measurements import motions, samples
from vil_bridge.recording.metadata import RecordedActor, RecordingFacts
from vil_bridge.recording.reader import Recording

_TOGETHER: Final = 100
"""Actors of one pass through the file: each keeps some tables open."""
_INTERVALS: Final = 10_000
"""Of an IMU, from which its rate is computed."""


def to_euroc(recording: Recording, facts: RecordingFacts, out: Path) -> Counter[str]:
    """Folder ``ACTOR`` of every rigid actor that was seen.

    Ground truth of its IMU (or body), samples, its cameras.

    Of a camera with both kinds of pictures those as rendered are taken, stamped with the instant
    that they show.

    Raises:
        RecordingError: the format cannot describe a lens.
    """
    rates_hz = _rates_hz(recording)
    rigid = [actor for actor in facts.actors if not actor.human]
    written: Counter[str] = Counter()
    for first in range(0, len(rigid), _TOGETHER):
        with contextlib.ExitStack() as stack:
            sessions = _Sessions(recording, facts, out, rates_hz, stack)
            sessions.write(rigid[first : first + _TOGETHER])
        written.update(sessions.written())
    return written


class _Sessions:
    """Folders of some actors, each made when its first row comes."""

    def __init__(
        self,
        recording: Recording,
        facts: RecordingFacts,
        out: Path,
        rates_hz: dict[str, float],
        stack: contextlib.ExitStack,
    ) -> None:
        self._recording = recording
        self._facts = facts
        self._out = out
        self._rates_hz = rates_hz
        self._stack = stack
        self._variants = recording.cameras()
        self._writers: dict[str, EurocWriter] = {}

    def write(self, actors: Sequence[RecordedActor]) -> None:
        """All that was recorded of them."""
        self._add_truth({actor.name: actor for actor in actors})
        carriers: dict[str, list[RecordedActor]] = defaultdict(list)
        for actor in actors:
            carriers[actor.imu].append(actor)
        for source, sample in samples(self._recording):
            for actor in carriers[source]:
                self._writer_of(actor).add_imu(sample.t_utc_ns, sample.w_radps, sample.f_mps2)
        for actor in actors:
            for i, camera in enumerate(self._cameras(actor)):
                self._add_pictures(actor, camera_folder(i), camera.model.name)

    def written(self) -> dict[str, int]:
        """Return rows by actor and stream.

        Pictures that do not follow in time are counted as left out.
        """
        found = {}
        for name, writer in self._writers.items():
            found.update({f"{name}/{stream}": rows for stream, rows in writer.rows.items()})
            found.update(
                {f"{name}/{stream} left out": rows for stream, rows in writer.refused.items()}
            )
        return found

    def _writer_of(self, actor: RecordedActor) -> EurocWriter:
        writer = self._writers.get(actor.name)
        if writer is None:
            cameras = _sheets(self._cameras(actor), actor.T_body_imu or Transform.identity())
            imu = EurocImu(self._rates_hz.get(actor.imu, 0.0))
            try:
                writer = self._stack.enter_context(
                    EurocWriter(self._out / actor.name, cameras, imu)
                )
            except ValueError as exc:
                raise RecordingError(str(exc)) from exc
            self._writers[actor.name] = writer
        return writer

    def _cameras(self, actor: RecordedActor) -> list[CameraInfo]:
        return [
            c
            for c in self._facts.cameras
            if c.actor == actor.name and c.model.name in self._variants
        ]

    def _add_truth(self, actors: dict[str, RecordedActor]) -> None:
        for name, motion in motions(self._recording, self._facts):
            actor = actors.get(name)
            if actor is not None:
                T_world_body = motion.T_world_body
                T_body_imu = actor.T_body_imu or Transform.identity()
                lever_mps = cross(motion.w_body_radps, T_body_imu.p_m)
                v_world_mps = motion.v_world_mps + T_world_body.rotation() @ lever_mps
                self._writer_of(actor).add_truth(
                    motion.t_ns, T_world_body @ T_body_imu, v_world_mps
                )

    def _add_pictures(self, actor: RecordedActor, folder: str, camera: str) -> None:
        variants = self._variants[camera]
        for header, jpeg in shown(
            self._recording, camera, "raw" if "raw" in variants else variants[0]
        ):
            gray = decoded(self._recording, header, jpeg, cv2.IMREAD_GRAYSCALE)
            self._writer_of(actor).add_image(
                folder, header["t_display_ns"] + self._recording.utc_offset_ns, gray
            )


def _sheets(cameras: list[CameraInfo], T_body_imu: Transform) -> dict[str, EurocCamera]:
    T_imu_body = T_body_imu.inverse()
    return {
        camera_folder(i): EurocCamera(
            camera.model, T_imu_body @ camera.T_body_optical, camera.rate_hz
        )
        for i, camera in enumerate(cameras)
    }


def _rates_hz(recording: Recording) -> dict[str, float]:
    """Return samples per second of each IMU."""
    last_ns: dict[str, int] = {}
    intervals_ns: dict[str, list[int]] = defaultdict(list)
    for source, sample in samples(recording):
        known = intervals_ns[source]
        if source in last_ns and len(known) < _INTERVALS:
            known.append(sample.t_utc_ns - last_ns[source])
        last_ns[source] = sample.t_utc_ns
    return {
        name: round(NS_PER_S / float(np.median(known)), 1)
        for name, known in intervals_ns.items()
        if known
    }
