"""Readers of recordings by format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from vil_adapters.recording.bvh import read_bvh
from vil_adapters.recording.marker_files import read_c3d, read_nexus_csv, read_trc
from vil_adapters.recording.model import MotionFile
from vil_adapters.recording.motive_csv import read_motive_csv
from vil_adapters.recording.trajectory import read_euroc, read_tum
from vil_bridge.core.errors import ConfigError

_FARTHEST_M: Final = 1e7

_Reader = Callable[[Path, str, float | None, str], MotionFile]


def _metres(read: Callable[..., MotionFile]) -> _Reader:
    """Return a reader of one body in metres, z up unless configured."""

    def reader(path: Path, subject: str, unit_m: float | None, up_axis: str) -> MotionFile:
        if unit_m not in (None, 1.0):
            raise ConfigError(f"{path}: this format is in metres. Remove unit_m")
        if up_axis == "auto":
            up_axis = "z"
        return read(path, subject=subject, up_axis=up_axis)

    return reader


def _bvh(path: Path, subject: str, unit_m: float | None, up_axis: str) -> MotionFile:
    if up_axis == "auto":
        up_axis = "y"
    return read_bvh(path, subject=subject, unit_m=unit_m, up_axis=up_axis)


def _named(read: Callable[..., MotionFile]) -> _Reader:
    """Return a reader of a format that names its subjects."""
    return lambda path, _subject, unit_m, up_axis: read(path, unit_m=unit_m, up_axis=up_axis)


FORMATS: Final[Mapping[str, _Reader]] = {
    "euroc": _metres(read_euroc),
    "tum": _metres(read_tum),
    "bvh": _bvh,
    "c3d": _named(read_c3d),
    "motive-csv": _named(read_motive_csv),
    "trc": _named(read_trc),
    "nexus-csv": _named(read_nexus_csv),
}


def open_recording(
    path: Path | str,
    form: str = "auto",
    *,
    subject: str | None = None,
    unit_m: float | None = None,
    up_axis: str = "auto",
) -> MotionFile:
    """Read a recording.

    Args:
        path: a file, or a folder that holds ``mav0``.
        form: one of :data:`FORMATS`; auto = found by name and first line.
        subject: name of the body or skeleton in formats that hold one without a name; None = the
            file's.
        unit_m: metres per unit of length; None = as in the file.
        up_axis: ``y``, ``z``, or auto = as in the file, else as usual for the format.

    Raises:
        ConfigError: absent, malformed (``file:line: problem``), or of no known format.
    """
    path = Path(path)
    if not path.exists():
        raise ConfigError(f"{path}: no such recording")
    if form == "auto":
        form = _recognise(path)
    name = subject or path.name.partition(".")[0]
    with np.errstate(over="ignore", invalid="ignore"):  # judged below
        recording = FORMATS[form](path, name, unit_m, up_axis)
    tracks = [recording.bodies, *(track.bones for track in recording.skeletons), recording.markers]
    if not all(
        np.abs(track.p_m).max(initial=0.0) < _FARTHEST_M for track in tracks if track is not None
    ):
        raise ConfigError(
            f"{path}: positions beyond {_FARTHEST_M:.0g} m. Check its numbers and unit_m"
        )
    return recording


def _recognise(path: Path) -> str:
    if path.is_dir():
        return "euroc"
    by_suffix = {
        ".bvh": "bvh",
        ".c3d": "c3d",
        ".trc": "trc",
        ".txt": "tum",
        ".tum": "tum",
        ".gz": "euroc",
    }
    suffix = path.suffix.lower()
    if suffix == ".csv":
        with path.open("rb") as stream:
            start = stream.read(64).decode("utf-8-sig", errors="replace")
        if start.startswith("Format Version"):
            return "motive-csv"
        if start.startswith("Traj"):
            return "nexus-csv"
        return "euroc"
    if suffix not in by_suffix:
        raise ConfigError(f"{path}: unknown format. Set format to one of {', '.join(FORMATS)}")
    return by_suffix[suffix]
