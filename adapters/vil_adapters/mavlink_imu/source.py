"""Inertial samples and clock exchanges from an autopilot, read by the event loop itself."""

from __future__ import annotations

from vil_adapters.mavlink_imu.codec import (
    KIND_OF,
    MESSAGE_OF,
    ImuKind,
    InertialMessage,
    from_message,
)
from vil_adapters.mavlink_imu.config import MavlinkImuConfig
from vil_adapters.sessions.mavlink_session import MavlinkSession, MavlinkSource
from vil_bridge.core.types import ImuSample
from vil_bridge.interfaces.ports import Emit
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.transports import Transport
from vil_bridge.runtime.supervisor import Status


class MavlinkImuSource(MavlinkSource[MavlinkImuConfig]):
    """Inertial sensor on a serial line or UDP."""

    def _session(self, transport: Transport, emit: Emit, status: Status) -> _InertialSession:
        return _InertialSession(self.name, self._config, transport, emit, status)


class _InertialSession(MavlinkSession[ImuKind]):
    """Samples of the best inertial message that comes."""

    def __init__(
        self, name: str, config: MavlinkImuConfig, transport: Transport, emit: Emit, status: Status
    ) -> None:
        wanted: dict[ImuKind, tuple[type[InertialMessage], ...]] = {
            k: (m,) for k, m in MESSAGE_OF.items() if config.message in ("auto", k)
        }
        super().__init__(name, transport, "inertial messages", wanted, config.rate_hz, emit, status)
        self._held: ImuSample | None = None

    def on_body(self, body: mavlink.Body, t_arrival_ns: int) -> None:
        """Emit one sample, or hold it back when it is not newer than the last."""
        if not isinstance(body, InertialMessage):
            return
        kind = KIND_OF.get(type(body))
        if kind is None or getattr(body, "id", 0) != 0 or not self.chosen(kind):
            return
        t_foreign_ns, w_radps, f_mps2 = from_message(body)
        sample = ImuSample(self._name, t_foreign_ns, t_arrival_ns, w_radps, f_mps2)
        fresh = self.fresh(t_foreign_ns, t_arrival_ns)
        self._status.counters["old"] += self._held is not None
        self._held = None if fresh else sample
        if fresh:
            self._emit(sample)

    def on_restart(self) -> None:
        """Emit the first sample of the new sequence, which was held back until a second one
        proved the restart.
        """
        if self._held is not None:
            self._emit(self._held)
            self._held = None
