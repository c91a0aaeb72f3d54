"""A recorded flight is mapped offline, as a running bridge maps it.

The same file each time, and true to the scene.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.common import needs_gl
from tests.support.offline import CONFIG, room_file, write_recording
from vil_bridge.offline.replay.replay import replay_offline
from vil_bridge.world.occupancy.map_file import read_map
from vil_renderer.embedded.geometry.voxels import Box
from vil_renderer.embedded.scenefile import load_scene
from vil_simulation.planning.scene_map import map_of_scene

pytestmark = [pytest.mark.process, pytest.mark.gl]

MAPS = """
maps:
  room: {cameras: [front], min_m: [-8, -8, -1], max_m: [8, 8, 4], resolution_m: 0.2}
"""


def test_a_recording_is_mapped(tmp_path: Path) -> None:
    needs_gl()
    recording, room = write_recording(tmp_path / "flight.mcap", CONFIG + MAPS), room_file(tmp_path)
    for name in ("one", "two"):
        done = replay_offline(recording, tmp_path / name, scene=str(room), cameras=["front"])
        headers = (
            (tmp_path / name / "cameras" / "front" / "pictures.jsonl").read_text().splitlines()
        )
        assert done.pictures["front"] == len(headers), (
            "the map's pictures are not among those written"
        )
    assert (tmp_path / "one/maps/room.ot").read_bytes() == (
        tmp_path / "two/maps/room.ot"
    ).read_bytes()
    found = read_map(tmp_path / "one/maps/room.ot")
    occupied = found.codes[found.log_odds >= 0.0]
    around = Box(np.zeros(3), np.full(3, 20.0))  # the floor at z = 0 is the border of two voxels
    truth = map_of_scene(load_scene(str(room)), 0.2, around).codes
    assert len(occupied) > 200 and np.isin(occupied, truth).mean() > 0.99
    assert len(found.codes) > 5 * len(occupied)


def test_cameras_that_are_not_drawn_fill_no_map(tmp_path: Path) -> None:
    needs_gl()
    recording = write_recording(tmp_path / "flight.mcap", CONFIG + MAPS)
    replay_offline(recording, tmp_path / "out", scene=str(room_file(tmp_path)), cameras=["still"])
    assert not (tmp_path / "out" / "maps").exists()
