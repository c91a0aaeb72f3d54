"""``vil-bridge scene cloud``: points on the surfaces that a strange reader sees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.support.geometry_scenes import opened_points
from vil_renderer.cli.scene import scene


@pytest.mark.parametrize("voxels", [False, True])
def test_a_box_of_the_empty_field_is_its_ground(tmp_path: Path, voxels: bool) -> None:
    path = tmp_path / "ground.ply"
    words = [
        "cloud",
        "empty",
        str(path),
        "--resolution",
        "0.25",
        "--centre",
        "0",
        "0",
        "0",
        "--size",
        "4",
        "4",
        "2",
    ]
    answer = CliRunner().invoke(scene, [*words, *(["--voxels"] if voxels else [])])
    assert answer.exit_code == 0, answer.output
    points = opened_points(path)
    assert f"wrote {len(points)} points" in answer.output
    # 16 m2 of ground; voxels are those whose sphere of one cell reaches it: a few layers.
    assert 200 <= len(points) <= 1100
    assert np.all(np.abs(points[:, :2]) <= 2.0 + 1e-6)
    assert np.all(np.abs(points[:, 2]) <= 0.25)
