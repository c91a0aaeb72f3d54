"""Emulated vehicle that sends its pose.

MAVLink over UDP or an emulated serial line, driven by a motion.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_adapters.emulation.mavlink_autopilot import EmulatedAutopilot
from vil_adapters.emulation.pseudo_terminal import PseudoTerminal
from vil_adapters.mavlink_vehicle.config import VehicleEmulatorConfig
from vil_adapters.mavlink_vehicle.convert import VehiclePose, to_local_position, to_odometry
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.sockets import udp_socket, waiting_datagrams
from vil_bridge.runtime.datagrams import Address

_SENT: Final[dict[str, tuple[type[mavlink.Body], ...]]] = {
    "odometry": (mavlink.Odometry,),
    "local-position": (mavlink.AttitudeQuaternion, mavlink.LocalPositionNed),
}
_FRAME_IDS: Final = {"ned": mavlink.FRAME_LOCAL_NED, "frd": mavlink.FRAME_LOCAL_FRD}
_BOOTING_NS: Final = NS_PER_S
_STATUS_INTERVAL_NS: Final = NS_PER_S // 5
_KNOWS_ALL: Final = mavlink.ESTIMATE_ATTITUDE | mavlink.ESTIMATE_POSITION
_WELL_WITHIN_GATES: Final = 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01
_MAX_LISTENERS: Final = 8


class VehicleEmulator(Emulator):
    """The first subject of ``motion`` as an autopilot's estimate of itself.

    Its clock began ``boot_s`` before the epoch, and begins again at each restart. While its subject
    is occluded, the estimator reports a failure.

    Attributes:
        port: UDP port, known after the start.
    """

    def __init__(
        self,
        config: VehicleEmulatorConfig,
        motion: MocapMotion,
        epoch_ns: int,
        faults: Faults | None = None,
    ) -> None:
        super().__init__(
            motion,
            config.rate_hz,
            epoch_ns,
            faults,
            stream=config.link is not None,
            drift_ppm=config.clock_drift_ppm,
        )
        self.port = config.port
        self._config = config
        self._boot_ns = epoch_ns - round(config.boot_s * NS_PER_S)
        self._autopilot = self._new_autopilot()
        self._parser = framing.MavlinkParser()
        self._socket: socket.socket | None = None
        self._terminal: PseudoTerminal | None = None
        self._listeners: dict[Address, Callable[[bytes], None]] = {}
        self._reset_counter = 0
        self._heartbeat_ns = 0

    def foreign_ns(self, t_ns: int) -> int:
        """Return the vehicle's clock, since its boot, at a bridge time."""
        return self.server.foreign_ns(t_ns) - self._boot_ns

    def relocalise(self) -> None:
        """Let the estimate jump: increment the reset counter."""
        self._reset_counter = (self._reset_counter + 1) % 256

    # --- life -------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Boot: bind, or open the terminal.

        Raises:
            OSError: the port is taken, or the link cannot be made.
        """
        if self.server.started_ns >= 0:
            self._boot_ns = now_ns() - _BOOTING_NS
        config = self._config
        self._autopilot, self._parser = self._new_autopilot(), framing.MavlinkParser()
        loop = asyncio.get_running_loop()
        if config.link is not None:
            self._terminal = PseudoTerminal(Path(config.link))
            loop.add_reader(self._terminal.fileno(), self.server.guarded(self._on_terminal))
            return
        self._socket = udp_socket(config.bind, self.port)
        self.port = self._socket.getsockname()[1]
        loop.add_reader(self._socket, self.server.guarded(self._on_datagrams))
        if config.target is not None:
            self._add_listener(config.target)

    def close(self) -> None:
        """Release everything at once; may be called twice."""
        loop = asyncio.get_running_loop()
        for port in (self._socket, self._terminal):
            if port is not None:
                loop.remove_reader(port.fileno())
                port.close()
        self._socket = self._terminal = None
        self._listeners.clear()

    def _new_autopilot(self) -> EmulatedAutopilot:
        kinds = _SENT[self._config.message]
        intervals_ns: dict[type[mavlink.Body], int] = dict.fromkeys(kinds, 0)
        intervals_ns[mavlink.EstimatorStatus] = _STATUS_INTERVAL_NS
        return EmulatedAutopilot(lambda: self.foreign_ns(now_ns()), intervals_ns)

    # --- in ---------------------------------------------------------------------------------------

    def _on_terminal(self) -> None:
        if self._terminal is not None:
            self._answer(self._parser.feed(self._terminal.read()), self._terminal.write)

    def _on_datagrams(self) -> None:
        if self._socket is None:
            return
        for datagram, sender, _ in waiting_datagrams(self._socket):
            messages = framing.MavlinkParser().feed(datagram)
            if messages and self._add_listener(sender):
                self._answer(messages, self._listeners[sender])
            elif not messages:
                self.server.count("malformed")

    def _add_listener(self, address: Address) -> bool:
        """Send to this address from now on; False when there are too many."""
        if address not in self._listeners and len(self._listeners) < _MAX_LISTENERS:
            self._listeners[address] = partial(self._send_to, address)
            self._heartbeat_ns = 0  # the next frame sends one
        return address in self._listeners

    def _answer(
        self, messages: list[framing.MavlinkMessage], send: Callable[[bytes], None]
    ) -> None:
        for frame in self._autopilot.replies(messages):
            self.server.send(send, frame)

    # --- out --------------------------------------------------------------------------------------

    def _on_frame(self, frame: EmulatedFrame) -> None:
        if now_ns() - self._heartbeat_ns >= NS_PER_S:
            self._heartbeat_ns = now_ns()
            self._send(self._autopilot.heartbeat())
        tracked = bool(frame.seen.tracked[0])
        for body in self._bodies(frame, tracked=tracked):
            if self._autopilot.due(type(body), frame.t_ns):
                self._send(self._autopilot.frame(body))

    def _bodies(self, frame: EmulatedFrame, *, tracked: bool) -> tuple[mavlink.Body, ...]:
        pose = VehiclePose(self.foreign_ns(frame.t_ns), frame.seen.p_m[0], frame.seen.q_xyzw[0])
        flags = _KNOWS_ALL if tracked else mavlink.ESTIMATE_ATTITUDE
        status = mavlink.EstimatorStatus(pose.t_ns // 1000, *_WELL_WITHIN_GATES, flags)
        if self._config.message == "local-position":
            return status, *to_local_position(pose)
        frame_id = _FRAME_IDS[self._config.frame]
        return status, to_odometry(pose, frame_id, self._reset_counter, tracked=tracked)

    def _send(self, frame: bytes) -> None:
        if self._terminal is not None:
            self.server.send(self._terminal.write, frame)
            return
        for send in tuple(self._listeners.values()):
            self.server.send(send, frame)

    def _send_to(self, address: Address, frame: bytes) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(frame, address)
        except OSError:
            self.server.count("unsent")
