"""The half of a data set that is not drawn: calibration, IMU and ground truth in EuRoC's layout."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, cross, q_mul, q_rotate
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.euroc import ROOT, EurocCamera, EurocImu, EurocWriter
from vil_simulation.dataset.frames import FrameSequence, grid_ns
from vil_simulation.dataset.plan import DatasetPlan
from vil_simulation.dataset.shard_renderer import set_cameras
from vil_simulation.dataset.trajectories import truth_row
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.imu import ImuParameters, ImuSensor, without_limits
from vil_simulation.vehicles.sensors.presets import IMU_PRESETS
from vil_simulation.vehicles.sensors.sensor import SensorMount

_TRUTH_HZ: Final = 200.0
_BLOCK: Final = 1000

_Biases = tuple[FloatArray | None, FloatArray | None]


def write_inertial(plan: DatasetPlan, sequence: FrameSequence, folder: Path) -> None:
    """Write ``mav0`` of a scene but for pictures and their tables; whole or not at all.

    Raises:
        ConfigError: EuRoC's layout cannot describe a camera.
        OSError: the disk is full.
    """
    if (folder / ROOT).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{uuid.uuid4().hex}.part"
    T_body_imu = _imu_place(plan)
    cameras = {
        camera.folder.rpartition("/")[2]: EurocCamera(
            camera.model, T_body_imu.inverse() @ camera.T_body_optical, plan.rate_hz
        )
        for camera in set_cameras(plan)
    }
    try:
        with EurocWriter(part, cameras, _expected(plan)) as writer:
            _write_motion(plan, sequence, T_body_imu, writer)
        (part / ROOT).rename(folder / ROOT)
    except ValueError as exc:
        raise ConfigError(f"cameras: {exc}") from exc
    finally:
        shutil.rmtree(part, ignore_errors=True)


def calibration(plan: DatasetPlan) -> dict[str, Any]:
    """Return the calibration of cameras and IMU for programs that do not read EuRoC's sheets.

    JSON types.
    """
    T_body_imu = _imu_place(plan)
    cameras = {
        camera.model.name: {
            "folder": camera.folder,
            "resolution": [camera.model.width_px, camera.model.height_px],
            "K": list(camera.model.intrinsics_px),
            "distortion": _distortion(camera.model),
            "T_body_optical": _pose(camera.T_body_optical),
            "T_imu_optical": _pose(T_body_imu.inverse() @ camera.T_body_optical),
            "effects": asdict(camera.model.effects),
        }
        for camera in set_cameras(plan)
    }
    imu = None if plan.imu is None else {"preset": plan.imu.preset, **asdict(_expected(plan))}
    return {"cameras": cameras, "imu": imu, "T_body_imu": _pose(T_body_imu)}


def _distortion(camera: CameraModel) -> dict[str, Any] | None:
    lens = camera.distortion
    if lens is None:
        return None
    return {"model": str(lens.model), "coefficients": list(lens.coefficients)}


def _write_motion(
    plan: DatasetPlan, sequence: FrameSequence, T_body_imu: Transform, writer: EurocWriter
) -> None:
    imu: _PlannedImu | None = None
    rate_hz = _TRUTH_HZ
    if plan.imu is not None:
        imu = _PlannedImu(plan, sequence)
        rate_hz = plan.imu.rate_hz
    span_ns = sequence.frames[-1].t_ns - sequence.frames[0].t_ns
    times = grid_ns(sequence.frames[0].t_ns, rate_hz, int(span_ns * rate_hz / NS_PER_S) + 1)
    for begin in range(0, len(times), _BLOCK):
        block = times[begin : begin + _BLOCK]
        p_m, q_xyzw, v_mps = _of_imu(sequence.flight.motion(block), T_body_imu)
        biases: list[_Biases] = [(None, None)] * len(block)
        if imu is not None:
            biases = imu.write(block, writer)
        for row, t_ns in enumerate(block):
            writer.add_truth(t_ns, Transform(p_m[row], q_xyzw[row]), v_mps[row], *biases[row])


class _PlannedImu:
    """The IMU of a plan.

    A sample is the mean over the period around its stamp, cut at the ends of the flight.
    """

    def __init__(self, plan: DatasetPlan, sequence: FrameSequence) -> None:
        assert plan.imu is not None, "asked of plans with an IMU"
        self._flight: Final = sequence.flight
        self._end_ns: Final = self._flight.start_ns + self._flight.duration_ns
        self._half_ns: Final = round(0.5 * NS_PER_S / plan.imu.rate_hz)
        self._sensor: Final = ImuSensor(1, _parameters(plan), seed=plan.seed)
        first_ns = max(sequence.frames[0].t_ns - self._half_ns, self._flight.start_ns)
        self._sensor.begin(truth_row(self._flight.motion([first_ns]), 0, first_ns))

    def write(self, times_ns: list[int], writer: EurocWriter) -> list[_Biases]:
        """Write the samples of n instants, and return the biases of gyroscope and accelerometer
        in each.
        """
        ends_ns = [min(t_ns + self._half_ns, self._end_ns) for t_ns in times_ns]
        truth = self._flight.motion(ends_ns)
        biases: list[_Biases] = []
        for row, (t_ns, end_ns) in enumerate(zip(times_ns, ends_ns, strict=True)):
            biases.append((self._sensor.gyro_bias_radps[0], self._sensor.accel_bias_mps2[0]))
            reading = self._sensor.sample(truth_row(truth, row, end_ns))
            assert reading is not None, "it measures at every call"
            writer.add_imu(t_ns, reading.w_radps[0], reading.f_mps2[0])
        return biases


def _of_imu(truth: TrueState, T_body_imu: Transform) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the position, attitude and velocity (n, ...) of the IMU in the world."""
    q = truth.q_world_body
    arm = np.broadcast_to(T_body_imu.p_m, truth.p_world_m.shape)
    turn = np.broadcast_to(T_body_imu.q_xyzw, q.shape)
    v_mps = truth.v_world_mps + q_rotate(q, cross(truth.w_body_radps, arm))
    return truth.p_world_m + q_rotate(q, arm), q_mul(q, turn), v_mps


def _imu_place(plan: DatasetPlan) -> Transform:
    return Transform.identity() if plan.imu is None else plan.imu.T_body_imu.transform()


def _parameters(plan: DatasetPlan) -> ImuParameters:
    assert plan.imu is not None, "asked of plans with an IMU"
    place = plan.imu.T_body_imu.transform()
    x, y, z = place.p_m.tolist()
    qx, qy, qz, qw = place.q_xyzw.tolist()
    mounting = SensorMount((x, y, z), (qx, qy, qz, qw))
    return replace(without_limits(IMU_PRESETS[plan.imu.preset]), rate_hz=None, mounting=mounting)


def _expected(plan: DatasetPlan) -> EurocImu:
    """Return the noise that an estimator should expect of the IMU, that of the worst axis."""
    if plan.imu is None:
        return EurocImu(_TRUTH_HZ)
    part = IMU_PRESETS[plan.imu.preset]
    gyro, accel = (float(np.max(noise.white)) for noise in (part.gyro, part.accel))
    return EurocImu(plan.imu.rate_hz, gyro, part.gyro.walk, accel, part.accel.walk)


def _pose(T: Transform) -> dict[str, list[float]]:
    return {"p_m": T.p_m.tolist(), "q_xyzw": T.q_xyzw.tolist()}
