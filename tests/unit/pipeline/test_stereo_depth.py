"""Depths of a stereo camera against the formula of its data sheet, and the holes that it leaves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.config.camera import CameraConfig
from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import DEPTH_NO_HIT, DEPTH_UNITS_PER_M, FloatArray, ImageArray, Modality
from vil_bridge.optics.camera_sensor import StereoDepth
from vil_bridge.pipeline.sensor.depth_chain import DepthChain
from vil_bridge.pipeline.sensor.stage import SensorStage

D435 = CameraConfig.model_validate({"renderer": "r", "preset": "d435_depth"})


def d435() -> tuple[CameraModel, StereoDepth]:
    sensor = D435.depth_sensor()
    assert sensor is not None
    return D435.camera_model("depth"), sensor


def measured(z_m: FloatArray, modality: Modality = Modality.DEPTH32, t_ns: int = 0) -> FloatArray:
    """Depths in metres; infinite = none."""
    model, sensor = d435()
    stage = SensorStage(model, None, sensor)
    if modality is Modality.DEPTH32:
        made = stage.picture(modality, z_m.astype(np.float32), t_ns, lambda: None)
        return np.where(made >= 100.0, np.inf, made)
    counted = np.rint(z_m * DEPTH_UNITS_PER_M).astype(np.uint16)
    made = stage.picture(modality, counted, t_ns, lambda: None)
    return np.where(made == DEPTH_NO_HIT, np.inf, made / DEPTH_UNITS_PER_M)


def wall(z_m: float) -> FloatArray:
    return np.full((480, 848), z_m)


@pytest.mark.parametrize(
    ("z_m", "modality"),
    [
        *((z_m, Modality.DEPTH32) for z_m in (0.5, 1.0, 2.0, 4.0, 8.0)),
        # Its unit is 1.5 mm, the error at 1 m is 3.6 mm.
        *((z_m, Modality.DEPTH) for z_m in (2.0, 4.0, 8.0)),
    ],
)
def test_the_error_of_a_wall_is_that_of_the_data_sheet(z_m: float, modality: Modality) -> None:
    model, _ = d435()
    made = measured(wall(z_m), modality)
    seen = np.isfinite(made)
    # Intel: RMS = z^2 subpixel / (f b); the disparity's steps of 1/32 px add a little.
    f_px = 0.5 * 848 / math.tan(math.radians(87.0 / 2.0))
    assert model.intrinsics_px[0] == pytest.approx(f_px, rel=0.005)
    expected_m = z_m**2 * 0.08 / (f_px * 0.05)
    rms_m = math.sqrt(float(np.mean((made[seen] - z_m) ** 2)))
    assert rms_m == pytest.approx(expected_m, rel=0.05)
    if z_m <= 2.0:
        assert rms_m < 0.02 * z_m, "the data sheet promises 2 % up to 2 m"
    left_px = f_px * 0.05 / z_m  # which the right camera does not see
    assert seen[:, math.ceil(left_px) + 1 :].mean() > 0.99
    assert not seen[:, : math.floor(left_px) - 1].any()


def test_it_measures_from_its_least_to_its_largest_distance() -> None:
    model, sensor = d435()
    least_m = model.intrinsics_px[0] * 0.05 / sensor.most_disparity_px
    assert least_m == pytest.approx(0.175, abs=0.01)
    assert not np.isfinite(measured(wall(0.98 * least_m))).any()
    assert np.isfinite(measured(wall(1.02 * least_m)))[:, 140:].mean() > 0.95
    assert not np.isfinite(measured(wall(10.2))).any()
    nothing = np.full((480, 848), 100.0)
    assert not np.isfinite(measured(nothing)).any()


def test_the_shadow_of_a_near_object_lies_to_its_left() -> None:
    scene = wall(4.0)
    scene[100:400, 400:500] = 1.0
    made = np.isfinite(measured(scene))
    model, _ = d435()
    shadow_px = model.intrinsics_px[0] * 0.05 * (1.0 / 1.0 - 1.0 / 4.0)
    row = made[250]
    assert shadow_px > 15.0
    width = 400 - np.flatnonzero(row[:400])[-1] - 1
    assert width == pytest.approx(shadow_px, abs=2.0)
    assert row[403:497].all() and row[503:].all(), (
        "all else is seen twice, but the edges themselves"
    )


@pytest.mark.parametrize(
    ("angle_deg", "filled"), [(0.0, True), (60.0, True), (78.0, True), (83.0, False)]
)
def test_surfaces_at_grazing_angles_have_no_depth(angle_deg: float, filled: bool) -> None:
    model, sensor = d435()
    fx, _, cx, _ = model.intrinsics_px
    u = np.arange(848.0)
    z_row = 2.0 / (1.0 - math.tan(math.radians(angle_deg)) * (u - cx) / fx)  # z = 2 + x tan(angle)
    near = np.abs(u - cx) < 20.0
    z_m = np.where(near, z_row, 100.0)[None].repeat(480, axis=0)
    found = DepthChain(sensor, model).matched((fx * 0.05 / z_m).astype(np.float32))
    assert found[240, np.abs(u - cx) < 10.0].all() == filled


def test_depths_are_multiples_of_the_disparitys_steps() -> None:
    model, sensor = d435()
    made = measured(wall(3.0))
    disparity = model.intrinsics_px[0] * sensor.baseline_m / made[np.isfinite(made)]
    steps = disparity / sensor.disparity_step_px
    assert np.abs(steps - np.rint(steps)).max() < 1e-3
    assert len(np.unique(np.rint(steps))) < 40


def test_errors_of_neighbours_are_alike_and_change_with_time() -> None:
    one, again, later = (measured(wall(2.0), t_ns=t)[:, 40:] - 2.0 for t in (1, 1, 2))
    assert np.array_equal(one, again)
    near = float(np.corrcoef(one[:, :-1].ravel(), one[:, 1:].ravel())[0, 1])
    assert near == pytest.approx(math.exp(-0.25), abs=0.06)  # of noise blurred with sigma 1
    assert abs(float(np.corrcoef(one.ravel(), later.ravel())[0, 1])) < 0.02


def test_a_camera_without_a_pattern_sees_no_depth_on_a_plain_wall() -> None:
    config = CameraConfig.model_validate({"renderer": "r", "preset": "oak_d_depth"})
    stage = SensorStage(config.camera_model("oak"), None, config.depth_sensor())
    z_m = np.full((400, 640), 2.0, np.float32)
    texture: ImageArray = np.full((400, 640), 128, np.uint8)
    texture[:, 320:] += np.random.default_rng(1).integers(0, 20, (400, 320), dtype=np.uint8)
    made = stage.picture(Modality.DEPTH32, z_m, 0, lambda: texture)
    assert (made[:, :310] == 100.0).all()
    assert (made[:, 330:] < 100.0).mean() > 0.99
    rms_m = float(np.std(made[:, 330:]))
    assert rms_m < 0.02 * 2.0, "Luxonis states 2 % below 4 m"
