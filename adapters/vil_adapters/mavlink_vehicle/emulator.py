"""A vehicle that tells its pose: real MAVLink bytes over UDP or an emulated serial line, driven by a motion."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from vil_adapters.emulation.emulator import EmulatedFrame, EmulatedServer, Emulator
from vil_adapters.emulation.mavlink_autopilot import Autopilot
from vil_adapters.emulation.pseudo_terminal import PseudoTerminal
from vil_adapters.mavlink_vehicle.config import VehicleEmulatorConfig
from vil_adapters.mavlink_vehicle.convert import VehiclePose, to_local_position, to_odometry
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.faults import Faults
from vil_bridge.core.ports import MocapMotion
from vil_bridge.protocols.mavlink import framing as mavlink

__all__ = ["VehicleEmulator"]

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
_MAX_DATAGRAMS_PER_WAKE: Final = 64
_DATAGRAM_BYTES: Final = 2048

Address = tuple[str, int]


class VehicleEmulator(Emulator):
    """The first subject of ``motion`` as an autopilot's estimate of itself.

    Its clock began ``boot_s`` before the epoch, and begins again at each restart. While its subject
    is occluded, the estimator says that it failed.

    Attributes:
        port: UDP port, known after the start.
    """

    def __init__(
        self,
        config: VehicleEmulatorConfig,
        motion: MocapMotion,
        epoch_ns: int,
        faults: Faults = Faults(),  # noqa: B008 - frozen
    ) -> None:
        self.port = config.port
        self._config = config
        self._boot_ns = epoch_ns - round(config.boot_s * NS_PER_S)
        self._autopilot = self._fresh_autopilot()
        self._parser = mavlink.MavlinkParser()
        self._socket: socket.socket | None = None
        self._terminal: PseudoTerminal | None = None
        self._listeners: dict[Address, Callable[[bytes], None]] = {}
        self._reset_counter = 0
        self._heartbeat_ns = 0
        self.stage = EmulatedServer(
            motion,
            config.rate_hz,
            epoch_ns,
            faults,
            on_shot=self._on_shot,
            on_power=self._on_power,
            stream=config.link is not None,
        )

    def foreign_ns(self, t_ns: int) -> int:
        """The vehicle's clock, since its boot, at a bridge time."""
        return self.stage.foreign_ns(t_ns, drift_ppm=self._config.clock_drift_ppm) - self._boot_ns

    def relocalise(self) -> None:
        """Let the estimate jump: the reset counter goes up."""
        self._reset_counter = (self._reset_counter + 1) % 256

    # --- life --------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Bind, or open the terminal.

        Raises:
            OSError: the port is taken, or the link cannot be made.
        """
        if self.stage.started_ns >= 0:
            self._boot_ns = now_ns() - _BOOTING_NS
        self._power_up()

    def close(self) -> None:
        """Release everything at once; may be called twice."""
        loop = asyncio.get_running_loop()
        for port in (self._socket, self._terminal):
            if port is not None:
                loop.remove_reader(port.fileno())
                port.close()
        self._socket = self._terminal = None
        self._listeners.clear()

    def _on_power(self, up: bool) -> None:
        if up:
            self._boot_ns = now_ns() - _BOOTING_NS
            self._power_up()
        else:
            self.close()

    def _power_up(self) -> None:
        config = self._config
        self._autopilot, self._parser = self._fresh_autopilot(), mavlink.MavlinkParser()
        loop = asyncio.get_running_loop()
        if config.link is not None:
            self._terminal = PseudoTerminal(Path(config.link))
            loop.add_reader(self._terminal.fileno(), self.stage.guarded(self._on_terminal))
            return
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.bind((config.bind, self.port))
        except OSError:
            sock.close()
            raise
        self._socket, self.port = sock, sock.getsockname()[1]
        loop.add_reader(sock.fileno(), self.stage.guarded(self._on_datagrams))
        if config.target is not None:
            self._listen_to(config.target)

    def _fresh_autopilot(self) -> Autopilot:
        kinds = _SENT[self._config.message]
        intervals_ns: dict[type[mavlink.Body], int] = dict.fromkeys(kinds, 0)
        intervals_ns[mavlink.EstimatorStatus] = _STATUS_INTERVAL_NS
        return Autopilot(lambda: self.foreign_ns(now_ns()), intervals_ns)

    # --- in ----------------------------------------------------------------------------------------

    def _on_terminal(self) -> None:
        if self._terminal is not None:
            self._answer(self._parser.feed(self._terminal.read()), self._terminal.write)

    def _on_datagrams(self) -> None:
        for _ in range(_MAX_DATAGRAMS_PER_WAKE):
            if self._socket is None:
                return
            try:
                datagram, sender = self._socket.recvfrom(_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue  # an answer to somebody who has gone
            messages = mavlink.MavlinkParser().feed(datagram)
            if messages and self._listen_to(sender):
                self._answer(messages, self._listeners[sender])
            elif not messages:
                self.stage.count("malformed")

    def _listen_to(self, address: Address) -> bool:
        """Send to this address from now on; False when too many want it."""
        if address not in self._listeners and len(self._listeners) < _MAX_LISTENERS:
            self._listeners[address] = partial(self._send_to, address)
            self._heartbeat_ns = 0  # a newcomer need not wait for it
        return address in self._listeners

    def _answer(self, messages: list[mavlink.MavlinkMessage], send: Callable[[bytes], None]) -> None:
        for frame in self._autopilot.replies(messages):
            self.stage.send(send, frame)

    # --- out ---------------------------------------------------------------------------------------

    def _on_shot(self, shot: EmulatedFrame) -> None:
        if now_ns() - self._heartbeat_ns >= NS_PER_S:
            self._heartbeat_ns = now_ns()
            self._send(self._autopilot.heartbeat())
        tracked = bool(shot.seen.tracked[0])
        for body in self._told(shot, tracked=tracked):
            if self._autopilot.due(type(body), shot.t_ns):
                self._send(self._autopilot.frame(body))

    def _told(self, shot: EmulatedFrame, *, tracked: bool) -> tuple[mavlink.Body, ...]:
        pose = VehiclePose(self.foreign_ns(shot.t_ns), shot.seen.p_m[0], shot.seen.q_xyzw[0])
        flags = _KNOWS_ALL if tracked else mavlink.ESTIMATE_ATTITUDE
        status = mavlink.EstimatorStatus(pose.t_ns // 1000, *_WELL_WITHIN_GATES, flags)
        if self._config.message == "local-position":
            return status, *to_local_position(pose)
        frame_id = _FRAME_IDS[self._config.frame]
        return status, to_odometry(pose, frame_id, self._reset_counter, tracked=tracked)

    def _send(self, frame: bytes) -> None:
        for send in (self._terminal.write,) if self._terminal is not None else tuple(self._listeners.values()):
            self.stage.send(send, frame)

    def _send_to(self, address: Address, frame: bytes) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(frame, address)
        except OSError:
            self.stage.count("unsent")
