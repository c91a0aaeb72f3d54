"""A recorded flight as an EuRoC folder, for visual-inertial programs and for evo."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import cv2
import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import RecordingError
from vil_bridge.core.geometry import Transform, cross
from vil_bridge.core.ports import CameraInfo
from vil_bridge.exporting.pictures import decoded
from vil_bridge.exporting.tracks import motions, samples
from vil_bridge.record.euroc import EurocCamera, EurocImu, EurocWriter
from vil_bridge.record.facts import RecordedActor, RecordingFacts
from vil_bridge.record.reader import Recording

__all__ = ["to_euroc"]

_NO_RATE_HZ = 0.0


def to_euroc(recording: Recording, facts: RecordingFacts, out: Path) -> Counter[str]:
    """Folder ``ACTOR`` of every rigid actor: ground truth of its IMU (its body without one), samples, its cameras.

    Of a camera with both kinds of pictures those as rendered are taken, stamped with the instant that they show.

    Raises:
        RecordingError: a lens has no words in the format.
    """
    variants = recording.cameras()
    written: Counter[str] = Counter()
    for actor in facts.actors:
        if actor.human:
            continue
        cameras = [c for c in facts.cameras if c.actor == actor.name and c.model.name in variants]
        T_body_imu = actor.T_body_imu or Transform.identity()
        try:
            writer = EurocWriter(out / actor.name, _cameras(cameras, T_body_imu), EurocImu(_rate(recording, actor)))
        except ValueError as exc:
            raise RecordingError(str(exc)) from exc
        with writer:
            _add_truth(writer, recording, facts, actor.name, T_body_imu)
            if actor.imu:
                for felt in samples(recording, actor.imu.partition("/")[0]):
                    writer.add_imu(felt.t_utc_ns, felt.w_radps, felt.f_mps2)
            for i, camera in enumerate(cameras):
                _add_pictures(writer, recording, f"cam{i}", camera.model.name, variants[camera.model.name])
        written.update({f"{actor.name}/{stream}": rows for stream, rows in writer.rows.items()})
    return written


def _cameras(cameras: list[CameraInfo], T_body_imu: Transform) -> dict[str, EurocCamera]:
    T_imu_body = T_body_imu.inverse()
    return {
        f"cam{i}": EurocCamera(camera.model, T_imu_body @ camera.T_body_optical, camera.rate_hz)
        for i, camera in enumerate(cameras)
    }


def _rate(recording: Recording, actor: RecordedActor) -> float:
    """Samples per second of its IMU over the recording."""
    if not actor.imu:
        return _NO_RATE_HZ
    times_ns = [felt.t_utc_ns for felt in samples(recording, actor.imu.partition("/")[0])]
    if len(times_ns) < 2:
        return _NO_RATE_HZ
    return round(NS_PER_S / float(np.median(np.diff(times_ns))), 1)


def _add_truth(
    writer: EurocWriter, recording: Recording, facts: RecordingFacts, actor: str, T_body_imu: Transform
) -> None:
    for name, motion in motions(recording, facts):
        if name == actor:
            T_world_body = motion.T_world_body
            lever_mps = cross(motion.w_body_radps, T_body_imu.p_m)
            v_world_mps = motion.v_world_mps + T_world_body.rotation() @ lever_mps
            writer.add_truth(motion.t_ns, T_world_body @ T_body_imu, v_world_mps)


def _add_pictures(
    writer: EurocWriter, recording: Recording, folder: str, camera: str, variants: tuple[str, ...]
) -> None:
    variant = "raw" if "raw" in variants else variants[0]
    for header, jpeg in recording.pictures(camera, variant):
        gray = decoded(recording, header, jpeg, cv2.IMREAD_GRAYSCALE)
        writer.add_image(folder, header["t_display_ns"] + recording.utc_offset_ns, gray)
