"""PX4 on its own hardware (HITL): the messages of the simulator's interface over a serial line, in real time.

A flight controller keeps its own time: samples go out as time passes, the newest motors are in effect, and what is late
is left out.
"""

from __future__ import annotations

from vil_bridge.protocols.autopilots.link import AutopilotSample, RealTimeLink
from vil_bridge.protocols.autopilots.px4 import SampleFrames, motors_of
from vil_bridge.protocols.mavlink.framing import MavlinkParser
from vil_bridge.protocols.mavlink.hil_messages import HilActuatorControls
from vil_bridge.protocols.transports import SerialTransport


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
        self._device, self._baud = device, baud
        self._line: SerialTransport | None = None
        self._parser = MavlinkParser()
        self._frames = SampleFrames()

    def open(self) -> None:
        """Open the device."""
        self._line = SerialTransport(self._device, self._baud, "HIL over MAVLink")

    def receive(self) -> None:
        """Take the newest outputs."""
        while self._line is not None:
            data = self._line.receive()
            if data is None:
                break
            if not data:  # it hung up: unplugged, or switched off
                self._stop("ended")
                return
            for message in self._parser.feed(data):
                if isinstance(message.body, HilActuatorControls):
                    self._heard(motors_of(message.body))
        self._check_silence()

    def send(self, sample: AutopilotSample) -> None:
        """Send a sample."""
        if self._line is None or self.state == "ended":
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
