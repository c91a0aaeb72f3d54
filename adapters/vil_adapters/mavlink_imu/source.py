"""Inertial samples and clock exchanges from an autopilot on a serial line, read by the event loop itself."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections import deque
from contextlib import closing
from typing import Final

import serial

from vil_adapters.mavlink_imu.codec import KIND_OF, MESSAGE_OF, ImuKind, from_message
from vil_adapters.mavlink_imu.config import MavlinkImuConfig
from vil_adapters.mavlink_imu.request import OUR_COMPONENT, OUR_SYSTEM, Address, RateRequest
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.ports import Emit
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import ClockExchange, ImuSample, SourceReset
from vil_bridge.core.wire import mavlink

__all__ = ["MavlinkImuSource"]

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 65536
_DEVICE_RETRY_S: Final = 0.2
_HOUSEKEEPING_S: Final = 0.1
_HEARTBEAT_EVERY: Final = 10  # housekeepings
_SILENT_NS: Final = 1_000_000_000
_RESTART_NS: Final = 500_000_000
_OWN_REQUESTS: Final = 32
_RANK: Final = {kind: rank for rank, kind in enumerate(MESSAGE_OF)}


class MavlinkImuSource:
    """A serial device that may appear, disappear and come back while the bridge runs."""

    def __init__(self, name: str, config: MavlinkImuConfig) -> None:
        self.name = name
        self._config = config

    async def run(self, emit: Emit, status: Status) -> None:
        """Wait for the device, read it until it hangs up, wait for it again; never returns."""
        while True:
            with closing(await self._open(status)) as port:
                await _Connection(self.name, self._config, port.fileno(), emit, status).run()
            emit(SourceReset(self.name, "the serial line was lost"))

    async def _open(self, status: Status) -> serial.Serial:
        device = self._config.device
        while True:
            try:
                return _open_serial(device, self._config.baud)
            except (OSError, ValueError) as exc:
                if isinstance(exc, OSError) and exc.errno == errno.ENOENT:
                    status.waiting(f"{device} does not exist: is the autopilot connected and powered?")
                else:
                    status.waiting(f"{device} cannot be opened: {exc}")
            await asyncio.sleep(_DEVICE_RETRY_S)


def _open_serial(device: str, baud: int) -> serial.Serial:
    """Open the device without waiting for anything.

    Raises:
        OSError: the device is absent (ENOENT), used by somebody else, or broken.
        ValueError: it refuses the baud rate.
    """
    # The inter-byte timeout sets VMIN to 1: only then does an empty read mean that the line hung up.
    return serial.Serial(device, baud, timeout=0, write_timeout=0, inter_byte_timeout=0, exclusive=True)


class _Connection:
    """One opening of the device, until it hangs up."""

    def __init__(self, name: str, config: MavlinkImuConfig, fd: int, emit: Emit, status: Status) -> None:
        self._name = name
        self._config = config
        self._fd = fd
        self._emit = emit
        self._status = status
        self._hung_up = asyncio.Event()
        self._parser = mavlink.Parser()
        self._sequence = 0
        self._wanted: tuple[ImuKind, ...] = tuple(MESSAGE_OF) if config.message == "auto" else (config.message,)
        self._request = RateRequest(self._wanted, config.rate_hz)
        self._kind: ImuKind | None = None
        self._t_newest_ns: int | None = None
        self._t_heard_ns = now_ns()
        self._own_requests: deque[int] = deque(maxlen=_OWN_REQUESTS)
        self._last_counts = (0, 0)
        self._rate_start: tuple[int, int] = (now_ns(), 0)
        self._samples = 0
        self._rate_hz = 0.0

    async def run(self) -> None:
        """Read in the loop; between times ask for the clock, the message and show a heartbeat."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, self._on_readable)
        self._status.facts["device"] = self._config.device
        try:
            beat = 0
            while not self._hung_up.is_set():
                self._housekeep(beat)
                beat += 1
                try:
                    async with asyncio.timeout(_HOUSEKEEPING_S):
                        await self._hung_up.wait()
                except TimeoutError:
                    continue
        finally:
            loop.remove_reader(self._fd)

    def _housekeep(self, beat: int) -> None:
        t_ns = now_ns()
        if t_ns - self._t_heard_ns > _SILENT_NS:
            self._kind = None
            self._status.waiting(self._silence_reason())
        if beat % _HEARTBEAT_EVERY == 0:
            self._send(
                mavlink.Heartbeat(
                    0, mavlink.TYPE_ONBOARD_CONTROLLER, mavlink.AUTOPILOT_INVALID, 0, mavlink.STATE_ACTIVE
                )
            )
            self._measure_rate(t_ns)
        command = self._request.due(t_ns, self._kind, self._rate_hz)
        if command is not None:
            self._send(command)
            self._note_request("no answer")
        t_sent_ns = now_ns()
        self._own_requests.append(t_sent_ns)
        self._send(mavlink.TimeSync(0, t_sent_ns))

    def _silence_reason(self) -> str:
        if self._request.peer is None:
            return (
                f"no inertial messages on {self._config.device} at {self._config.baud} baud: "
                "check the baud rate and that MAVLink is enabled on the autopilot's port"
            )
        asked = ", ".join(f"{kind}: {answer}" for kind, answer in self._status.facts.get("requests", {}).items())
        return (
            f"the autopilot (system {self._request.peer[0]}) on {self._config.device} sends no inertial messages, "
            f"asked for again and again ({asked})"
        )

    def _note_request(self, answer: str) -> None:
        """Keep what became of the request for each kind of message; the dictionary is read by other threads."""
        requests = self._status.facts.get("requests", {})
        kind = self._request.kind
        if answer != "no answer" or kind not in requests:
            self._status.facts["requests"] = {**requests, kind: answer}

    def _measure_rate(self, t_ns: int) -> None:
        since_ns, samples = self._rate_start
        if t_ns > since_ns:
            self._rate_hz = (self._samples - samples) * 1e9 / (t_ns - since_ns)
            self._status.facts["rate_hz"] = round(self._rate_hz, 1)
        self._rate_start = (t_ns, self._samples)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError as exc:
            logger.info("%s: %s hung up: %s", self._name, self._config.device, exc)
            data = b""
        t_arrival_ns = now_ns()
        if not data:
            # A level-triggered loop would call again and again until run() has noticed.
            asyncio.get_running_loop().remove_reader(self._fd)
            self._hung_up.set()
            return
        for message in self._parser.feed(data):
            self._on_message(message, t_arrival_ns)
        self._count()

    def _count(self) -> None:
        """Keep the parser's counts of this connection in the component's counters."""
        parser, counters = self._parser, self._status.counters
        bad_crc, garbage = self._last_counts
        if (parser.bad_crc, parser.garbage) != self._last_counts:
            counters["bad_crc"] += parser.bad_crc - bad_crc
            counters["garbage_bytes"] += parser.garbage - garbage
            self._last_counts = (parser.bad_crc, parser.garbage)

    def _on_message(self, message: mavlink.Message, t_arrival_ns: int) -> None:
        body = message.body
        sender = message.system, message.component
        if sender == self._request.peer:
            self._request.heard(sender, t_arrival_ns)
        if isinstance(body, mavlink.TimeSync):
            self._on_timesync(body, t_arrival_ns)
        elif isinstance(body, mavlink.Heartbeat):
            if body.autopilot != mavlink.AUTOPILOT_INVALID:
                self._request.heard(sender, t_arrival_ns)
                self._status.facts["autopilot"] = {"system": message.system, "type": body.autopilot}
        elif isinstance(body, mavlink.CommandAck):
            self._on_ack(sender, body)
        elif isinstance(body, mavlink.HighresImu | mavlink.ScaledImu | mavlink.RawImu):
            if self._request.peer is None:
                self._request.heard(sender, t_arrival_ns)
            self._on_inertial(body, t_arrival_ns)

    def _on_ack(self, sender: Address, ack: mavlink.CommandAck) -> None:
        """Keep the autopilot's answer; a refusal is told when it is a new one."""
        if not self._request.answered(sender, ack):
            return
        kind, before = self._request.kind, self._status.facts["requests"]
        answer = mavlink.RESULTS[ack.result] if ack.result < len(mavlink.RESULTS) else f"result {ack.result}"
        self._note_request(answer)
        if ack.result != mavlink.RESULT_ACCEPTED:
            self._status.counters["refused"] += 1
            if before.get(kind) != answer:
                logger.warning(
                    "%s: the autopilot will not send %s at %g Hz: %s", self._name, kind, self._config.rate_hz, answer
                )

    def _on_inertial(self, body: mavlink.HighresImu | mavlink.ScaledImu | mavlink.RawImu, t_arrival_ns: int) -> None:
        kind = KIND_OF.get(type(body))
        if kind is None or kind not in self._wanted or getattr(body, "id", 0) != 0:
            return
        if self._kind is None or _RANK[kind] < _RANK[self._kind]:
            self._kind = kind
            self._status.facts["message"] = kind
        if kind != self._kind:
            return
        try:
            t_foreign_ns, w_radps, f_mps2 = from_message(body)
        except ProtocolError as exc:
            self._status.counters["malformed"] += 1
            if self._status.counters["malformed"] == 1:
                logger.warning("%s: dropped a sample: %s", self._name, exc)
            return
        if self._t_newest_ns is not None and t_foreign_ns < self._t_newest_ns - _RESTART_NS:
            self._own_requests.clear()
            self._request.restart()
            self._emit(SourceReset(self._name, "the autopilot restarted"))
        self._t_newest_ns = t_foreign_ns
        self._t_heard_ns = t_arrival_ns
        self._samples += 1
        self._status.running()
        self._emit(ImuSample(self._name, t_foreign_ns, t_arrival_ns, w_radps, f_mps2))

    def _on_timesync(self, body: mavlink.TimeSync, t_arrival_ns: int) -> None:
        if body.tc1_ns == 0:
            self._send(mavlink.TimeSync(now_ns(), body.ts1_ns))
        elif body.ts1_ns in self._own_requests:
            self._own_requests.remove(body.ts1_ns)
            self._emit(ClockExchange(self._name, body.ts1_ns, body.tc1_ns, t_arrival_ns))

    def _send(self, body: mavlink.Body) -> None:
        frame = mavlink.encode(body, self._sequence, system=OUR_SYSTEM, component=OUR_COMPONENT)
        self._sequence += 1
        try:
            sent = os.write(self._fd, frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the reader sees the same hang-up
        if sent < len(frame):
            self._status.counters["unsent"] += 1
