"""A hall that our renderer films, with noise, blur and JPEG, becomes a scene.

Poses come from the film alone.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.support import apriltag_room
from tests.support.common import needs_gl
from tests.support.programs import VIL_BRIDGE, run
from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import FloatArray, ImageArray, Modality, View, WorldSnapshot
from vil_bridge.optics.camera_sensor import ImageSensor
from vil_bridge.pipeline.sensor.image_chain import ImageChain
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.scenefile import load_scene

pytest.importorskip("pycolmap", reason="poses of a film: install the extra sfm")

pytestmark = [pytest.mark.process, pytest.mark.gl, pytest.mark.long, pytest.mark.timeout(1500)]

CAMERA = CameraModel("film", 960, 540, math.radians(55.0))
RATE_HZ, SECONDS, EXPOSURE_S, SUBFRAMES = 5, 20, 0.008, 3
CHECKED = ("tag4", "tag5")
WITHIN_M, WITHIN_DEG = 0.02, 0.5


def pose(t_s: float) -> Transform:
    """Pose of the optical axes: a walk to and fro before the tags, looking at them."""
    phase = 2.0 * math.pi * t_s / SECONDS
    p_m = np.array(
        [-0.6 + 0.9 * math.cos(phase), 1.7 * math.sin(phase), 1.4 + 0.4 * math.sin(2.0 * phase)]
    )
    z = np.array([2.4, 0.25 * math.sin(3.0 * phase), 1.4]) - p_m
    z /= np.linalg.norm(z)
    x = np.cross(z, [0.0, 0.0, 1.0])
    x /= np.linalg.norm(x)
    return Transform(p_m, q_from_matrix(np.stack((x, np.cross(z, x), z), axis=1)))


def film(folder: Path) -> Path:
    """Film the hall, in which the tags stand."""
    tags = [
        thing
        for thing in load_scene(apriltag_room.write_scene(folder)).objects
        if thing.name.startswith("tag")
    ]
    hall = load_scene("hall")
    chain = ImageChain(ImageSensor(), CAMERA, 3)
    rng = np.random.Generator(np.random.SFC64(4))
    path = folder / "hall.avi"
    size = CAMERA.width_px, CAMERA.height_px
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), RATE_HZ, size)
    with EmbeddedRenderer(replace(hall, objects=(*hall.objects, *tags)), "medium") as renderer:
        for n in range(RATE_HZ * SECONDS):
            t_s = n / RATE_HZ
            shots = [drawn(renderer, t_s + EXPOSURE_S * i / SUBFRAMES) for i in range(SUBFRAMES)]
            blurred = np.mean([shot.astype(np.float32) ** 2.2 for shot in shots], axis=0) ** (
                1 / 2.2
            )
            seen = chain.picture(np.asarray(np.rint(blurred), np.uint8), round(1e9 * t_s), rng)
            writer.write(np.ascontiguousarray(seen[:, :, ::-1]))
    writer.release()
    return path


def drawn(renderer: EmbeddedRenderer, t_s: float) -> ImageArray:
    view = View(CAMERA, Modality.RGB, pose(t_s), 0)
    return renderer.render((view,), WorldSnapshot(0, ()))[0].pixels


def measured(folder: Path) -> Path:
    """Write the middles of the tags, as a wand would have measured them."""
    rng = np.random.default_rng(9)
    rows = ["name,x_m,y_m,z_m,check"]
    for tag in apriltag_room.TAGS:
        x, y, z = np.array(tag.p_m) + rng.normal(0.0, 0.001, 3)
        rows.append(f"tag{tag.number},{x:.5f},{y:.5f},{z:.5f},{int(f'tag{tag.number}' in CHECKED)}")
    path = folder / "measured.csv"
    path.write_text("\n".join(rows))
    return path


def test_a_filmed_hall_is_aligned_by_tags(tmp_path: Path) -> None:
    needs_gl()
    command = (
        *VIL_BRIDGE,
        "scene",
        "import",
        film(tmp_path),
        measured(tmp_path),
        "-o",
        tmp_path / "hall.yaml",
        "--json",
    )
    done = run(*command, limit_s=1400.0)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    print(figures)
    assert set(figures["check_m"]) == set(CHECKED)
    assert max(figures["check_m"].values()) <= WITHIN_M
    assert turned_deg(tmp_path / "hall_scan", figures) <= WITHIN_DEG


def turned_deg(folder: Path, figures: dict[str, list[float]]) -> float:
    """Return the largest angle between the truth and the pictures' attitudes, which no alignment
    saw.
    """
    from vil_renderer.scan.views import read_views

    T = Transform.of(tuple(figures["p_m"]), tuple(figures["q_xyzw"]))
    truth: list[FloatArray] = [pose(n / RATE_HZ).rotation() for n in range(RATE_HZ * SECONDS)]
    angles = []
    for view in read_views(folder):
        turned = T.rotation() @ view.R_scan_camera
        angles.append(min(math.acos(min(1.0, (np.trace(R.T @ turned) - 1.0) / 2.0)) for R in truth))
    assert len(angles) > 20
    return math.degrees(float(np.percentile(angles, 90)))
