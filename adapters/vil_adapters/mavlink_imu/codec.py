"""MAVLink's inertial messages (FRD, several units) to and from FLU, rad/s and m/s²; pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np

from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.geometry import GRAVITY_MPS2, flu_to_frd
from vil_bridge.core.types import FloatArray
from vil_bridge.core.wire import mavlink

__all__ = ["KIND_OF", "MESSAGE_OF", "ImuKind", "InertialMessage", "from_message", "to_message"]

ImuKind = Literal["highres", "scaled", "raw"]
InertialMessage = mavlink.HighresImu | mavlink.ScaledImu | mavlink.RawImu

MESSAGE_OF: Final[Mapping[ImuKind, type[InertialMessage]]] = {
    "highres": mavlink.HighresImu,
    "scaled": mavlink.ScaledImu,
    "raw": mavlink.RawImu,
}
"""Best first."""

KIND_OF: Final[Mapping[type, ImuKind]] = {message: kind for kind, message in MESSAGE_OF.items()}

_MG_PER_MPS2: Final = 1000.0 / GRAVITY_MPS2
_MRADPS_PER_RADPS: Final = 1000.0
_ACC_AND_GYRO: Final = 0x3F
_MAX_RATE_RADPS: Final = 100.0
_MAX_ACC_MPS2: Final = 2000.0


def from_message(message: InertialMessage) -> tuple[int, FloatArray, FloatArray]:
    """Sensor's own time in nanoseconds since its boot, angular rate (3,) rad/s and specific force (3,) m/s², FLU.

    RAW_IMU is read in the units that ArduPilot gives it, which are those of SCALED_IMU.

    Raises:
        ProtocolError: a value is not finite or impossible, or the message says that it lacks one.
    """
    values = np.array(message[1:7], dtype=np.float64)
    if isinstance(message, mavlink.HighresImu):
        if message.fields_updated & _ACC_AND_GYRO != _ACC_AND_GYRO:
            raise ProtocolError(f"HIGHRES_IMU without acceleration or rate (fields {message.fields_updated:#x})")
        # Written so that NaN fails too; no gyroscope or accelerometer made reaches these limits.
        if not ((np.abs(values[:3]) < _MAX_ACC_MPS2).all() and (np.abs(values[3:]) < _MAX_RATE_RADPS).all()):
            raise ProtocolError("HIGHRES_IMU with values beyond any sensor")
        return message.time_usec * 1000, flu_to_frd(values[3:]), flu_to_frd(values[:3])
    w_radps, f_mps2 = values[3:] / _MRADPS_PER_RADPS, values[:3] / _MG_PER_MPS2
    t_ns = message.time_boot_ms * NS_PER_MS if isinstance(message, mavlink.ScaledImu) else message.time_usec * 1000
    return t_ns, flu_to_frd(w_radps), flu_to_frd(f_mps2)


def to_message(kind: ImuKind, t_boot_ns: int, w_radps: FloatArray, f_mps2: FloatArray) -> InertialMessage:
    """What an autopilot sends for FLU values; integers saturate.

    Args:
        kind: message to build.
        t_boot_ns: sensor's own time.
        w_radps: shape (3,), FLU.
        f_mps2: shape (3,), FLU.
    """
    w_frd, f_frd = flu_to_frd(w_radps), flu_to_frd(f_mps2)
    if kind == "highres":
        return mavlink.HighresImu(t_boot_ns // 1000, *f_frd.tolist(), *w_frd.tolist())
    scaled = np.concatenate((f_frd * _MG_PER_MPS2, w_frd * _MRADPS_PER_RADPS))
    counts = np.clip(np.rint(scaled), -32768, 32767).astype(int).tolist()
    if kind == "scaled":
        return mavlink.ScaledImu(t_boot_ns // NS_PER_MS, *counts)
    return mavlink.RawImu(t_boot_ns // 1000, *counts)
