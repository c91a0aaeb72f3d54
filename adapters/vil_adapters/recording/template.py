"""Recorded markers as skeletons and bodies, by a template."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from vil_adapters.marker_template import read_template
from vil_adapters.recording.take import Bodies, MarkerTrack, Recording, SkeletonTrack
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.markers import MarkerTemplate, MarkerTracker
from vil_bridge.core.types import Markers

__all__ = ["with_template"]


def with_template(recording: Recording, path: Path) -> Recording:
    """The same recording with a skeleton for each subject of the template, or a body where it is one segment.

    Raises:
        ConfigError: the template does not fit the recording.
    """
    markers = recording.markers
    if markers is None:
        raise ConfigError(f"{path}: {recording.title} holds no markers that a template could use")
    tracks = []
    for subject, segments in read_template(path, markers.labels).items():
        try:
            template = MarkerTemplate.fit(subject, segments, markers.labels, markers.p_m, markers.tracked)
        except ValueError as exc:
            raise ConfigError(f"{path}: {exc}") from exc
        tracks.append(_follow(template, markers))
    rigid = [track for track in tracks if len(track.model.bones) == 1]
    return replace(
        recording,
        subjects=recording.subjects + tuple(track.model.name for track in rigid),
        bodies=Bodies.beside(recording.bodies, *(track.bones for track in rigid)),
        skeletons=recording.skeletons + tuple(track for track in tracks if len(track.model.bones) > 1),
    )


def _follow(template: MarkerTemplate, markers: MarkerTrack) -> SkeletonTrack:
    tracker = MarkerTracker(template)
    frames = [
        tracker.follow(Markers(markers.labels, p_m, tracked))
        for p_m, tracked in zip(markers.p_m, markers.tracked, strict=True)
    ]
    bones = Bodies(
        np.array([frame.p_m for frame in frames]),
        np.array([frame.q_xyzw for frame in frames]),
        np.array([frame.tracked for frame in frames]),
    )
    return SkeletonTrack(template.model, bones)
