"""Files of single markers.

C3D (through the package `c3d`, extra `c3d`), TRC and the csv of Vicon Nexus.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np

from vil_adapters.recording.model import Bodies, IntArray, MarkerTrack, MotionFile
from vil_adapters.recording.text import LIMIT_BYTES, increasing_ns, read_lines, table, wrong
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import yup_to_zup
from vil_bridge.core.installation import install_command
from vil_bridge.core.types import BoolArray, FloatArray

METRES: Final = {
    "m": 1.0,
    "meters": 1.0,
    "cm": 0.01,
    "centimeters": 0.01,
    "mm": 0.001,
    "millimeters": 0.001,
}
"""Units as the formats write them, lower case."""

_MOST_MARKERS: Final = 2000
_RATES_HZ: Final = (0.01, 1e5)


def slashed(label: str) -> str:
    """Convert ``subject:marker`` to the bridge's form, ``subject/marker``."""
    return label.strip().replace(":", "/", 1)


def markers_to_room(p: FloatArray, unit_m: float, up_axis: str) -> FloatArray:
    """Convert positions (n, k, 3) to metres, z up."""
    p_m = p * unit_m
    if up_axis == "y":
        p_m, _ = yup_to_zup(p_m, np.zeros((1, 4)))
    return p_m


def _recording(
    path: Path, form: str, t_ns: IntArray, labels: list[str], p_m: FloatArray, tracked: BoolArray
) -> MotionFile:
    track = MarkerTrack(tuple(map(slashed, labels)), p_m, tracked)
    return MotionFile(str(path), form, t_ns, (), Bodies.none(len(t_ns)), markers=track)


def _unit_m(path: Path, line: int | None, unit: str, configured: float | None) -> float:
    unit_m = METRES.get(unit.strip().lower()) if configured is None else configured
    if unit_m is None:
        place = f"{path}:{line}" if line else str(path)
        raise ConfigError(
            f"{place}: the unit of length {unit.strip()!r} is unknown. Set unit_m, metres per unit"
        )
    return unit_m


# --- C3D -----------------------------------------------------------------------------------------


def read_c3d(path: Path, *, unit_m: float | None, up_axis: str) -> MotionFile:
    """Read the points of a C3D file; units and up axis are read from it where it has them.

    Raises:
        ConfigError: the file cannot be read, or the package is not installed.
    """
    try:
        import c3d
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"reading C3D needs the package c3d. Install it with: {install_command('c3d')}"
        ) from exc
    try:
        with warnings.catch_warnings(), path.open("rb") as stream:
            warnings.simplefilter("ignore")
            if path.stat().st_size > LIMIT_BYTES:
                raise ValueError(f"it is larger than {LIMIT_BYTES >> 20} MiB")
            return _read_c3d(path, c3d.Reader(stream), unit_m, up_axis)
    except ConfigError:
        raise
    # That package believes what a file says: whatever it raises, the file is wrong.
    except Exception as exc:
        raise ConfigError(f"{path}: cannot be read as C3D: {exc or type(exc).__name__}") from exc


def _read_c3d(path: Path, reader: Any, unit_m: float | None, up_axis: str) -> MotionFile:
    rate_hz = float(reader.point_rate)
    if not (_RATES_HZ[0] < rate_hz < _RATES_HZ[1]):
        raise ConfigError(f"{path}: a frame rate of {rate_hz} Hz")
    labels = _c3d_labels(path, reader)[: reader.point_used]
    frames = [points for _, points, _ in reader.read_frames(copy=True)]
    if not frames or len(labels) != frames[0].shape[0]:
        raise ConfigError(f"{path}: {len(frames)} frames, {len(labels)} labels: nothing to play")
    points = np.asarray(frames, dtype=np.float64)
    tracked = (points[:, :, 3] >= 0.0) & np.isfinite(points[:, :, :3]).all(axis=2)
    scale_m = _unit_m(path, None, _parameter(reader, "POINT:UNITS"), unit_m)
    if up_axis == "auto":
        up_axis = _c3d_up_axis(reader)
    p_m = markers_to_room(np.nan_to_num(points[:, :, :3]), scale_m, up_axis)
    t_ns = np.rint(np.arange(len(points)) * (NS_PER_S / rate_hz)).astype(np.int64)
    return _recording(path, "c3d", t_ns, labels, p_m, tracked)


def _c3d_labels(path: Path, reader: Any) -> list[str]:
    """Return the names of the points: at most 255 by the format, in at most two dimensions."""
    parameter = reader.get("POINT:LABELS")
    if parameter is None or len(parameter.dimensions) > 2:
        raise ConfigError(f"{path}: POINT:LABELS is not a list of names: nothing to play")
    return [str(label) for label in parameter.string_array]


def _parameter(reader: Any, name: str) -> str:
    parameter = reader.get(name)
    return "" if parameter is None else str(parameter.string_value).strip()


def _c3d_up_axis(reader: Any) -> str:
    """Return the axis that points up on the screen; z where it is missing or not y."""
    return "y" if _parameter(reader, "POINT:Y_SCREEN").upper() == "+Y" else "z"


# --- text ----------------------------------------------------------------------------------------


def read_trc(path: Path, *, unit_m: float | None, up_axis: str) -> MotionFile:
    """Read a TRC file (tabs or commas).

    It contains its units, not its up axis (y unless configured).

    Raises:
        ConfigError: the file is malformed (``file:line``).
    """
    lines = read_lines(path)
    if len(lines) < 6 or not lines[0].startswith("PathFileType"):
        raise wrong(path, 1, "is not a TRC file: it does not begin with PathFileType")
    delimiter = "\t" if "\t" in lines[0] else ","
    keys = _cells(lines[1], delimiter)
    values = _cells(lines[2], delimiter)
    unit = dict(zip(keys, values, strict=False)).get("Units", "")
    labels = [label for label in _cells(lines[3], delimiter)[2:] if label]
    start = 6 if not lines[5].replace(delimiter, "").strip() else 5
    cells = _marker_cells(path, lines, start, labels, 2, delimiter)
    numbers = [
        n for n, line in enumerate(lines[start:], start + 1) if line.replace(delimiter, "").strip()
    ]
    t_ns = increasing_ns(path, cells[:, 1], numbers)
    scale_m = _unit_m(path, 3, unit, unit_m)
    if up_axis == "auto":
        up_axis = "y"
    return _text_markers(path, "trc", t_ns, labels, cells[:, 2:], scale_m, up_axis)


def read_nexus_csv(path: Path, *, unit_m: float | None, up_axis: str) -> MotionFile:
    """Read the block ``Trajectories`` of a csv that Vicon Nexus exported (z up unless configured).

    Raises:
        ConfigError: the file is malformed (``file:line``).
    """
    lines = read_lines(path)
    if len(lines) < 6 or not lines[0].startswith("Trajectories"):
        raise wrong(path, 1, "is not a trajectory export: it does not begin with Trajectories")
    try:
        rate_hz = float(_cells(lines[1], ",")[0])
    except ValueError:
        rate_hz = 0.0
    if not _RATES_HZ[0] < rate_hz < _RATES_HZ[1]:
        raise wrong(path, 2, "expected the frame rate, hertz")
    labels = [label for label in _cells(lines[2], ",")[2:] if label]
    unit = next((cell for cell in _cells(lines[4], ",")[2:] if cell), "")
    # Another block, such as that of the devices, begins after an empty line.
    end = next(
        (i for i, line in enumerate(lines[5:], 5) if not line.replace(",", "").strip()), len(lines)
    )
    cells = _marker_cells(path, lines[:end], 5, labels, 2, ",")
    t_ns = increasing_ns(path, (cells[:, 0] - cells[0, 0]) / rate_hz, range(6, 6 + len(cells)))
    scale_m = _unit_m(path, 5, unit, unit_m)
    if up_axis == "auto":
        up_axis = "z"
    return _text_markers(path, "nexus-csv", t_ns, labels, cells[:, 2:], scale_m, up_axis)


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for cell in line.rstrip("\r").split(delimiter)]


def _marker_cells(
    path: Path, lines: list[str], start: int, labels: list[str], first: int, delimiter: str
) -> FloatArray:
    """Return frame, time or sub-frame, and three numbers of each marker, by row."""
    if not 0 < len(labels) <= _MOST_MARKERS:
        raise wrong(path, start - 1, f"{len(labels)} markers are named")
    return table(path, lines[start:], start + 1, list(range(first + 3 * len(labels))), delimiter)


def _text_markers(
    path: Path,
    form: str,
    t_ns: IntArray,
    labels: list[str],
    cells: FloatArray,
    unit_m: float,
    up_axis: str,
) -> MotionFile:
    points = cells.reshape(len(cells), -1, 3)
    tracked: BoolArray = np.all(np.isfinite(points), axis=2)
    p_m = markers_to_room(np.where(tracked[:, :, None], points, 0.0), unit_m, up_axis)
    return _recording(path, form, t_ns, labels, p_m, tracked)
