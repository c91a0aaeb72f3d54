"""Judge of a filter's stated uncertainty.

Errors of the body against its covariance on flights whose truth is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from tests.support.flights import EPOCH_NS, Flight
from vil_bridge.core.geometry import Transform, cross, q_conj, q_log, q_mul, q_rotate
from vil_bridge.world.inertial.body_estimate import body_jacobian, body_of
from vil_bridge.world.inertial.error_state import ACCEL_BIAS, GYRO_BIAS, LATE, FilterState

__all__ = ["BLOCKS", "Filter", "Judged", "autocorrelation", "consistency", "judged", "table"]

Array = npt.NDArray[np.float64]

FROM_S: Final = 5.0
"""Time from a flight's start that a filter has to settle."""
BLOCKS: Final = {
    "attitude": slice(0, 3),
    "velocity": slice(3, 6),
    "position": slice(6, 9),
    "biases": slice(9, 15),
    "state": slice(0, 15),
}
_EVERY: Final = 4
"""Poses from one state that is judged to the next; neighbours hardly differ."""


class Innovation(Protocol):
    @property
    def t_ns(self) -> int: ...
    @property
    def residual(self) -> Array: ...
    @property
    def S(self) -> Array: ...  # noqa: N802
    @property
    def nis(self) -> float: ...
    @property
    def accepted(self) -> bool: ...


class Filter(Protocol):
    @property
    def state(self) -> FilterState | None: ...
    @property
    def innovation(self) -> Innovation | None: ...
    def add_imu(self, t_ns: int, w_radps: Array, f_mps2: Array) -> None: ...
    def add_pose(self, t_ns: int, p_world_m: Array, q_world_xyzw: Array) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """One flight with a filter, from 5 s after its start.

    Attributes:
        errors: shape (n, 15), truth minus estimate as :data:`BLOCKS` lists it.
        P: shape (n, 15, 15), as stated.
        late_error_s: shape (n,), truth minus estimate.
        late_variance_s2: shape (n,), as stated.
        whitened: shape (m, 6), innovations in units of their stated deviation, uncorrelated if S is
            right.
        nis: shape (m,), as the filter stated it.
        rejected: how many of the m innovations were.
        poses: how many poses the filter was given in that time.
        us_per_sample: what the filter took, per inertial sample.
    """

    flight: Flight
    errors: Array
    P: Array
    late_error_s: Array
    late_variance_s2: Array
    whitened: Array
    nis: Array
    rejected: int
    poses: int
    us_per_sample: float

    def nees(self, block: slice) -> Array:
        """Squared errors of a block over their covariance, shape (n,)."""
        e = self.errors[:, block]
        return np.asarray(
            np.einsum("ni,ni->n", e, np.linalg.solve(self.P[:, block, block], e[..., None])[..., 0])
        )


def judged(flight: Flight, make: Callable[[Transform], Filter]) -> Judged:
    """Fly a filter through a flight, its samples in the order of their arrival."""
    body = make(flight.T_body_imu)
    states: list[FilterState] = []
    innovations: list[Innovation] = []
    seen_ns = -1
    imu, poses = flight.imu, flight.poses
    imu_rows = list(zip(imu.t_ns.tolist(), imu.w_radps, imu.f_mps2, strict=True))
    pose_rows = list(zip(poses.t_ns.tolist(), poses.p_world_m, poses.q_world_xyzw, strict=True))
    spent_s = -time.process_time()
    for is_pose, row in flight.events():
        if is_pose:
            body.add_pose(*pose_rows[row])
        else:
            body.add_imu(*imu_rows[row])
        innovation = body.innovation
        if innovation is not None and innovation.t_ns != seen_ns:
            seen_ns = innovation.t_ns
            state = body.state
            assert state is not None
            states.append(state)
            innovations.append(innovation)
    spent_s += time.process_time()
    return _judged(flight, states, innovations, 1e6 * spent_s / len(imu_rows))


def _judged(
    flight: Flight, states: list[FilterState], innovations: list[Innovation], us_per_sample: float
) -> Judged:
    from_ns = EPOCH_NS + int(1e9 * FROM_S)
    late_ns = 1e9 * flight.errors.late_s
    kept = [s for s in states if s.t_ns - late_ns >= from_ns][::_EVERY]
    listed = [i for i in innovations if i.t_ns - late_ns >= from_ns]
    assert kept, f"{flight.kind} {flight.seed}: the filter states nothing"
    whitened: Array = np.array(
        [np.linalg.solve(np.linalg.cholesky(i.S), i.residual) for i in listed]
    )
    q_imu_body_xyzw = q_conj(flight.T_body_imu.q_xyzw)
    return Judged(
        flight,
        _errors(flight, kept, q_imu_body_xyzw),
        np.stack([_covariance(s, q_imu_body_xyzw) for s in kept]),
        np.array([flight.errors.late_s - s.late_s for s in kept]),
        np.array([s.P[LATE, LATE] for s in kept]),
        whitened,
        np.array([i.nis for i in listed]),
        sum(not i.accepted for i in listed),
        int((flight.poses.t_ns >= from_ns).sum()),
        us_per_sample,
    )


def _errors(flight: Flight, states: Sequence[FilterState], q_imu_body_xyzw: Array) -> Array:
    """Truth minus estimate at the states' instants, as the filter maps them to mocap's clock,
    shape (n, 15).
    """
    truth = flight.truth(np.array([s.t_ns - s.late_ns for s in states]))
    T_imu_body = flight.T_imu_body
    q_xyzw = q_mul(truth.q_world_imu_xyzw, T_imu_body.q_xyzw)
    lever_m = q_rotate(
        truth.q_world_imu_xyzw, np.broadcast_to(T_imu_body.p_m, truth.p_world_m.shape)
    )
    v_mps = truth.v_world_mps + cross(q_rotate(truth.q_world_imu_xyzw, truth.w_imu_radps), lever_m)
    bodies = [body_of(s, q_imu_body_xyzw) for s in states]
    return np.concatenate(
        (
            q_log(q_mul(q_conj(np.stack([b.T_world_body.q_xyzw for b in bodies])), q_xyzw)),
            v_mps - np.stack([b.v_world_mps for b in bodies]),
            truth.p_world_m + lever_m - np.stack([b.T_world_body.p_m for b in bodies]),
            truth.gyro_bias_radps - np.stack([s.gyro_bias_radps for s in states]),
            truth.accel_bias_mps2 - np.stack([s.accel_bias_mps2 for s in states]),
        ),
        axis=1,
    )


def _covariance(state: FilterState, q_imu_body_xyzw: Array) -> Array:
    """Covariance of the body's nine errors and the biases, shape (15, 15)."""
    J = np.zeros((15, len(state.P)))
    J[:9] = body_jacobian(state, q_imu_body_xyzw)
    J[9:12, GYRO_BIAS] = J[12:, ACCEL_BIAS] = np.eye(3)
    return np.asarray(J @ state.P @ J.T)


def consistency(runs: Sequence[Judged]) -> dict[str, tuple[float, float]]:
    """By quantity (:data:`BLOCKS` and ``nis``).

    Mean over the dimension, and share within the 95 % interval.
    """
    found = {
        name: (np.concatenate([r.nees(b) for r in runs]), b.stop - b.start)
        for name, b in BLOCKS.items()
    }
    found["nis"] = np.concatenate([r.nis for r in runs]), 6
    result = {}
    for name, (values, dimension) in found.items():
        low, high = chi2.ppf((0.025, 0.975), dimension)
        within = (values >= low) & (values <= high)
        result[name] = float(values.mean()) / dimension, float(within.mean())
    return result


def autocorrelation(whitened: Sequence[Array], lags: int = 20) -> Array:
    """Autocorrelation of whitened innovations at lags 1 to ``lags``, over all axes and runs, shape.

    Lags,.
    """
    power = sum(float((w * w).sum()) / len(w) for w in whitened)
    at = [
        sum(float((w[lag:] * w[:-lag]).sum()) / (len(w) - lag) for w in whitened)
        for lag in range(1, lags + 1)
    ]
    return np.array(at) / power


def table(kind: str, runs: Sequence[Judged]) -> str:
    """The figures of a class in lines."""
    lines = [f"{kind}: {len(runs)} flights, {sum(len(r.errors) for r in runs)} states"]
    for name, (mean, share) in consistency(runs).items():
        bars = (
            ""
            if 0.7 <= mean <= 1.4 and 0.90 <= share <= 0.99
            else "  <- outside 0.7..1.4, 90..99 %"
        )
        lines.append(
            f"  {name:9s} mean/dimension {mean:6.2f}  within 95 %: {100.0 * share:5.1f} %{bars}"
        )
    flying = [r for r in runs if r.flight.aggressive]
    for label, chosen in (("rested", True), ("no rest", False)):
        part = [r for r in flying if r.flight.rested is chosen]
        if part:
            late_ms = 1e3 * np.array([abs(r.late_error_s[-1]) for r in part])
            accel = np.array([np.linalg.norm(r.errors[-1, 12:15]) for r in part])
            lines.append(
                f"  in fast flight, {label}: late off by {_spread(late_ms)} ms, "
                f"accelerometer {_spread(accel)}"
            )
    late = np.concatenate([r.late_error_s**2 / r.late_variance_s2 for r in runs])
    lines.append(
        f"  late_s    mean/dimension {late.mean():6.2f}  within 95 %: "
        f"{100.0 * (late < 3.84).mean():5.1f} %"
    )
    r = autocorrelation([run.whitened for run in runs])
    lines.append("  autocorrelation at lags 1..20: " + " ".join(f"{value:.2f}" for value in r))
    rejected, listed, given = (
        sum(n) for n in zip(*((run.rejected, len(run.nis), run.poses) for run in runs), strict=True)
    )
    lines.append(
        f"  {listed} innovations of {given} poses, {rejected} rejected;"
        f" {np.median([run.us_per_sample for run in runs]):.0f} us per inertial sample"
    )
    return "\n".join(lines)


def _spread(values: Array) -> str:
    return (
        f"{np.median(values):.3f} / {np.percentile(values, 95):.3f} / {values.max():.3f} "
        "(p50/p95/max)"
    )
