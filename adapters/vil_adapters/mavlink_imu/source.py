"""Inertial samples and clock exchanges from an autopilot, read by the event loop itself."""

from __future__ import annotations

from contextlib import closing

from vil_adapters.common.mavlink_session import MavlinkSession
from vil_adapters.mavlink_imu.codec import KIND_OF, MESSAGE_OF, ImuKind, InertialMessage, from_message
from vil_adapters.mavlink_imu.config import MavlinkImuConfig
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.ports import Emit, SourceContext
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import ImuSample, SourceReset
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.transports import Transport, open_transport

__all__ = ["MavlinkImuSource"]


class MavlinkImuSource:
    """A serial device or a computer that may appear, disappear and come back while the bridge runs."""

    def __init__(self, name: str, config: MavlinkImuConfig) -> None:
        self.name = name
        self._config = config

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Wait for the device, read it until it hangs up, wait for it again; never returns.

        Raises:
            SourceUnavailable: UDP: the other side is unknown, no interface leads there, or the port is taken.
        """
        while True:
            try:
                opened = await open_transport(self._config, status)
            except OSError as exc:
                raise SourceUnavailable(exc.strerror or str(exc)) from exc
            with closing(opened) as wire:
                await _Inertial(self.name, self._config, wire, emit, status).run()
            emit(SourceReset(self.name, "the serial line was lost"))


class _Inertial(MavlinkSession[ImuKind]):
    """Samples of the best inertial message that comes."""

    def __init__(self, name: str, config: MavlinkImuConfig, wire: Transport, emit: Emit, status: Status) -> None:
        wanted: dict[ImuKind, tuple[type[InertialMessage], ...]] = {
            k: (m,) for k, m in MESSAGE_OF.items() if config.message in ("auto", k)
        }
        super().__init__(name, wire, "inertial messages", wanted, config.rate_hz, emit, status)
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
        """Emit the first sample of the new sequence, which was held back until a second one proved the restart."""
        if self._held is not None:
            self._emit(self._held)
            self._held = None
