"""An autopilot's telemetry port: real MAVLink bytes on a real pseudo-terminal, driven by a motion."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
import tty
from pathlib import Path
from types import TracebackType
from typing import Final

from vil_adapters.mavlink_imu.codec import MESSAGE_OF, ImuKind, to_message
from vil_bridge.core.clock import NS_PER_S, Ticker, now_ns
from vil_bridge.core.ports import InertialMotion
from vil_bridge.core.wire import mavlink

__all__ = ["SerialImuEmulator"]

SYSTEM: Final = 1
COMPONENT: Final = 1  # autopilot
_EVERY_COMPONENT: Final = 0
_LONGEST_US: Final = 60e6
_AUTOPILOT_PX4: Final = 12
_TYPE_QUADROTOR: Final = 2
_TICK_NS: Final = 3_500_000
_BACKLOG_LIMIT_NS: Final = 100_000_000
_UNREAD_LIMIT_BYTES: Final = 3600
"""The terminal holds 4095 bytes for its reader; when they pile up, the oldest go."""


class SerialImuEmulator:
    """A flight controller that has been on for ``boot_offset_ns`` when the motion starts.

    Its clock shows ``boot_offset_ns + (t - epoch_ns) * (1 + drift_ppm / 1e6)`` at bridge time ``t``.
    Like PX4 it obeys only requests that are addressed to it, and sends a sample when it is due: at
    ``initial_rate_hz`` (None = each one that the motion has) until another rate is asked for.
    Use it as a context manager inside a running loop, or ``run`` it until cancelled.

    Attributes:
        sent: inertial messages written.
        dropped: times that unread bytes were thrown away, or a message found no room.
        answered: clock requests answered.
    """

    def __init__(
        self,
        motion: InertialMotion,
        epoch_ns: int,
        link_path: Path,
        *,
        message: ImuKind = "highres",
        boot_offset_ns: int = 30 * NS_PER_S,
        drift_ppm: float = 0.0,
        initial_rate_hz: float | None = None,
    ) -> None:
        self._motion = motion
        self._epoch_ns = epoch_ns
        self._link_path = link_path
        self._message: ImuKind = message
        self._boot_offset_ns = boot_offset_ns
        self._drift = drift_ppm * 1e-6
        self._ticker = Ticker(_TICK_NS, self._on_tick)
        self._parser = mavlink.Parser()
        self._sequence = 0
        self._interval_ns = 0 if initial_rate_hz is None else round(NS_PER_S / initial_rate_hz)
        self._t_sample_ns = self._t_sent_ns = 0
        self._t_done_ns = 0
        self._t_heartbeat_ns = 0
        self._master = self._slave = -1
        self.sent = 0
        self.dropped = 0
        self.answered = 0

    def clock_ns(self, t_bridge_ns: int) -> int:
        """The emulated controller's own clock."""
        elapsed_ns = t_bridge_ns - self._epoch_ns
        return self._boot_offset_ns + elapsed_ns + round(elapsed_ns * self._drift)

    async def run(self) -> None:
        """Emulate until cancelled."""
        with self:
            await asyncio.Event().wait()

    def __enter__(self) -> SerialImuEmulator:
        self._master, self._slave = os.openpty()
        # Keeping our own handle on the reader's side spares hang-ups between two readers.
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self._t_done_ns = now_ns() - self._epoch_ns
        asyncio.get_running_loop().add_reader(self._master, self._on_readable)
        self._ticker.start()
        self._link()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ticker.stop()
        asyncio.get_running_loop().remove_reader(self._master)
        if self._link_path.is_symlink() and self._link_path.readlink() == _path_of(self._slave):
            self._link_path.unlink()
        os.close(self._slave)
        os.close(self._master)

    def _link(self) -> None:
        if self._link_path.exists() and not self._link_path.is_symlink():
            raise FileExistsError(f"{self._link_path} exists and is not a link")
        self._link_path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._link_path.with_name(f".{self._link_path.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(_path_of(self._slave))
        fresh.replace(self._link_path)

    def _on_tick(self, _due_ns: int, _missed: int) -> None:
        t_ns = now_ns()
        if t_ns - self._t_heartbeat_ns >= NS_PER_S:
            self._t_heartbeat_ns = t_ns
            self._write(mavlink.Heartbeat(0, _TYPE_QUADROTOR, _AUTOPILOT_PX4, 0, mavlink.STATE_ACTIVE))
        until_ns = t_ns - self._epoch_ns
        after_ns = max(self._t_done_ns, until_ns - _BACKLOG_LIMIT_NS, 0)
        self._t_done_ns = until_ns
        if until_ns <= after_ns:
            return
        for t_motion_ns, w_radps, f_mps2 in self._motion.imu_between(after_ns, until_ns):
            if self._due(t_motion_ns):
                t_boot_ns = self.clock_ns(self._epoch_ns + t_motion_ns)
                self._write(to_message(self._message, t_boot_ns, w_radps, f_mps2))
                self.sent += 1

    def _due(self, t_motion_ns: int) -> bool:
        """Whether this sample, rather than the next, is the one closest to an interval after the last sent."""
        gap_ns = t_motion_ns - self._t_sample_ns
        self._t_sample_ns = t_motion_ns
        if t_motion_ns - self._t_sent_ns < self._interval_ns - gap_ns // 2:
            return False
        self._t_sent_ns = t_motion_ns
        return True

    def _on_readable(self) -> None:
        try:
            data = os.read(self._master, 4096)
        except BlockingIOError:
            return
        for message in self._parser.feed(data):
            if isinstance(message.body, mavlink.TimeSync) and message.body.tc1_ns == 0:
                self._write(mavlink.TimeSync(self.clock_ns(now_ns()), message.body.ts1_ns))
                self.answered += 1
            elif isinstance(message.body, mavlink.CommandLong):
                self._obey(message.body, (message.system, message.component))

    def _obey(self, command: mavlink.CommandLong, sender: tuple[int, int]) -> None:
        """As PX4 does: silent when somebody else is meant, and it fails for messages that it does not send."""
        if command.target_system != SYSTEM or command.target_component not in (COMPONENT, _EVERY_COMPONENT):
            return
        if command.command != mavlink.CMD_SET_MESSAGE_INTERVAL:
            return
        known = command.param1 == mavlink.message_id(MESSAGE_OF[self._message]) and 0 < command.param2 < _LONGEST_US
        if known:
            self._interval_ns = round(command.param2 * 1e3)
        result = mavlink.RESULT_ACCEPTED if known else mavlink.RESULT_FAILED
        self._write(mavlink.CommandAck(command.command, result, 0, 0, *sender))

    def _write(self, body: mavlink.Body) -> None:
        """Write one frame without ever waiting for a reader."""
        if self._unread_bytes() > _UNREAD_LIMIT_BYTES:
            termios.tcflush(self._slave, termios.TCIFLUSH)
            self.dropped += 1
        frame = mavlink.encode(body, self._sequence, system=SYSTEM, component=COMPONENT)
        self._sequence += 1
        try:
            os.write(self._master, frame)
        except BlockingIOError:
            self.dropped += 1

    def _unread_bytes(self) -> int:
        answer = fcntl.ioctl(self._slave, termios.FIONREAD, b"\0\0\0\0")
        count: int = struct.unpack("i", answer)[0]
        return count


def _path_of(fd: int) -> Path:
    """A path to our terminal that ends with this process, where there is one.

    The terminal's own name would outlive a killed process and soon be that of somebody else's terminal.
    """
    through_us = Path(f"/proc/{os.getpid()}/fd/{fd}")
    return through_us if through_us.exists() else Path(os.ttyname(fd))
