"""Inertial samples of a flight controller, asked for as fast as it answers.

Implements ``PoseSource``.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Final

from vil_adapters.msp_imu.config import MspImuConfig
from vil_adapters.msp_imu.convert import AnswerTimes, RestScale, from_counts
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ImuSample, SourceReset
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.protocols import msp
from vil_bridge.protocols.transports import Transport, TransportReader, open_serial, open_tcp
from vil_bridge.runtime.supervisor import Status

_HOUSEKEEPING_S: Final = 0.05
_UNANSWERED_NS: Final = 100 * NS_PER_MS
_SILENT_NS: Final = NS_PER_S
_LONGEST_ANSWER: Final = 32
_UARTS: Final = ("ttyS", "ttyUSB", "ttyAMA", "ttyTHS")
_BITS_PER_BYTE: Final = 10


class MspImuSource:
    """A flight controller that may appear, disappear and come back while the bridge runs."""

    def __init__(self, name: str, config: MspImuConfig) -> None:
        self.name = name
        self._config = config
        self._scale = RestScale(config.acc_lsb_per_g)

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Wait for the controller, ask it until it disconnects, wait for it again.

        Never returns.
        """
        while True:
            with closing(await self._open(status)) as transport:
                await _Polling(self.name, self._config, transport, self._scale, emit, status).run()
            emit(SourceReset(self.name, "the line was lost"))

    async def _open(self, status: Status) -> Transport:
        config = self._config
        if config.device is not None:
            return await open_serial(config.device, config.baud, status, "MSP")
        assert config.host is not None
        return await open_tcp(config.host, config.port, status)


class _Polling:
    """One open transport: one request at a time."""

    def __init__(
        self,
        name: str,
        config: MspImuConfig,
        transport: Transport,
        scale: RestScale,
        emit: Emit,
        status: Status,
    ) -> None:
        self._name = name
        self._config = config
        self._transport = transport
        self._scale = scale
        self._emit = emit
        self._status = status
        self._question = msp.encode(
            msp.MspMessage(config.version, msp.MspDirection.REQUEST, msp.RAW_IMU, b"")
        )
        self._byte_ns = _byte_ns(config)
        self._times = AnswerTimes()
        self._parser = msp.MspParser(_LONGEST_ANSWER)
        self._last_counts = (0, 0)
        self._asking = False
        self._again: asyncio.TimerHandle | None = None
        self._t_asked_ns = 0
        self._t_received_ns = now_ns()

    async def run(self) -> None:
        """Return when the transport disconnected."""
        with TransportReader(self._name, self._transport, self._on_data) as reader:
            try:
                self._ask()
                while not reader.ended.done():
                    await asyncio.wait((reader.ended,), timeout=_HOUSEKEEPING_S)
                    self._housekeep()
                reader.ended.result()
            finally:
                if self._again is not None:
                    self._again.cancel()

    def _ask(self) -> None:
        self._asking = True
        self._t_asked_ns = now_ns()
        if not self._transport.send(self._question):
            self._status.counters["unsent"] += 1

    def _housekeep(self) -> None:
        t_ns = now_ns()
        if self._asking and t_ns - self._t_asked_ns > _UNANSWERED_NS:
            self._status.counters["unanswered"] += 1
            self._parser.give_up()
            self._ask()
        if t_ns - self._t_received_ns > _SILENT_NS:
            self._status.waiting(f"no answer on {self._transport.place}: {self._transport.cure}")

    def _on_data(self, data: bytes, t_arrival_ns: int) -> None:
        for message in self._parser.feed(data):
            self._on_message(message, t_arrival_ns)
        self._count()

    def _count(self) -> None:
        bad, garbage = self._last_counts
        self._status.counters["bad_crc"] += self._parser.bad_checksum - bad
        self._status.counters["garbage_bytes"] += self._parser.garbage - garbage
        self._last_counts = (self._parser.bad_checksum, self._parser.garbage)

    def _on_message(self, message: msp.MspMessage, t_arrival_ns: int) -> None:
        if message.command != msp.RAW_IMU or not self._asking:
            self._status.counters["unexpected"] += 1
            return
        if message.direction is msp.MspDirection.REFUSAL:
            self._status.counters["refused"] += 1
            self._status.waiting(f"{self._transport.place} answers, but knows no MSP_RAW_IMU")
            return  # asked again when this question has grown old
        try:
            raw = msp.unpack_raw_imu(message.payload)
        except ProtocolError:
            self._status.counters["malformed"] += 1
            return
        # A question is an answer without payload.
        way_ns = self._byte_ns * (len(self._question) + len(message.payload))
        t_ns = self._times.stamp(self._t_asked_ns, max(self._t_asked_ns, t_arrival_ns - way_ns))
        self._next(t_arrival_ns)
        self._handle_reading(t_ns, raw)

    def _next(self, t_ns: int) -> None:
        """Send the next request, at once unless that exceeds the rate."""
        self._asking = False
        wait_s = (self._t_asked_ns - t_ns) / NS_PER_S + 1.0 / self._config.rate_hz
        if wait_s <= 0.0:
            self._ask()
        else:
            self._again = asyncio.get_running_loop().call_later(wait_s, self._ask)

    def _handle_reading(self, t_ns: int, raw: msp.MspRawImu) -> None:
        self._t_received_ns = now_ns()
        known = self._scale.lsb_per_g
        self._scale.add(t_ns, raw, self._config.gyro_lsb_per_dps)
        if self._scale.lsb_per_g is None:
            self._status.waiting(
                "the accelerometer's scale is not known: let the vehicle stand still for a second"
            )
            return
        if known is None:
            self._status.facts["acc_lsb_per_g"] = round(self._scale.lsb_per_g, 1)
        w_radps, f_mps2 = from_counts(raw, self._config.gyro_lsb_per_dps, self._scale.lsb_per_g)
        self._emit(ImuSample(self._name, None, t_ns, w_radps, f_mps2))
        self._status.running()


def _byte_ns(config: MspImuConfig) -> int:
    """Return the transit time of a byte of an answer.

    It matters on a UART only, USB and TCP are quick.
    """
    uart = config.device is not None and Path(config.device).resolve().name.startswith(_UARTS)
    return round(_BITS_PER_BYTE * NS_PER_S / config.baud) if uart else 0
