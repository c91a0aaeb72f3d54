"""Shipped scenes as a camera sees them: well exposed, and full of corners that can be followed."""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from tests.support.embedded import CAMERA, NOBODY, looking, renderer, track
from vil_bridge.core.types import Modality, View

VIEWS = [
    ("hall", (-1.0, 0.0, 1.5), 0.0),
    ("hall", (0.0, 0.0, 1.5), 180.0),
    ("lab", (0.0, 0.0, 1.3), 90.0),
    ("lab", (0.0, 0.0, 1.3), -90.0),
    ("yard", (0.0, 0.0, 2.0), 90.0),
    ("garage", (-12.0, -5.2, 1.6), 0.0),
    ("garage", (10.0, -5.2, 1.6), 150.0),
    ("street", (-18.0, 0.4, 1.8), 0.0),
    ("street", (24.0, 0.0, 4.0), 172.0),
    ("course", (-22.0, -12.0, 2.0), 0.0),
    ("course", (10.0, 0.0, 3.0), -45.0),
]

Picture = npt.NDArray[np.uint8]


def shoot(scene: str, p_m: tuple[float, float, float], yaw_deg: float) -> Picture:
    view = View(CAMERA, Modality.RGB, looking(p_m, yaw_deg), 0)
    return np.array(renderer(scene).render((view,), NOBODY)[0].pixels)


def followed(before: Picture, after: Picture) -> tuple[npt.NDArray[np.float32], float]:
    """Corners (n, 2) of the first picture, and the share that forward and backward tracking
    agree on.
    """
    a, b = (cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) for picture in (before, after))
    start = cv2.goodFeaturesToTrack(a[20:-20, 20:-20].copy(), 1500, 0.01, 8) + np.float32(20.0)
    there, found, _ = track(a, b, start)
    back, returned, _ = track(b, a, there)
    near = np.linalg.norm((back - start)[:, 0], axis=1) < 0.5
    return start[:, 0], float((near & (found[:, 0] == 1) & (returned[:, 0] == 1)).mean())


@pytest.mark.parametrize(("scene", "p_m", "yaw_deg"), VIEWS)
def test_pictures_are_well_exposed_and_full_of_corners(
    scene: str, p_m: tuple[float, float, float], yaw_deg: float
) -> None:
    before = shoot(scene, p_m, yaw_deg)
    assert 80.0 < before.mean() < 140.0
    assert (before.min(axis=-1) >= 254).mean() < 0.02, "burnt out"
    assert (before.max(axis=-1) <= 12).mean() < 0.04, "black"
    yaw = math.radians(yaw_deg)
    moved = (
        p_m[0] + 0.02 * math.cos(yaw + 1.0),
        p_m[1] + 0.02 * math.sin(yaw + 1.0),
        p_m[2] + 0.005,
    )
    corners, share = followed(before, shoot(scene, moved, yaw_deg + 1.0))
    assert len(corners) > 400 and share > 0.94
    tiles = {tuple(tile) for tile in (corners // 80).astype(int).tolist()}
    assert len(tiles) > (34 if scene in ("yard", "street") else 42), "of 48; above is the sky"
