"""A room with AprilTags, as a scene file, and the pose of a camera from a picture of them.

As a program it is the detector: the reference library, which ends some processes that unload it, so
it has its own.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

from tests.support.embedded import rotation
from tests.support.gltf import SQUARE, SQUARE_INDICES, SQUARE_UV, GltfFile
from tests.support.programs import output
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import FloatArray, ImageArray

_TAG_M = 0.4
_CELLS = 10  # tag36h11: six cells of code, a black frame, a white margin
_CELL_PX = 24
_CORNERS = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * 0.5 * _TAG_M * (_CELLS - 2) / _CELLS
_MOST_RESIDUAL_PX = 0.6


@dataclass(frozen=True)
class Tag:
    """A tag on a stand: where its centre is and which way it faces."""

    number: int
    p_m: tuple[float, float, float]
    yaw_deg: float
    pitch_deg: float = 0.0

    @property
    def corners_m(self) -> FloatArray:
        """World places of the code's four outer corners, shape (4, 3), in the order in which
        detectors name them.
        """
        R = rotation(self.yaw_deg, self.pitch_deg)
        right, up = R[:, 1], R[:, 2]
        corners: FloatArray = np.array(self.p_m) + _CORNERS @ np.stack((right, up))
        return corners


TAGS = tuple(
    Tag(number, (x, y, z), 180.0 + turned, pitched)
    for number, (x, y, z, turned, pitched) in enumerate(
        [
            (2.0, 0.9, 1.9, -20, 0),
            (2.6, 0.0, 2.1, 0, 15),
            (2.2, -0.9, 1.8, 20, 0),
            (1.9, 0.75, 0.9, -15, -10),
            (2.8, 0.1, 1.3, 5, 0),
            (2.0, -0.8, 0.8, 15, -10),
        ]
    )
)


def write_scene(folder: Path) -> Path:
    """The scene file, its models beside it."""
    objects: list[dict[str, Any]] = [
        {
            "name": "floor",
            "plane": {"size_m": [12, 12]},
            "material": {"surface": "floor_marked", "tile_m": 4},
        },
        {
            "name": "wall",
            "box": {"size_m": [0.2, 12, 5]},
            "p_m": [4.5, 0, 0],
            "material": {"surface": "planks", "tile_m": 3},
        },
    ]
    for tag in TAGS:
        _tag_model(tag.number).write(folder, f"tag{tag.number}.glb")
        ypr = [tag.yaw_deg, tag.pitch_deg, 0.0]
        place = {"file": f"tag{tag.number}.glb", "p_m": list(tag.p_m), "ypr_deg": ypr}
        objects.append({"name": f"tag{tag.number}", **place})
    light = {"sky": [0.7, 0.7, 0.7], "ground": [0.7, 0.7, 0.7], "sun": None}
    path = folder / "tags.yaml"
    path.write_text(yaml.safe_dump({"scene": "tags", "environment": light, "objects": objects}))
    return path


def _tag_model(number: int) -> GltfFile:
    """A square that shows a tag; it faces along the model's x."""
    code = cv2.aruco.generateImageMarker(
        cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_APRILTAG_36H11),
        number,
        (_CELLS - 2) * _CELL_PX,
    )
    picture = np.pad(code, _CELL_PX, constant_values=255)
    file = GltfFile()
    texture = file.add(
        "textures", {"source": file.image(np.repeat(picture[:, :, None], 3, axis=2))}
    )
    surface = {
        "baseColorTexture": {"index": texture},
        "roughnessFactor": 1.0,
        "metallicFactor": 0.0,
    }
    material = file.add("materials", {"pbrMetallicRoughness": surface, "doubleSided": True})
    corners = (SQUARE - [0.5, 0.5, 0.0]) * _TAG_M
    mesh = file.mesh(
        corners, SQUARE_INDICES, TEXCOORD_0=file.accessor(SQUARE_UV), material=material
    )
    file.add("scenes", {"nodes": [file.node(name="tag", mesh=mesh)]})
    return file


def detect(pictures: list[ImageArray], folder: Path) -> list[dict[int, FloatArray]]:
    """Corners (4, 2) of the tags in each gray picture by the reference detector, pixels.

    Centres at integers.

    Tags that the picture's border cuts are left out: their corners are guessed, and pixels off.
    """
    path = folder / "pictures.npy"
    np.save(path, np.stack(pictures))
    found_in = json.loads(output(sys.executable, "-m", "tests.support.apriltag_room", path))
    return [{int(n): np.array(corners) for n, corners in found.items()} for found in found_in]


def camera_pose(seen: dict[int, FloatArray], K: FloatArray) -> Transform:
    """T_world_camera from the tags in a picture."""
    tags = [tag for tag in TAGS if tag.number in seen]
    assert len(tags) >= 4, f"tags {sorted(seen)} of {len(TAGS)}"
    world_m = np.concatenate([tag.corners_m for tag in tags])
    pixels = np.concatenate([seen[tag.number] for tag in tags])
    ok, turn, shift = cv2.solvePnP(world_m, pixels, K, None, flags=cv2.SOLVEPNP_SQPNP)
    turn, shift = cv2.solvePnPRefineLM(world_m, pixels, K, None, turn, shift)
    again, _ = cv2.projectPoints(world_m, turn, shift, K, None)
    residual_px = np.linalg.norm(again[:, 0] - pixels, axis=1)
    assert ok and np.median(residual_px) < _MOST_RESIDUAL_PX, residual_px
    R_camera_world = np.asarray(cv2.Rodrigues(turn)[0], dtype=np.float64)
    return Transform(
        -R_camera_world.T @ np.asarray(shift[:, 0], dtype=np.float64),
        q_from_matrix(R_camera_world.T),
    )


def difference(a: Transform, b: Transform) -> tuple[float, float]:
    """Millimetres and degrees between two poses."""
    turn = (a.inverse() @ b).q_xyzw
    return 1e3 * float(np.linalg.norm(a.p_m - b.p_m)), math.degrees(
        2 * math.asin(min(1.0, float(np.linalg.norm(turn[:3]))))
    )


def _main(path: str) -> None:
    import pupil_apriltags

    detector = pupil_apriltags.Detector(families="tag36h11")

    def whole(tag: Any, picture: ImageArray) -> bool:
        with_margin = tag.center + (tag.corners - tag.center) * _CELLS / (_CELLS - 2)
        return bool((with_margin >= 0).all() and (with_margin <= picture.shape[::-1]).all())

    # The detector counts pixels from the corner of the first one, the project from its centre.
    found = [
        {tag.tag_id: (tag.corners - 0.5).tolist() for tag in detector.detect(p) if whole(tag, p)}
        for p in np.load(path)
    ]
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    _main(sys.argv[1])
