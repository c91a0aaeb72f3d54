"""Ids are moved by the late warp and never mixed; colour with alpha is warped like colour."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import ImageArray, Modality
from vil_bridge.pipeline.warp.compensator import Compensator, Method

K = CameraModel("front", 64, 48, math.radians(60.0)).K
HERE = Transform.identity()
# Optical axes: yaw about z rolls the picture, pitch about y turns it sideways.
TURNED = Transform.of((0.02, 0.01, 0.03), q_from_euler_zyx(0.05, 0.08, 0.02))
DEPTH = np.full((48, 64), round(3.0 * 655.35), np.uint16)
METHODS: list[Method] = ["rotation", "homography", "reproject"]


def checkered(low: int, high: int) -> ImageArray:
    rows, columns = np.mgrid[0:48, 0:64] // 5
    return np.where((rows + columns) % 2, high, low).astype(np.uint16)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("flipped", [False, True])
def test_no_id_appears_that_was_not_there(method: Method, flipped: bool) -> None:
    ids = checkered(3, 60_000)
    stored = np.ascontiguousarray(ids[::-1])[::-1] if flipped else ids
    got = Compensator(3.0).compensate(
        stored, K, HERE, TURNED, method, DEPTH, modality=Modality.SEMANTIC
    )
    assert got.method == method and got.pixels.dtype == np.uint16
    assert set(np.unique(got.pixels).tolist()) <= {0, 3, 60_000}
    # The ids lie where a picture of the same squares shows them.
    gray = (
        Compensator(3.0)
        .compensate(np.where(ids == 3, 0, 255).astype(np.uint8), K, HERE, TURNED, method, DEPTH)
        .pixels
    )
    inside = np.s_[6:-6, 8:-8]
    clear = (gray < 30) | (gray > 225)
    assert clear[inside].mean() > 0.3
    assert ((got.pixels == 60_000) == (gray > 127))[inside][clear[inside]].all()


@pytest.mark.parametrize(("method", "plane_m"), [("rotation", 8.0), ("homography", 3.0)])
def test_an_id_is_not_a_depth(method: Method, plane_m: float) -> None:
    compensator = Compensator()
    compensator.compensate(
        checkered(1, 2), K, HERE, TURNED, method, DEPTH, modality=Modality.SEMANTIC
    )
    after = compensator.compensate(
        checkered(1, 2), K, HERE, TURNED, "homography", modality=Modality.SEMANTIC
    )
    assert after.d_m == pytest.approx(plane_m, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_alpha_is_warped_with_its_colour(method: Method) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (48, 64, 4)).astype(np.uint8)
    whole = Compensator(3.0).compensate(noise, K, HERE, TURNED, method, DEPTH).pixels
    for channel in range(4):
        alone = (
            Compensator(3.0)
            .compensate(np.ascontiguousarray(noise[..., channel]), K, HERE, TURNED, method, DEPTH)
            .pixels
        )
        assert np.abs(whole[..., channel].astype(int) - alone).max() <= 1
