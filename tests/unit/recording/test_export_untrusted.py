"""A crafted recording writes nothing outside of the folder that it is exported to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from tests.support.record import CAMERA, FACTS, picture, some_events
from vil_bridge.core.errors import RecordingError
from vil_bridge.recording.export.images import to_png
from vil_bridge.recording.reader import Recording
from vil_bridge.recording.recorder import Recorder


@pytest.mark.parametrize("camera", ["../../front", "/front", "..", "a/b", "front\0"])
def test_a_camera_that_is_a_path_is_refused(tmp_path: Path, camera: str) -> None:
    path, out = crafted(tmp_path, camera, 1), tmp_path / "deep" / "out"
    with Recording(path) as recording, pytest.raises(RecordingError, match="has a camera named"):
        to_png(recording, FACTS, out)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("as_absolute", [True, False])
def test_a_picture_numbered_by_a_path_is_refused(tmp_path: Path, as_absolute: bool) -> None:
    frame_id = str(tmp_path / "target") if as_absolute else "../../../target"
    path, out = crafted(tmp_path, "front", frame_id), tmp_path / "deep" / "out"
    with Recording(path) as recording, pytest.raises(RecordingError, match="has no number"):
        to_png(recording, FACTS, out)
    assert not list(tmp_path.rglob("*.png"))


def crafted(folder: Path, camera: str, frame_id: object) -> Path:
    """A recording with one picture of such a camera and number."""
    path = folder / "crafted.mcap"
    facts = replace(FACTS, cameras=(replace(CAMERA, model=replace(CAMERA.model, name=camera)),))
    header = structs.replace(
        picture(1).header, camera=camera, frame_id=frame_id, width=32, height=24
    )
    recorder = Recorder(path, facts, lambda event: getattr(event, "t_arrival_ns", None))
    for event in some_events(3):
        recorder.queue.enqueue_event(event)
    recorder.queue.enqueue_picture(picture(1)._replace(camera=camera, header=header))
    recorder.stop(30.0)
    return path
