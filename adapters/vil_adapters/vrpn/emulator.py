"""Emulated VRPN server: real bytes on real sockets, driven by simulated or recorded motion."""

from __future__ import annotations

from typing import Final

from vil_adapters.emulation.emulator import EmulatedFrame, Emulator
from vil_adapters.vrpn.config import VrpnEmulatorConfig
from vil_adapters.vrpn.convert import VrpnFrame, sender_and_sensor
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.geometry import q_conj, q_mul
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.protocols.vrpn.codec import (
    POSE,
    VELOCITY,
    TrackerPose,
    Velocity,
    encode_pose,
    encode_velocity,
)
from vil_bridge.protocols.vrpn.server import VrpnHooks, VrpnServer

_MAX_CLIENTS: Final = 16
_STEP_NS: Final = NS_PER_MS
_DITHER_M: Final = 1e-9
"""A pose solved from images never repeats exactly.

Clients treat one that does as lost or frozen.
"""
_ZERO: Final = TrackerPose(0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))


class VrpnEmulator(Emulator):
    """Server of the rigid bodies of ``motion`` as VRPN trackers, with velocities.

    Clients connect by TCP or ask by UDP to be connected to. Messages of one instant form one chunk,
    to which the faults apply as a whole.

    Attributes:
        port: TCP and UDP port, known after the start.
    """

    def __init__(
        self,
        config: VrpnEmulatorConfig,
        motion: MocapMotion,
        epoch_ns: int,
        faults: Faults | None = None,
    ) -> None:
        super().__init__(
            motion,
            config.rate_hz,
            epoch_ns,
            faults,
            stream=True,
            offset_s=config.clock_offset_s,
            drift_ppm=config.clock_drift_ppm,
        )
        self.port = config.port
        self._config = config
        self._frame = VrpnFrame(config.units, config.up_axis)
        self._last: dict[str, TrackerPose] = {}
        self._vrpn = self._new_server()

    @property
    def clients(self) -> int:
        """Return the number of open connections."""
        return self._vrpn.connected

    def close(self) -> None:
        """Release all sockets at once; may be called twice."""
        self._vrpn.close()

    def listen(self) -> None:
        """Bind and listen.

        Raises:
            OSError: a port is taken.
        """
        self._vrpn = self._new_server()
        self.port = self._vrpn.listen(self._config.bind, self.port)

    def _new_server(self) -> VrpnServer:
        devices = dict.fromkeys(sender_and_sensor(name)[0] for name in self.server.motion.subjects)
        hooks = VrpnHooks(
            clock=lambda: self.foreign_ns(now_ns()),
            count=self.server.count,
            send=lambda link, data: self.server.send(link.send, data),
            silent=lambda: self.server.silent,
            guard=self.server.guarded,
        )
        return VrpnServer(tuple(devices), hooks, _MAX_CLIENTS)

    # --- frames -----------------------------------------------------------------------------------

    def _on_frame(self, frame: EmulatedFrame) -> None:
        chunk = self._poses(frame)
        for link in self._vrpn.clients:
            if chunk:
                self.server.send(
                    link.send, chunk, latency_ns=round(self._config.latency_ms * NS_PER_MS)
                )

    def _poses(self, frame: EmulatedFrame) -> bytes:
        """Return the pose and velocity messages of one frame."""
        t_ns = self.foreign_ns(frame.t_ns)
        seen = frame.seen
        p, q = self._frame.from_room(seen.p_m, seen.q_xyzw)
        p = p + _DITHER_M * (frame.number % 2)
        v, turn = self._rates(frame.t_ns - self.server.epoch_ns)
        chunk: list[bytes] = []
        for i, name in enumerate(seen.subjects):
            sender, sensor = sender_and_sensor(name)
            pose = TrackerPose(sensor, _three(p[i]), _four(q[i]))
            if seen.tracked[i]:
                self._last[name] = pose
                velocity = encode_velocity(
                    Velocity(sensor, _three(v[i]), _four(turn[i]), _STEP_NS / NS_PER_S)
                )
                chunk.append(self._vrpn.message(sender, VELOCITY, t_ns, velocity))
            elif self._config.untracked == "omit":
                continue
            else:
                zero = _ZERO._replace(sensor=sensor)
                pose = self._last.get(name, zero) if self._config.untracked == "repeat" else zero
            chunk.append(self._vrpn.message(sender, POSE, t_ns, encode_pose(pose)))
        return b"".join(chunk)

    def _rates(self, t_ns: int) -> tuple[FloatArray, FloatArray]:
        """Return velocities (n, 3) in streamed units per second, and rotations (n, 4) within a
        millisecond.
        """
        now = self.server.motion.at(t_ns)
        later = self.server.motion.at(t_ns + _STEP_NS)
        turn = q_mul(later.q_xyzw, q_conj(now.q_xyzw))
        return self._frame.from_room((later.p_m - now.p_m) * (NS_PER_S / _STEP_NS), turn)


def _three(values: FloatArray) -> tuple[float, float, float]:
    x, y, z = values.tolist()
    return x, y, z


def _four(values: FloatArray) -> tuple[float, float, float, float]:
    x, y, z, w = values.tolist()
    return x, y, z, w
