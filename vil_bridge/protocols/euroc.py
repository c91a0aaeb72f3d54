"""EuRoC's layout of a session (also TUM-VI, BROAD), which visual-inertial programs read.

Its files, read and written.

Folder ``mav0`` holds ``data.csv`` and ``sensor.yaml`` in each of ``cam0`` (and pictures,
``data/<t_ns>.png``), ``imu0`` and ``state_groundtruth_estimate0``; a tracking system's own poses
stand in ``vicon0`` or ``mocap0``. Tables that are read may be gzipped. Burri et al., "The EuRoC
micro aerial vehicle datasets", IJRR 2016. All times are integer nanoseconds of one clock; the body
frame is the IMU's.
"""

from __future__ import annotations

import collections
import gzip
import logging
import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import numpy as np
import numpy.typing as npt
import yaml

from vil_bridge.core.camera_model import CameraModel, LensModel
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import FloatArray, ImageArray
from vil_bridge.protocols import opencv as cv2

logger = logging.getLogger(__name__)

ROOT: Final = "mav0"
TABLE: Final = "data.csv"
IMU: Final = "imu0"
_TRUTH: Final = "state_groundtruth_estimate0"
_POSE_FOLDERS: Final = ("mocap0", "vicon0", _TRUTH)
POSE_VALUES: Final = 7
IMU_VALUES: Final = 6
STATE_VALUES: Final = 16
_NORM_TOLERANCE: Final = 0.01
_INT64_MAX: Final = 2**63 - 1
FILE_COLUMNS: Final = "#timestamp [ns],filename"
"""Of a table of files: a camera's pictures."""
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
_SHEET: Final = "sensor.yaml"
_OPENCV_MARKS: Final = re.compile(r"\A%YAML:.*|!!opencv-matrix")


def camera_folder(number: int) -> str:
    """Return the folder name of a camera, counted from 0."""
    return f"cam{number}"


@dataclass(frozen=True, slots=True)
class EurocCamera:
    """A camera of the session.

    Attributes:
        model: size, intrinsics and lens of the pictures.
        T_imu_camera: place and attitude of its optical axes (x right, y down, z forward) in the
            IMU's axes.
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
    """Writer of pictures, inertial samples and ground truth as they come; a context manager.

    Times of each stream strictly increase: a row that does not follow the one before is left out
    and counted in ``refused`` by the stream's name. Rows stand on the disk when the call returns,
    and a picture before its row.
    """

    def __init__(self, folder: Path, cameras: Mapping[str, EurocCamera], imu: EurocImu) -> None:
        """Begin a session.

        Args:
            folder: gets the ``mav0``; made where it is missing.
            cameras: by folder name, ``cam0`` and on.
            imu: the one whose axes are the body's.

        Raises:
            FileExistsError: the folder holds a session already.
            ValueError: the format cannot describe the lens.
        """
        self.refused: collections.Counter[str] = collections.Counter()
        self.rows: collections.Counter[str] = collections.Counter()
        self._root = folder / ROOT
        sheets = {name: _camera_sheet(camera) for name, camera in cameras.items()}
        sheets[IMU] = _imu_sheet(imu)
        sheets[_TRUTH] = {
            "sensor_type": "visual-inertial",
            "comment": "tracked pose of the IMU",
            **_T_BS(_HERE),
        }
        self._root.mkdir(parents=True)
        columns = dict.fromkeys(cameras, FILE_COLUMNS) | {IMU: _IMU_COLUMNS, _TRUTH: _TRUTH_COLUMNS}
        self._tables = {
            name: self._open(name, sheets[name], head) for name, head in columns.items()
        }
        self._sizes = {
            name: (camera.model.height_px, camera.model.width_px)
            for name, camera in cameras.items()
        }
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
            raise ValueError(
                f"{camera} takes uint8 {self._sizes[camera]}, got {gray.dtype} {gray.shape}"
            )
        if not self._follows(camera, t_ns):
            return False
        path = self._root / camera / "data" / f"{t_ns}.png"
        if not cv2.imwrite(str(path), gray, (cv2.IMWRITE_PNG_COMPRESSION, 1)):
            raise OSError(f"cannot write {path}")
        self._row(camera, t_ns, [path.name])
        return True

    def add_imu(self, t_ns: int, w_radps: FloatArray, f_mps2: FloatArray) -> bool:
        """Write a sample in the IMU's axes (x forward, y left, z up), shapes (3,).

        False when it was refused.
        """
        if not self._follows(IMU, t_ns):
            return False
        self._row(IMU, t_ns, map(repr, [*w_radps.tolist(), *f_mps2.tolist()]))
        return True

    def add_truth(
        self,
        t_ns: int,
        T_world_imu: Transform,
        v_world_mps: FloatArray,
        gyro_bias_radps: FloatArray | None = None,
        accel_bias_mps2: FloatArray | None = None,
    ) -> bool:
        """Write a tracked state; False when it was refused. An unknown bias is written as zero."""
        if not self._follows(_TRUTH, t_ns):
            return False
        x, y, z, w = T_world_imu.q_xyzw.tolist()
        biases = (
            np.zeros(3) if bias is None else bias for bias in (gyro_bias_radps, accel_bias_mps2)
        )
        values = [
            *T_world_imu.p_m.tolist(),
            w,
            x,
            y,
            z,
            *v_world_mps.tolist(),
            *np.concatenate((*biases,)).tolist(),
        ]
        self._row(_TRUTH, t_ns, map(repr, values))
        return True

    def _open(self, name: str, sheet: dict[str, object], columns: str) -> IO[str]:
        folder = self._root / name
        folder.mkdir()
        (folder / _SHEET).write_text(
            yaml.safe_dump(sheet, sort_keys=False, default_flow_style=None)
        )
        table = (folder / TABLE).open("w", buffering=1, encoding="ascii", newline="\n")
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
    """Return the key that turns sensor coordinates into body coordinates."""
    return {"T_BS": {"cols": 4, "rows": 4, "data": T_imu_sensor.matrix().ravel().tolist()}}


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
    """Return the distortion as the layout writes it: radial-tangential has no third radial term.

    Raises:
        ValueError: the lens has one.
    """
    lens = model.distortion
    name = "radial-tangential"
    terms = [0.0, 0.0, 0.0, 0.0]
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


# --- reading -----------------------------------------------------------------------------------


def find_mocap(folder: Path) -> Path:
    """Return the table of a recording's poses: of a tracking system, else of an estimate.

    Raises:
        ConfigError: there is none. Positions without attitudes (``leica0``) do not serve.
    """
    try:
        return _required([folder / ROOT / name for name in _POSE_FOLDERS])
    except ConfigError as exc:
        if (folder / ROOT / "leica0").is_dir():
            raise ConfigError(
                f"{exc}. leica0 has positions only; a body's attitude is needed too"
            ) from None
        raise


def require_imu(folder: Path) -> Path:
    """Return the table of a recording's inertial samples.

    Raises:
        ConfigError: there is none.
    """
    return _required([folder / ROOT / IMU])


def find_imu(folder: Path) -> Path | None:
    """Return the table of a recording's inertial samples, None when it has none."""
    return next((file for file in _tables([folder / ROOT / IMU]) if file.is_file()), None)


def read_placement(table: Path) -> Transform:
    """Return T_body_sensor, the ``T_BS`` of the ``sensor.yaml`` next to a table.

    Identity without that file or key.

    OpenCV's form of YAML (``%YAML:1.0``, ``!!opencv-matrix``) is accepted.

    Raises:
        ConfigError: the file cannot be read, or ``T_BS`` is not a rigid transform.
    """
    path = table.with_name(_SHEET)
    if not path.is_file():
        return _HERE
    try:
        sheet = yaml.safe_load(_OPENCV_MARKS.sub("", path.read_text(encoding="utf-8-sig")))
        T_BS = sheet.get("T_BS") if isinstance(sheet, dict) else None
        if T_BS is None:
            return _HERE
        matrix = np.array(T_BS["data"], dtype=np.float64).reshape(4, 4)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError) as exc:
        raise ConfigError(
            f"{path}: T_BS cannot be read: {exc}. Give 16 numbers, row by row, under data"
        ) from exc
    R = matrix[:3, :3]
    rigid = np.allclose(R @ R.T, np.eye(3), atol=_NORM_TOLERANCE) and np.linalg.det(R) > 0.0
    if not (rigid and np.array_equal(matrix[3], (0.0, 0.0, 0.0, 1.0))):
        raise ConfigError(
            f"{path}: T_BS is not a rigid transform. Give a rotation, a position and the "
            "row 0, 0, 0, 1"
        )
    return Transform(matrix[:3, 3], q_from_matrix(R))


def _tables(folders: Sequence[Path]) -> list[Path]:
    return [folder / name for folder in folders for name in (TABLE, f"{TABLE}.gz")]


def _required(folders: Sequence[Path]) -> Path:
    candidates = _tables(folders)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise ConfigError(f"no recording: none of {', '.join(map(str, candidates))} exists")


def read_rows(path: Path, values: int) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return times (n,) and values (n, values) of a table, n >= 2.

    Rows that repeat a time are left out.

    Raises:
        ConfigError: it cannot be read, or a line is malformed (``file:line``).
    """
    times = array("q")
    numbers = array("d")
    repeats = 0
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig") as lines
        ):
            for number, line in enumerate(lines, start=1):
                if line.isspace() or line.startswith("#"):
                    continue
                t_ns, row = _parse(line, values, path, number)
                if times and t_ns == times[-1]:
                    repeats += 1
                    continue
                if times and t_ns < times[-1]:
                    raise ConfigError(f"{path}:{number}: time {t_ns} does not follow {times[-1]}")
                times.append(t_ns)
                numbers.extend(row)
    except (OSError, EOFError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: cannot be read: {exc}") from exc
    if repeats:
        logger.warning("%s: left out %d rows that repeat a time", path, repeats)
    if len(times) < 2:
        raise ConfigError(f"{path}: holds {len(times)} rows, a recording needs at least 2")
    return np.array(times, dtype=np.int64), np.array(numbers).reshape(-1, values)


def _parse(line: str, values: int, path: Path, number: int) -> tuple[int, list[float]]:
    try:
        return _row(line, values)
    except ValueError as exc:
        raise ConfigError(f"{path}:{number}: {exc}") from None


def _row(line: str, values: int) -> tuple[int, list[float]]:
    """Return the time and the values of a line.

    Raises:
        ValueError: it is malformed.
    """
    time, *fields = line.strip().split(",")
    time = time.rstrip()
    if not (time.isascii() and time.isdigit()):
        hint = " (a spreadsheet has destroyed its digits)" if "E" in time.upper() else ""
        raise ValueError(f"time {time!r} is not a whole number of nanoseconds{hint}")
    # Twenty digits never fit; asking for the length first keeps int() from chewing on a huge
    # number.
    if len(time) > 19 or int(time) > _INT64_MAX:
        raise ValueError("time does not fit 64 bits")
    if values == POSE_VALUES and len(fields) == STATE_VALUES:
        fields = fields[:values]
    if len(fields) != values:
        also = f" or {STATE_VALUES + 1}" if values == POSE_VALUES else ""
        raise ValueError(f"{len(fields) + 1} columns, expected {values + 1}{also}")
    row = list(map(float, fields))
    if not all(map(math.isfinite, row)):
        raise ValueError("holds a value that is not finite")
    if values == POSE_VALUES and abs(math.hypot(*row[3:]) - 1.0) > _NORM_TOLERANCE:
        raise ValueError("the quaternion has not unit length")
    return int(time), row
