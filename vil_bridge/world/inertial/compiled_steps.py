"""Steps of the error-state filter in the compiled kernel (``kernel/error_state.c``).

Arguments and results are those of their twins in :mod:`~vil_bridge.world.inertial.error_state`.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Final, cast

import numpy as np

from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.kernel.library import KERNEL
from vil_bridge.world.inertial.covariance import ImuNoise
from vil_bridge.world.inertial.error_state import (
    SIZE,
    FilterState,
    Innovation,
    MocapPose,
    after_s,
    is_clear,
)
from vil_bridge.world.inertial.imu_buffer import MOST_SAMPLES

_X: Final = 29
_FOUND: Final = 55
_RESIDUAL, _S, _NIS, _BEYOND_M2, _SEEN = slice(0, 6), slice(6, 42), 42, 46, slice(49, 55)
_lock = threading.Lock()
# Arguments of the calls: to look up the address of an array takes longer than to copy its few
# numbers.
_state = np.zeros(_X + SIZE * SIZE)
_t_ns = np.zeros(MOST_SAMPLES, dtype=np.int64)
_wf = np.zeros((MOST_SAMPLES, 6))
_noise = np.zeros(4)
_pose = np.zeros(15)
_found = np.zeros(_FOUND)
_PROPAGATE: Final = tuple(
    ctypes.c_void_p(array.ctypes.data) for array in (_state, _t_ns, _wf, _noise)
)
_CORRECT: Final = tuple(ctypes.c_void_p(array.ctypes.data) for array in (_state, _pose, _found))


def propagated(state: FilterState, samples: ImuWindow, noise: ImuNoise) -> FilterState:
    """Return the state at the end of the samples' interval."""
    n = len(samples.t_ns)
    with _lock:
        _pack(state)
        _t_ns[:n] = samples.t_ns
        _wf[:n, :3] = samples.w_radps
        _wf[:n, 3:] = samples.f_mps2
        _noise[:] = (
            noise.gyro_density,
            noise.accel_density,
            noise.gyro_per_rate,
            noise.accel_per_rate2,
        )
        if _library().vil_propagate(n, *_PROPAGATE) != 0:
            raise MemoryError(f"no memory for {n} inertial samples")
        return _unpacked(int(samples.t_ns[-1]), _state.copy())


def corrected(
    state: FilterState, pose: MocapPose, variances: FloatArray, gate: float
) -> tuple[FilterState, Innovation]:
    """Return the state after a pose, and its innovation.

    The state is the same where the gate refuses the pose.
    """
    ahead_s = after_s(state, pose)
    with _lock:
        _pack(state)
        _pose[:3] = pose.p_m
        _pose[3:7] = pose.q_imu_xyzw
        _pose[7] = ahead_s
        _pose[8] = gate
        _pose[9:] = variances
        accepted = bool(_library().vil_correct(*_CORRECT))
        found = _found.copy()
        after = _unpacked(state.t_ns, _state.copy()) if accepted else state
    seen = (
        found[_SEEN] if accepted and is_clear(variances.item(3), found.item(_BEYOND_M2)) else None
    )
    S = found[_S].reshape(6, 6)
    return after, Innovation(pose.t_ns, found[_RESIDUAL], S, found.item(_NIS), accepted, seen)


def _library() -> Any:
    return cast("Any", KERNEL)


def _pack(state: FilterState) -> None:
    """Copy a state into the argument: 29 numbers, then its covariance."""
    parts = (
        state.q_world_imu_xyzw,
        state.v_world_mps,
        state.p_world_m,
        state.w_imu_radps,
        state.gyro_bias_radps,
        state.accel_bias_mps2,
        (state.late_s,),
        state.mount_rad,
        state.gyro_scale,
        state.p_imu_body_m,
        state.P.reshape(-1),
    )
    np.concatenate(parts, out=_state)


def _unpacked(t_ns: int, x: FloatArray) -> FilterState:
    P = x[_X:].reshape(SIZE, SIZE)
    return FilterState(
        t_ns,
        x[:4],
        x[4:7],
        x[7:10],
        x[10:13],
        x[13:16],
        x[16:19],
        x.item(19),
        x[20:23],
        x[23:26],
        x[26:29],
        P,
    )
