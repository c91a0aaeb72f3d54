"""PX4 on its own hardware (HITL).

The messages of the simulator's interface over a serial line, in real time.

A flight controller keeps its own time: samples go out as time passes, the newest motors are in
effect, and what is late is left out.
"""

from __future__ import annotations

import contextlib
from typing import Final

from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.protocols.mavlink.framing import MavlinkParser
from vil_bridge.protocols.mavlink.hil_messages import HilActuatorControls
from vil_bridge.protocols.transports import SerialTransport
from vil_simulation.autopilots.links.link import READS_AT_ONCE, AutopilotSample, RealTimeLink
from vil_simulation.autopilots.links.px4_frames import SampleFrames, is_armed, motors_of

_REOPEN_NS: Final = NS_PER_S


class Px4SerialLink(RealTimeLink):
    """Serial line of one flight controller.

    Args:
        device, baud: of the line. timeout_s: see :class:`AutopilotLink`.

    Attributes:
        dropped: samples that the line was too slow for.
    """

    def __init__(self, device: str, baud: int, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self.dropped = 0
        self._device = device
        self._baud = baud
        self._line: SerialTransport | None = None
        self._parser = MavlinkParser()
        self._frames = SampleFrames(on_board=True)
        self._tried_ns = 0

    def open(self) -> None:
        """Open the device."""
        self._line = SerialTransport(self._device, self._baud, "HIL over MAVLink")

    def receive(self) -> None:
        """Take the newest outputs.

        Open a device again that was unplugged, or whose controller started again.
        """
        line = self._line if self._line is not None else self._reopened()
        if line is None:
            return
        for _ in range(READS_AT_ONCE):
            data = line.receive()
            if data is None:
                break
            if not data:  # it hung up
                self.close()
                self._stop("ended")
                return
            for message in self._parser.feed(data):
                if isinstance(message.body, HilActuatorControls):
                    self._heard(motors_of(message.body), armed=is_armed(message.body))
        self._check_silence()

    def send(self, sample: AutopilotSample) -> None:
        """Send a sample."""
        if self._line is None:
            return
        if self._line.send(self._frames.of(sample)):
            self._count_sent()
        else:
            self.dropped += 1

    def close(self) -> None:
        """Close the device."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _reopened(self) -> SerialTransport | None:
        """Try once a second."""
        now_ns = machine_ns()
        if self.state == "ended" and now_ns - self._tried_ns >= _REOPEN_NS:
            self._tried_ns = now_ns
            with contextlib.suppress(OSError):  # it is not there yet
                self.open()
                self.state = "starting"
        return self._line
