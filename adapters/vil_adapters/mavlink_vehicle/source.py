"""A vehicle's own pose, over a serial line or UDP (implements ``PoseSource``)."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from vil_adapters.mavlink_vehicle.config import MavlinkVehicleConfig
from vil_adapters.mavlink_vehicle.convert import (
    VehiclePose,
    from_local_position,
    from_odometry,
    healthy,
)
from vil_adapters.sessions.mavlink_session import MavlinkSession, MavlinkSource
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.types import SourceFrame
from vil_bridge.interfaces.ports import Emit
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.transports import Transport
from vil_bridge.runtime.supervisor import Status

PoseKind = Literal["odometry", "local-position"]
MESSAGES_OF: Final[dict[PoseKind, tuple[type[mavlink.Body], ...]]] = {
    "odometry": (mavlink.Odometry,),
    "local-position": (mavlink.LocalPositionNed, mavlink.AttitudeQuaternion),
}
"""Best first: ODOMETRY has quality and resets, and its stamps are a thousand times finer."""

_STALE_PERIODS: Final = 3
_STALE_NS: Final = 200 * NS_PER_MS
_STATUS_VALID_NS: Final = 3 * NS_PER_S


class MavlinkVehicleSource(MavlinkSource[MavlinkVehicleConfig]):
    """Vehicle that sends its own pose over a serial line or UDP."""

    def _session(self, transport: Transport, emit: Emit, status: Status) -> _PoseSession:
        return _PoseSession(self.name, self._config, transport, emit, status)


class _PoseSession(MavlinkSession[PoseKind]):
    """Poses of the best message that comes, the newest of those that wait."""

    def __init__(
        self,
        name: str,
        config: MavlinkVehicleConfig,
        transport: Transport,
        emit: Emit,
        status: Status,
    ) -> None:
        wanted: dict[PoseKind, tuple[type[mavlink.Body], ...]] = {
            k: m for k, m in MESSAGES_OF.items() if config.message in ("auto", k)
        }
        super().__init__(
            name, transport, "poses", wanted, config.rate_hz, emit, status, system=config.system
        )
        self._subjects = (config.subject,)
        self._stale_ns = max(_STALE_NS, round(_STALE_PERIODS * NS_PER_S / config.rate_hz))
        self._attitude: mavlink.AttitudeQuaternion | None = None
        self._estimator: tuple[mavlink.EstimatorStatus, int] | None = None
        self._reset_counter: int | None = None
        self._waiting: tuple[int, VehiclePose | None, int] | None = None
        self._shown = np.zeros((1, 3)), np.array([[0.0, 0.0, 0.0, 1.0]])
        self._tracked = False
        self._t_emitted_ns = 0
        self._number = 0

    def on_body(self, body: mavlink.Body, t_arrival_ns: int) -> None:
        """Store the newest waiting pose.

        Raises:
            ProtocolError: values that no vehicle has.
        """
        match body:
            case mavlink.Odometry():
                if self.chosen("odometry"):
                    self._on_odometry(body, t_arrival_ns)
            case mavlink.LocalPositionNed():
                if self.chosen("local-position"):
                    pose = from_local_position(body, self._attitude)
                    self._status.counters["no_attitude"] += pose is None
                    self._offer(body.time_boot_ms * NS_PER_MS, pose, t_arrival_ns)
            case mavlink.AttitudeQuaternion():
                self._attitude = body
            case mavlink.EstimatorStatus():
                self._estimator = body, t_arrival_ns
            case _:
                pass

    def on_read(self) -> None:
        """Emit the newest pose."""
        if self._waiting is not None:
            t_ns, pose, t_arrival_ns = self._waiting
            self._waiting = None
            if pose is not None:
                self._shown = pose.p_m[None], pose.q_xyzw[None]
            self._emit_pose(
                t_ns, t_arrival_ns, tracked=pose is not None and self._trusted(t_arrival_ns)
            )

    def on_housekeeping(self, t_ns: int) -> None:
        """Mark a silent vehicle as untracked."""
        if self._tracked and t_ns - self._t_emitted_ns > self._stale_ns:
            self._emit_pose(None, t_ns, tracked=False)

    def _on_odometry(self, message: mavlink.Odometry, t_arrival_ns: int) -> None:
        pose = from_odometry(message)
        if self._reset_counter not in (None, message.reset_counter):
            self.on_read()
            self._resets.report("the vehicle's estimate jumped", clock=False)
        self._reset_counter = message.reset_counter
        self._offer(message.time_usec * 1000, pose, t_arrival_ns)

    def _offer(self, t_ns: int, pose: VehiclePose | None, t_arrival_ns: int) -> None:
        if not self.fresh(t_ns, t_arrival_ns):
            self._status.counters["old"] += 1
            return
        self._status.counters["superseded"] += self._waiting is not None
        self._waiting = t_ns, pose, t_arrival_ns

    def _trusted(self, t_ns: int) -> bool:
        """Return False when the estimator reported within three seconds that it has no position."""
        if self._estimator is None:
            return True
        status, t_status_ns = self._estimator
        return t_ns - t_status_ns > _STATUS_VALID_NS or healthy(status)

    def _emit_pose(self, t_ns: int | None, t_arrival_ns: int, *, tracked: bool) -> None:
        self._number += 1
        self._tracked = tracked
        self._t_emitted_ns = t_arrival_ns
        flags = np.array([tracked])
        self._emit(
            SourceFrame(
                self._name, self._number, t_ns, t_arrival_ns, self._subjects, *self._shown, flags
            )
        )
