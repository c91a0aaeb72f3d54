"""An autopilot's telemetry port.

Real MAVLink bytes on a real pseudo-terminal, driven by a motion.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Final

from vil_adapters.emulation.mavlink_autopilot import EmulatedAutopilot
from vil_adapters.emulation.pseudo_terminal import PseudoTerminal
from vil_adapters.mavlink_imu.codec import MESSAGE_OF, ImuKind, to_message
from vil_bridge.core.clock import NS_PER_S, Ticker, now_ns
from vil_bridge.interfaces.ports import InertialMotion
from vil_bridge.protocols.mavlink import framing

_TICK_NS: Final = 3_500_000
_BACKLOG_LIMIT_NS: Final = 100_000_000


class SerialImuEmulator:
    """A flight controller that has been on for ``boot_offset_ns`` when the motion starts.

    Its clock shows ``boot_offset_ns + (t - epoch_ns) * (1 + drift_ppm / 1e6)`` at bridge time
    ``t``. Like PX4 it obeys only requests that are addressed to it, and sends a sample when it is
    due: at ``initial_rate_hz`` (None = each one that the motion has) until another rate is asked
    for. Use it as a context manager inside a running loop, or ``run`` it until cancelled.

    Attributes:
        sent: inertial messages written.
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
        interval_ns = 0 if initial_rate_hz is None else round(NS_PER_S / initial_rate_hz)
        self._autopilot = EmulatedAutopilot(
            lambda: self.clock_ns(now_ns()), {MESSAGE_OF[message]: interval_ns}
        )
        self._ticker = Ticker(_TICK_NS, self._on_tick)
        self._parser = framing.MavlinkParser()
        self._terminal: PseudoTerminal | None = None
        self._t_done_ns = 0
        self._t_heartbeat_ns = 0
        self.sent = 0

    @property
    def dropped(self) -> int:
        """Return how often unread bytes were dropped, or a message found no room."""
        return 0 if self._terminal is None else self._terminal.dropped

    @property
    def answered(self) -> int:
        """Return the number of answered clock requests."""
        return self._autopilot.answered

    def clock_ns(self, t_bridge_ns: int) -> int:
        """Return the emulated controller's own clock."""
        elapsed_ns = t_bridge_ns - self._epoch_ns
        return self._boot_offset_ns + elapsed_ns + round(elapsed_ns * self._drift)

    async def run(self) -> None:
        """Emulate until cancelled."""
        with self:
            await asyncio.Event().wait()

    def __enter__(self) -> SerialImuEmulator:
        terminal = self._terminal = PseudoTerminal(self._link_path)
        self._t_done_ns = now_ns() - self._epoch_ns
        asyncio.get_running_loop().add_reader(terminal.fileno(), self._on_readable, terminal)
        self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ticker.stop()
        if self._terminal is not None:
            asyncio.get_running_loop().remove_reader(self._terminal.fileno())
            self._terminal.close()

    def _on_tick(self, _due_ns: int, _missed: int) -> None:
        assert self._terminal is not None
        t_ns = now_ns()
        if t_ns - self._t_heartbeat_ns >= NS_PER_S:
            self._t_heartbeat_ns = t_ns
            self._terminal.write(self._autopilot.heartbeat())
        until_ns = t_ns - self._epoch_ns
        after_ns = max(self._t_done_ns, until_ns - _BACKLOG_LIMIT_NS, 0)
        self._t_done_ns = until_ns
        if until_ns <= after_ns:
            return
        for t_motion_ns, w_radps, f_mps2 in self._motion.imu_between(after_ns, until_ns):
            if self._autopilot.due(MESSAGE_OF[self._message], t_motion_ns):
                t_boot_ns = self.clock_ns(self._epoch_ns + t_motion_ns)
                sample = to_message(self._message, t_boot_ns, w_radps, f_mps2)
                self._terminal.write(self._autopilot.frame(sample))
                self.sent += 1

    def _on_readable(self, terminal: PseudoTerminal) -> None:
        for frame in self._autopilot.replies(self._parser.feed(terminal.read())):
            terminal.write(frame)
