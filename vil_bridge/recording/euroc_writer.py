"""A session as an EuRoC/ASL folder, the layout that visual-inertial programs read.

``data.csv`` and ``sensor.yaml`` in each of ``mav0/cam0`` (and pictures, ``data/<t_ns>.png``), ``mav0/imu0`` and
``mav0/state_groundtruth_estimate0``: Burri et al., "The EuRoC micro aerial vehicle datasets", IJRR 2016. All times
are integer nanoseconds of one clock; the body frame is the IMU's.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import cv2
import numpy as np
import yaml

from vil_bridge.core.camera_model import CameraModel, LensModel
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, ImageArray

__all__ = ["EurocCamera", "EurocImu", "EurocWriter"]

_IMU: Final = "imu0"
_TRUTH: Final = "state_groundtruth_estimate0"
_CAMERA_COLUMNS: Final = "#timestamp [ns],filename"
_IMU_COLUMNS: Final = ",".join(
    ["#timestamp [ns]"]
    + [f"w_RS_S_{axis} [rad s^-1]" for axis in "xyz"]
    + [f"a_RS_S_{axis} [m s^-2]" for axis in "xyz"]
)
_TRUTH_COLUMNS: Final = ",".join(
    ["#timestamp"]
    + [f" p_RS_R_{axis} [m]" for axis in "xyz"]
    + [f" q_RS_{axis} []" for axis in "wxyz"]
    + [f" v_RS_R_{axis} [m s^-1]" for axis in "xyz"]
    + [f" b_w_RS_S_{axis} [rad s^-1]" for axis in "xyz"]
    + [f" b_a_RS_S_{axis} [m s^-2]" for axis in "xyz"]
)
_FAST_PNG: Final = (cv2.IMWRITE_PNG_COMPRESSION, 1)


@dataclass(frozen=True, slots=True)
class EurocCamera:
    """A camera of the session.

    Attributes:
        model: size, intrinsics and lens of the pictures.
        T_imu_camera: place and attitude of its optical axes (x right, y down, z forward) in the IMU's axes.
        rate_hz: nominal.
    """

    model: CameraModel
    T_imu_camera: Transform
    rate_hz: float


@dataclass(frozen=True, slots=True)
class EurocImu:
    """The IMU of the session, with the continuous-time noise that an estimator should expect.

    Attributes:
        gyro_density, accel_density: white noise, rad/s/sqrt(Hz) and m/s^2/sqrt(Hz).
        gyro_walk, accel_walk: of the biases, rad/s^2/sqrt(Hz) and m/s^3/sqrt(Hz).
    """

    rate_hz: float
    gyro_density: float = 2e-3
    gyro_walk: float = 2e-5
    accel_density: float = 2e-2
    accel_walk: float = 3e-3


class EurocWriter:
    """Writes pictures, inertial samples and ground truth as they come; use it as a context manager.

    Times of each stream strictly increase: a row that does not follow the one before is left out and counted
    in ``refused`` by the stream's name. Rows stand on the disk when the call returns, and a picture before its row.
    """

    def __init__(self, folder: Path, cameras: Mapping[str, EurocCamera], imu: EurocImu) -> None:
        """Begin a session.

        Args:
            folder: gets the ``mav0``; made where it is missing.
            cameras: by folder name, ``cam0`` and on.
            imu: the one whose axes are the body's.

        Raises:
            FileExistsError: the folder holds a session already.
            ValueError: the format has no words for the lens.
        """
        self.refused: collections.Counter[str] = collections.Counter()
        self.rows: collections.Counter[str] = collections.Counter()
        self._root = folder / "mav0"
        sheets = {name: _camera_sheet(camera) for name, camera in cameras.items()}
        sheets[_IMU] = _imu_sheet(imu)
        sheets[_TRUTH] = {"sensor_type": "visual-inertial", "comment": "tracked pose of the IMU", **_T_BS(_HERE)}
        self._root.mkdir(parents=True)
        columns = dict.fromkeys(cameras, _CAMERA_COLUMNS) | {_IMU: _IMU_COLUMNS, _TRUTH: _TRUTH_COLUMNS}
        self._tables = {name: self._open(name, sheets[name], head) for name, head in columns.items()}
        self._sizes = {name: (camera.model.height_px, camera.model.width_px) for name, camera in cameras.items()}
        self._last_ns: dict[str, int] = {}
        for name in cameras:
            (self._root / name / "data").mkdir()

    def __enter__(self) -> EurocWriter:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the tables; may be called twice."""
        for table in self._tables.values():
            table.close()

    def add_image(self, camera: str, t_ns: int, gray: ImageArray) -> bool:
        """Write a picture that shows the instant ``t_ns``; False when it was refused.

        Args:
            camera: its folder name.
            t_ns: the instant it was rendered or compensated for.
            gray: uint8 (h, w), top row first.

        Raises:
            ValueError: the picture has another size than the camera.
            OSError: it cannot be written.
        """
        if gray.shape != self._sizes[camera] or gray.dtype != np.uint8:
            raise ValueError(f"{camera} takes uint8 {self._sizes[camera]}, got {gray.dtype} {gray.shape}")
        if not self._follows(camera, t_ns):
            return False
        path = self._root / camera / "data" / f"{t_ns}.png"
        if not cv2.imwrite(str(path), gray, _FAST_PNG):
            raise OSError(f"cannot write {path}")
        self._row(camera, t_ns, [path.name])
        return True

    def add_imu(self, t_ns: int, w_radps: FloatArray, f_mps2: FloatArray) -> bool:
        """Write a sample in the IMU's axes (x forward, y left, z up), shapes (3,); False when it was refused."""
        if not self._follows(_IMU, t_ns):
            return False
        self._row(_IMU, t_ns, map(repr, [*w_radps.tolist(), *f_mps2.tolist()]))
        return True

    def add_truth(
        self,
        t_ns: int,
        T_world_imu: Transform,
        v_world_mps: FloatArray,
        gyro_bias_radps: FloatArray | None = None,
        accel_bias_mps2: FloatArray | None = None,
    ) -> bool:
        """Write a tracked state; False when it was refused. A bias that nobody knows is written as zero."""
        if not self._follows(_TRUTH, t_ns):
            return False
        x, y, z, w = T_world_imu.q_xyzw.tolist()
        biases = (np.zeros(3) if bias is None else bias for bias in (gyro_bias_radps, accel_bias_mps2))
        values = [*T_world_imu.p_m.tolist(), w, x, y, z, *v_world_mps.tolist(), *np.concatenate((*biases,)).tolist()]
        self._row(_TRUTH, t_ns, map(repr, values))
        return True

    def _open(self, name: str, sheet: dict[str, object], columns: str) -> IO[str]:
        folder = self._root / name
        folder.mkdir()
        (folder / "sensor.yaml").write_text(yaml.safe_dump(sheet, sort_keys=False, default_flow_style=None))
        table = (folder / "data.csv").open("w", buffering=1, encoding="ascii", newline="\n")
        table.write(columns + "\n")
        return table

    def _follows(self, stream: str, t_ns: int) -> bool:
        if t_ns <= self._last_ns.get(stream, -1):
            self.refused[stream] += 1
            return False
        self._last_ns[stream] = t_ns
        return True

    def _row(self, stream: str, t_ns: int, values: Iterable[str]) -> None:
        self._tables[stream].write(",".join((str(t_ns), *values)) + "\n")
        self.rows[stream] += 1


_HERE: Final = Transform.identity()


def _T_BS(T_imu_sensor: Transform) -> dict[str, object]:  # noqa: N802 - the format's name
    """The key that turns sensor coordinates into body coordinates."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = T_imu_sensor.rotation(), T_imu_sensor.p_m
    return {"T_BS": {"cols": 4, "rows": 4, "data": matrix.ravel().tolist()}}


def _camera_sheet(camera: EurocCamera) -> dict[str, object]:
    model = camera.model
    return {
        "sensor_type": "camera",
        "comment": f"camera {model.name} of VIL Bridge",
        **_T_BS(camera.T_imu_camera),
        "rate_hz": camera.rate_hz,
        "resolution": [model.width_px, model.height_px],
        "camera_model": "pinhole",
        "intrinsics": list(model.intrinsics_px),
        **_lens(model),
    }


def _lens(model: CameraModel) -> dict[str, object]:
    """Distortion as the layout writes it: radial-tangential has no third radial term.

    Raises:
        ValueError: the lens has one.
    """
    lens = model.distortion
    name, terms = "radial-tangential", [0.0, 0.0, 0.0, 0.0]
    if lens is not None:
        terms = list(lens.coefficients[:4])
        if lens.model is LensModel.EQUIDISTANT:
            name = "equidistant"
        elif any(lens.coefficients[4:]):
            raise ValueError(f"camera {model.name}: EuRoC's layout has no third radial term (k3)")
    return {"distortion_model": name, "distortion_coefficients": terms}


def _imu_sheet(imu: EurocImu) -> dict[str, object]:
    return {
        "sensor_type": "imu",
        "comment": "inertial samples of the vehicle",
        **_T_BS(_HERE),
        "rate_hz": imu.rate_hz,
        "gyroscope_noise_density": imu.gyro_density,
        "gyroscope_random_walk": imu.gyro_walk,
        "accelerometer_noise_density": imu.accel_density,
        "accelerometer_random_walk": imu.accel_walk,
    }
