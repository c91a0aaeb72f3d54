"""Files that detectors are trained with.

COCO's keypoints, and YOLO-pose's description of a data set.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from vil_bridge.offline.files import write_whole
from vil_simulation.dataset.gate_labels import CORNERS
from vil_simulation.dataset.shard_renderer import FRAMES, GATES, SetCamera

_CATEGORY: Final = {
    "id": 1,
    "name": "gate",
    "supercategory": "gate",
    "keypoints": list(CORNERS),
    "skeleton": [[1, 2], [2, 3], [3, 4], [4, 1]],
}
_PICTURES: Final = "pictures.txt"
_YOLO: Final = f"""train: {_PICTURES}
val: {_PICTURES}
kpt_shape: [4, 3]
flip_idx: [1, 0, 3, 2]
names: {{0: gate}}
"""


def write_annotations(out: Path, scenes: Sequence[str], cameras: Sequence[SetCamera]) -> None:
    """Write ``gates_coco.json``, ``data.yaml`` and the list of pictures that it names, from the
    tables of all scenes.

    YOLO looks for ``labels`` next to a folder named ``images``: that name is a link to EuRoC's
    ``data``.

    Raises:
        OSError: the disk is full.
    """
    by_name = {camera.model.name: camera for camera in cameras}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for scene in scenes:
        for camera in cameras:
            link = out / scene / camera.folder / "images"
            if not link.is_symlink():
                link.symlink_to("data", target_is_directory=True)
        ids: dict[tuple[str, str], int] = {}
        for row in _rows(out / scene / FRAMES):
            camera = by_name[row["camera"]]
            ids[row["t_ns"], row["camera"]] = len(images) + 1
            size = {"width": camera.model.width_px, "height": camera.model.height_px}
            images.append(
                {"id": len(images) + 1, "file_name": f"{scene}/{row[camera.main]}", **size}
            )
        for row in _rows(out / scene / GATES):
            annotations.append(
                _annotation(row, len(annotations) + 1, ids[row["t_ns"], row["camera"]])
            )
    coco = {"images": images, "annotations": annotations, "categories": [_CATEGORY]}
    write_whole(out / "gates_coco.json", json.dumps(coco).encode() + b"\n")
    names = ("./" + image["file_name"].replace("/data/", "/images/") + "\n" for image in images)
    write_whole(out / _PICTURES, "".join(names).encode())
    write_whole(out / "data.yaml", _YOLO.encode())


def _annotation(row: dict[str, str], number: int, image: int) -> dict[str, Any]:
    keypoints: list[float] = []
    for corner in CORNERS:
        u, v = (float(row[f"{corner}_{axis}_px"]) for axis in "uv")
        keypoints += [u, v, int(row[f"{corner}_visibility"])]
    return {
        "id": number,
        "image_id": image,
        "category_id": 1,
        "bbox": [float(row[key]) for key in ("left_px", "top_px", "width_px", "height_px")],
        "area": float(row["area_px2"]),
        "iscrowd": 0,
        "keypoints": keypoints,
        "num_keypoints": sum(seen > 0 for seen in keypoints[2::3]),
        "gate": row["gate"],
    }


def _rows(table: Path) -> Iterator[dict[str, str]]:
    with table.open(newline="") as file:
        yield from csv.DictReader(file)
