"""The world's actors as trackers of a VRPN server (implements ``Output``).

VRPN marks nothing as lost: an actor that is not tracked has no message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, WallClock, now_ns
from vil_bridge.core.geometry import q_exp, q_rotate, zup_to_yup
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.ports import WorldView
from vil_bridge.outputs.base import OutputBase
from vil_bridge.outputs.pose_server import PoseFeed, PoseFrame, cannot_serve
from vil_bridge.outputs.vrpn.config import VrpnOutputConfig
from vil_bridge.protocols.vrpn.codec import (
    POSE,
    VELOCITY,
    Quaternion,
    TrackerPose,
    Vector,
    Velocity,
    encode_pose,
    encode_velocity,
)
from vil_bridge.protocols.vrpn.connection import VrpnConnection
from vil_bridge.protocols.vrpn.server import VrpnHooks, VrpnServer
from vil_bridge.runtime.supervisor import Status

_TURN_S: Final = NS_PER_MS / NS_PER_S
"""Time within which a velocity's rotation happens."""


class VrpnOutput(OutputBase):
    """Serves poses and velocities over VRPN.

    Attributes:
        status: counts ``frames`` with a tracked actor, and what the server counts; names
            ``address`` and ``clients``.
    """

    def __init__(self, name: str, config: VrpnOutputConfig) -> None:
        super().__init__(name)
        self._config = config

    async def run(self, world: WorldView) -> None:
        """Serve until cancelled.

        Raises:
            SinkError: the address cannot be had.
        """
        await _Session(self._config, world, self.status).run()


class _Session:
    """One opening of the server."""

    def __init__(self, config: VrpnOutputConfig, world: WorldView, status: Status) -> None:
        self._config = config
        self._world = world
        self._status = status
        self._utc_ns = WallClock.of_run().utc_ns
        self._checked_ns = 0
        self._feed = PoseFeed(world, config.actors, self._publish, status, config.rate_hz)
        hooks = VrpnHooks(clock=lambda: self._utc_ns(now_ns()), count=self._count)
        self._server = VrpnServer(self._feed.names, hooks, config.max_clients)

    async def run(self) -> None:
        """Serve until cancelled. Raises SinkError: the address cannot be had."""
        config = self._config
        try:
            port = self._server.listen(config.bind, config.port)
        except OSError as exc:
            raise cannot_serve("VRPN", f"{config.bind}:{config.port}", exc) from exc
        try:
            self._status.facts.update(address=f"{config.bind}:{port}", clients=0)
            self._status.running()
            await self._feed.run()
        finally:
            self._server.close()

    def _count(self, reason: str) -> None:
        self._status.counters[reason] += 1

    def _publish(self, frame: PoseFrame) -> None:
        """Send the poses of a frame, and after them the velocities."""
        self._housekeep()
        rows = np.flatnonzero(frame.tracked).tolist()
        self._status.counters["frames"] += bool(rows)
        clients = self._server.clients
        if not (rows and clients):
            return
        t_ns = self._utc_ns(frame.t_ns)
        p, q = self._streamed(frame.p_m, frame.q_xyzw)
        bodies = [(row, encode_pose(TrackerPose(0, p[row], q[row]))) for row in rows]
        self._send(clients, POSE, t_ns, bodies)
        v_mps, w_radps = (rates[self._feed.rows] for rates in self._world.twists())
        v, turns = self._streamed(v_mps, q_exp(q_rotate(frame.q_xyzw, w_radps) * _TURN_S))
        bodies = [(row, encode_velocity(Velocity(0, v[row], turns[row], _TURN_S))) for row in rows]
        self._send(clients, VELOCITY, t_ns, bodies)

    def _send(
        self,
        clients: Sequence[VrpnConnection],
        kind: str,
        t_ns: int,
        bodies: list[tuple[int, bytes]],
    ) -> None:
        names = self._feed.names
        messages = b"".join(
            [self._server.message(names[row], kind, t_ns, body) for row, body in bodies]
        )
        for link in clients:
            link.send(messages)

    def _streamed(
        self, p_m: FloatArray, q_xyzw: FloatArray
    ) -> tuple[list[Vector], list[Quaternion]]:
        """Return positions or velocities and attitudes or turns in the axes that are sent."""
        p, q = zup_to_yup(p_m, q_xyzw) if self._config.up_axis == "y" else (p_m, q_xyzw)
        return p.tolist(), q.tolist()

    def _housekeep(self) -> None:
        t_ns = now_ns()
        if t_ns - self._checked_ns >= NS_PER_S:
            self._checked_ns = t_ns
            self._server.housekeep(t_ns)
            self._status.facts["clients"] = self._server.connected
