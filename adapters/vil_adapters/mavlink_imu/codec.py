"""MAVLink's inertial messages (FRD, several units) to and from FLU, rad/s and m/s².

Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np

from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.geometry import GRAVITY_MPS2, flu_to_frd, q_conj, q_normalize, q_rotate
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.mavlink import messages as mavlink

ImuKind = Literal["highres", "scaled", "raw", "attitude"]
InertialMessage = (
    mavlink.HighresImu | mavlink.ScaledImu | mavlink.MavlinkRawImu | mavlink.AttitudeQuaternion
)

MESSAGE_OF: Final[Mapping[ImuKind, type[InertialMessage]]] = {
    "highres": mavlink.HighresImu,
    "scaled": mavlink.ScaledImu,
    "raw": mavlink.MavlinkRawImu,
    "attitude": mavlink.AttitudeQuaternion,
}
"""Best first: the last has no acceleration."""

KIND_OF: Final[Mapping[type, ImuKind]] = {message: kind for kind, message in MESSAGE_OF.items()}

_MG_PER_MPS2: Final = 1000.0 / GRAVITY_MPS2
_MRADPS_PER_RADPS: Final = 1000.0
_ACC_AND_GYRO: Final = 0x3F
_MAX_RATE_RADPS: Final = 100.0
_MAX_ACC_MPS2: Final = 2000.0
_NORM: Final = (0.9, 1.1)
_REST_NED_MPS2: Final[FloatArray] = np.array([0.0, 0.0, -GRAVITY_MPS2])
_XYZW: Final = [1, 2, 3, 0]


def from_message(message: InertialMessage) -> tuple[int, FloatArray, FloatArray]:
    """Return the sensor's time in nanoseconds since its boot, rate (3,) rad/s and specific force
    (3,) m/s², FLU.

    RAW_IMU is read in the units of ArduPilot, which are those of SCALED_IMU. An attitude comes with
    rates alone: the force is the one that holds a body in that attitude against gravity, so that
    its integral has constant velocity.

    Raises:
        ProtocolError: a value is not finite or impossible, or the message says that it lacks one.
    """
    if isinstance(message, mavlink.AttitudeQuaternion):
        return _from_attitude(message)
    values = np.array(message[1:7], dtype=np.float64)
    if isinstance(message, mavlink.HighresImu):
        if message.fields_updated & _ACC_AND_GYRO != _ACC_AND_GYRO:
            raise ProtocolError(
                f"HIGHRES_IMU without acceleration or rate (fields {message.fields_updated:#x})"
            )
        # Written so that NaN fails too; no gyroscope or accelerometer made reaches these limits.
        if not (
            (np.abs(values[:3]) < _MAX_ACC_MPS2).all()
            and (np.abs(values[3:]) < _MAX_RATE_RADPS).all()
        ):
            raise ProtocolError("HIGHRES_IMU with values beyond any sensor")
        return message.time_usec * 1000, flu_to_frd(values[3:]), flu_to_frd(values[:3])
    w_radps = values[3:] / _MRADPS_PER_RADPS
    f_mps2 = values[:3] / _MG_PER_MPS2
    if isinstance(message, mavlink.ScaledImu):
        t_ns = message.time_boot_ms * NS_PER_MS
    else:
        t_ns = message.time_usec * 1000
    return t_ns, flu_to_frd(w_radps), flu_to_frd(f_mps2)


def _from_attitude(message: mavlink.AttitudeQuaternion) -> tuple[int, FloatArray, FloatArray]:
    q_ned_frd = np.array(message[1:5])[_XYZW]
    w_frd_radps = np.array(message[5:8])
    if not (
        (np.abs(w_frd_radps) < _MAX_RATE_RADPS).all()
        and _NORM[0] < np.linalg.norm(q_ned_frd) < _NORM[1]
    ):
        raise ProtocolError("ATTITUDE_QUATERNION with values that no vehicle has")
    f_frd_mps2 = q_rotate(q_conj(q_normalize(q_ned_frd)), _REST_NED_MPS2)
    return message.time_boot_ms * NS_PER_MS, flu_to_frd(w_frd_radps), flu_to_frd(f_frd_mps2)


def to_message(
    kind: ImuKind, t_boot_ns: int, w_radps: FloatArray, f_mps2: FloatArray
) -> InertialMessage:
    """Return the message of an autopilot for FLU values; integers saturate.

    Args:
        kind: message to build; an attitude is the one whose up is along the force, with any
            heading.
        t_boot_ns: sensor's own time.
        w_radps: shape (3,), FLU.
        f_mps2: shape (3,), FLU.
    """
    w_frd = flu_to_frd(w_radps)
    f_frd = flu_to_frd(f_mps2)
    if kind == "attitude":
        up_frd = f_frd / np.linalg.norm(f_frd)
        # The shortest turn that takes up in the body to up in NED, (0, 0, -1); half-angle form.
        x, y, z, w = q_normalize(np.array([-up_frd[1], up_frd[0], 0.0, 1.0 - up_frd[2]])).tolist()
        return mavlink.AttitudeQuaternion(t_boot_ns // NS_PER_MS, w, x, y, z, *w_frd.tolist())
    if kind == "highres":
        return mavlink.HighresImu(t_boot_ns // 1000, *f_frd.tolist(), *w_frd.tolist())
    scaled = np.concatenate((f_frd * _MG_PER_MPS2, w_frd * _MRADPS_PER_RADPS))
    counts = np.clip(np.rint(scaled), -32768, 32767).astype(int).tolist()
    if kind == "scaled":
        return mavlink.ScaledImu(t_boot_ns // NS_PER_MS, *counts)
    return mavlink.MavlinkRawImu(t_boot_ns // 1000, *counts)
