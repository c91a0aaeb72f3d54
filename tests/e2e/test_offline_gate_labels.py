"""Data sets with labels of gates.

Text lines, YOLO-pose's description and COCO's keypoints agree.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, Final

import cv2
import pytest
import yaml

from tests.support.common import needs_gl
from vil_simulation.dataset.dataset import render_dataset
from vil_simulation.dataset.plan import DatasetPlan

pytestmark = [pytest.mark.process, pytest.mark.gl]

PLAN: Final[dict[str, Any]] = {
    "trajectory": {"waypoints": {"points_m": [[0.5, 0, 2], [6, 0.5, 2]], "speed_mps": 3}},
    "frames": 3,
    "rate_hz": 3,
    "cameras": {
        "front": {"width_px": 160, "height_px": 120},
        "back": {
            "width_px": 64,
            "height_px": 48,
            "modalities": ["rgb", "gray"],
            "T_body_camera": {"ypr_deg": [180, 0, 0]},
        },
    },
    "measure": ["gates"],
}


def test_all_forms_of_the_labels_agree(tmp_path: Path) -> None:
    needs_gl()
    scene, out = tmp_path / "race.yaml", tmp_path / "set"
    scene.write_text("scene: race\ncourse: slalom\n")
    render_dataset(DatasetPlan.model_validate(PLAN | {"scenes": [str(scene)]}), out, shard_frames=2)
    coco = json.loads((out / "gates_coco.json").read_text())
    about = yaml.safe_load((out / "data.yaml").read_text())
    assert (about["kpt_shape"], about["flip_idx"], about["names"]) == (
        [4, 3],
        [1, 0, 3, 2],
        {0: "gate"},
    )
    listed = (out / about["train"]).read_text().split()
    assert [name.replace("/images/", "/data/")[2:] for name in listed] == [
        one["file_name"] for one in coco["images"]
    ]
    rows = list(csv.DictReader((out / "race" / "frames.csv").read_text().splitlines()))
    for name, image, row in zip(listed, coco["images"], rows, strict=True):
        size = image["width"], image["height"]
        picture = cv2.imread(str(out / name))
        assert picture is not None and picture.shape[1::-1] == size
        text = out / name.replace("/images/", "/labels/").replace(".png", ".txt")
        assert text == out / "race" / row["gates"]
        lines = [[float(word) for word in line.split()] for line in text.read_text().splitlines()]
        found = [one for one in coco["annotations"] if one["image_id"] == image["id"]]
        assert len(lines) == len(found) and (row["camera"] == "front") == bool(lines), (
            "no gate is behind the start"
        )
        for line, one in zip(lines, found, strict=True):
            left, top, width, height = one["bbox"]
            box = (
                (left + width / 2) / size[0],
                (top + height / 2) / size[1],
                width / size[0],
                height / size[1],
            )
            assert line[1:5] == pytest.approx(box, abs=1e-6)
            points = [value / (*size, 1)[k % 3] for k, value in enumerate(one["keypoints"])]
            assert line[5:] == pytest.approx(points, abs=1e-6)
            assert one["num_keypoints"] == sum(seen > 0 for seen in line[7::3])
    (category,) = coco["categories"]
    assert category["keypoints"] == ["top_left", "top_right", "bottom_right", "bottom_left"]
    assert {one["gate"] for one in coco["annotations"]} >= {"Gate1", "Gate2"}
