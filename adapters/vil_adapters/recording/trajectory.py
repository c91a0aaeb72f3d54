"""Trajectories of one body.

EuRoC/ASL folders and csv files (also TUM-VI, BROAD), and TUM text files.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from vil_adapters.recording.model import Bodies, IntArray, MotionFile
from vil_adapters.recording.text import increasing_ns, read_lines, table, wrong
from vil_bridge.core.geometry import q_normalize, yup_to_zup
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.euroc import IMU_VALUES, POSE_VALUES, find_imu, find_mocap, read_rows

logger = logging.getLogger(__name__)

_NORM_TOLERANCE: Final = 0.01


def read_euroc(path: Path, *, subject: str, up_axis: str) -> MotionFile:
    """Read a folder that holds ``mav0``, or one data.csv (may be gzipped).

    Time in ns, position, quaternion w x y z.

    The 17 columns of a ground-truth state are read as well: the first 8 are these. A folder's
    inertial samples (``mav0/imu0``) are read where there are some.

    Raises:
        ConfigError: a file is absent or malformed (``file:line``).
    """
    file = find_mocap(path) if path.is_dir() else path
    t_ns, poses = read_rows(file, POSE_VALUES)
    recording = _one_body(
        str(path), "euroc", t_ns, poses[:, [0, 1, 2, 4, 5, 6, 3]], subject, up_axis
    )
    samples = find_imu(path) if path.is_dir() else None
    if samples is None:
        return recording
    t_imu_ns, values = read_rows(samples, IMU_VALUES)
    w_radps = values[:, :3]
    f_mps2 = values[:, 3:]
    if up_axis == "y":  # the body's axes are renamed with the world's
        w_radps, f_mps2 = (yup_to_zup(vectors, np.zeros(4))[0] for vectors in (w_radps, f_mps2))
    return replace(recording, imu=ImuWindow(t_imu_ns, w_radps, f_mps2))


def read_tum(path: Path, *, subject: str, up_axis: str) -> MotionFile:
    """Read ``t x y z qx qy qz qw`` lines: seconds, metres, the scalar last.

    Further columns are passed over, rows that repeat a time are left out.

    Raises:
        ConfigError: the file is malformed (``file:line``).
    """
    # Comments become empty lines, so that numbers of lines stay true.
    lines = ["" if line.lstrip().startswith("#") else line for line in read_lines(path)]
    values = table(path, lines, 1, list(range(8)), None)
    numbers = [number for number, line in enumerate(lines, 1) if line.strip()]
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        raise wrong(path, numbers[int(np.argmin(finite))], "holds a value that is not finite")
    good = np.abs(np.linalg.norm(values[:, 4:], axis=1) - 1.0) < _NORM_TOLERANCE
    if not good.all():
        raise wrong(path, numbers[int(np.argmin(good))], "the quaternion has not unit length")
    fresh = np.diff(values[:, 0], prepend=np.nan) != 0.0
    if not fresh.all():
        logger.warning("%s: left out %d rows that repeat a time", path, np.count_nonzero(~fresh))
    t_ns = increasing_ns(path, values[fresh, 0], np.array(numbers)[fresh].tolist())
    return _one_body(str(path), "tum", t_ns, values[fresh, 1:], subject, up_axis)


def _one_body(
    title: str, form: str, t_ns: IntArray, poses: FloatArray, subject: str, up_axis: str
) -> MotionFile:
    p_m = poses[:, :3]
    q_xyzw = q_normalize(poses[:, 3:])
    if up_axis == "y":
        p_m, q_xyzw = yup_to_zup(p_m, q_xyzw)
    bodies = Bodies(p_m[:, None], q_xyzw[:, None], np.ones((len(t_ns), 1), dtype=np.bool_))
    return MotionFile(title, form, t_ns, (subject,), bodies)
