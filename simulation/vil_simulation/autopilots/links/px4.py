"""PX4's simulator interface: MAVLink over TCP, in lockstep by the time of HIL_SENSOR.

PX4 connects to us. Each HIL_SENSOR sets its clock; it answers each with one HIL_ACTUATOR_CONTROLS
of the same time, but for the first ones after its start. How many those are is not known before: 11
on an idle computer, more than a hundred on a busy one. So until its first answer samples go out at
the pace of time, and a silent PX4 gets samples too: its next answer ends the silence.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from vil_bridge.core.clock import NS_PER_MS, machine_ns
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.framing import MavlinkParser
from vil_bridge.protocols.mavlink.hil_messages import HilActuatorControls
from vil_simulation.autopilots.links.link import READS_AT_ONCE, AutopilotLink, AutopilotSample
from vil_simulation.autopilots.links.px4_frames import Places, SampleFrames, is_armed, motors_of

_READ_BYTES: Final = 4096
_PERIOD_NS: Final = 4 * NS_PER_MS
"""Between its samples where nothing else is known."""


class Px4Link(AutopilotLink):
    """Server to which one PX4 connects.

    Args:
        host, port: bound to. timeout_s: see :class:`AutopilotLink`. places: of the room, for the
            ground truth that PX4 asks for; None = it gets none.

    Attributes:
        address: bound to. dropped: samples that a PX4 that read nothing had no room for.
    """

    def __init__(
        self, host: str, port: int, timeout_s: float, places: Places | None = None
    ) -> None:
        super().__init__(timeout_s)
        self.address = host, port
        self.dropped = 0
        self._places = places
        self._server: socket.socket | None = None
        self._peer: socket.socket | None = None
        self._first_us: int | None = None
        self._sent_us = -1
        self._begin()

    def open(self) -> None:
        """Listen."""
        self._server = socket.create_server(self.address, backlog=1)
        self._server.setblocking(False)

    def descriptors(self) -> tuple[int, ...]:
        """Return the peer's socket, or the listening one."""
        one = self._peer or self._server
        if one is None:
            return ()
        return (one.fileno(),)

    def receive(self) -> None:
        """Accept a peer, in place of a silent one too, and read its answers."""
        if self._peer is None or self._is_mute():
            self._accept()
        peer = self._peer
        if peer is None:
            return
        try:
            for _ in range(READS_AT_ONCE):
                data = peer.recv(_READ_BYTES)
                if not data:
                    self._lose()
                    return
                for message in self._parser.feed(data):
                    self._take(message.body)
        except BlockingIOError:
            return
        except OSError:
            self._lose()

    def send(self, sample: AutopilotSample) -> None:
        """Send HIL_SENSOR, and before it what else is new."""
        if self._peer is None:
            return
        try:
            if not self._flushed():
                self.dropped += 1
                return
            self._unsent = self._frames.of(sample)
            self._flushed()
        except OSError:
            self._lose()
            return
        self.sent += 1
        sent_us = sample.imu.t_ns // 1000
        before_us = self._sent_us
        self._sent_us = sent_us
        if self.state == "starting":
            self._pace(_PERIOD_NS if self._first_us is None else 1000 * (sent_us - before_us))
        elif self.state == "running":
            self._await_answer()
        if self._first_us is None:
            self._first_us = sent_us

    def overdue(self) -> None:
        """Go on with the next sample while it starts; count it as silent later."""
        if self.state != "starting":
            super().overdue()

    def close(self) -> None:
        """Close both sockets."""
        for one in (self._peer, self._server):
            if one is not None:
                one.close()
        self._peer = self._server = None

    def _begin(self) -> None:
        """Begin with a new peer."""
        self._parser = MavlinkParser()
        self._frames = SampleFrames(self._places)
        self._unsent = b""
        self._first_us = None
        self._sent_us = -1
        self._heard_ns = self._paced_ns = machine_ns()

    def _is_mute(self) -> bool:
        """Return True for a peer that gives way to another.

        It does not answer, for as long as that takes.
        """
        return self.state != "running" and machine_ns() - self._heard_ns > self._patience_ns

    def _accept(self) -> None:
        assert self._server is not None
        with contextlib.suppress(OSError):  # no program waits, or it has gone again
            peer, _ = self._server.accept()
            if self._peer is not None:  # its computer is gone, or it is not an autopilot
                self._peer.close()
            self._peer = peer
            self._peer.setblocking(False)
            self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._begin()
            self.state = "starting"

    def _take(self, body: mavlink.Body) -> None:
        if isinstance(body, mavlink.CommandLong):
            self._frames.obey(body)
        elif isinstance(body, HilActuatorControls):
            is_newest = body.time_usec == self._sent_us
            if not is_newest and not self._is_first(body):
                return
            self._heard_ns = machine_ns()
            self._answered(motors_of(body), armed=is_armed(body))
            if not is_newest:
                self._await_answer()  # to the newest: those before went out without waiting

    def _is_first(self, controls: HilActuatorControls) -> bool:
        """Return True for the answer that ends a start or a silence.

        To any sample that this peer got.
        """
        first_us = self._first_us
        return (
            self.state != "running"
            and first_us is not None
            and first_us <= controls.time_usec < self._sent_us
        )

    def _pace(self, period_ns: int) -> None:
        """Let the next sample go out a period after this one, so that what is late does not
        follow in a burst.
        """
        now_ns = machine_ns()
        if self._first_us is None:
            self._paced_ns = now_ns
        self._paced_ns = max(now_ns, self._paced_ns + period_ns)
        self._due_ns = self._paced_ns

    def _flushed(self) -> bool:
        """Write what is left of the newest sample.

        Return True once nothing is, False where its queue is full.

        Raises:
            OSError: the connection is gone.
        """
        assert self._peer is not None
        if self._unsent:
            with contextlib.suppress(BlockingIOError):
                self._unsent = self._unsent[self._peer.send(self._unsent) :]
        return not self._unsent

    def _lose(self) -> None:
        assert self._peer is not None
        self._peer.close()
        self._peer = None
        self._stop("ended")
