"""Measured pose of a vehicle for its autopilot (implements ``Output``).

Sent is the newest measurement, as the filter sees it, with the time at which it was taken, never a
prediction and never the same one twice: the autopilot's own estimator carries it on. While the
vehicle is not tracked nothing is sent, so that the autopilot notices by itself.
"""

from __future__ import annotations

import math
from contextlib import closing
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.geometry import Transform, q_conj, q_log, q_mul, q_rotate
from vil_bridge.core.types import TrackingState
from vil_bridge.interfaces.ports import WorldView
from vil_bridge.outputs.base import OutputBase
from vil_bridge.outputs.mavlink.config import MavlinkPoseConfig
from vil_bridge.outputs.mavlink.session import AutopilotSession
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.pose_messages import FRAME_IDS, Measured, Spread, message_of
from vil_bridge.protocols.transports import Transport, open_transport
from vil_bridge.runtime.supervisor import Status

_SILENT_NS: Final = NS_PER_S
_GONE_NS: Final = 3 * NS_PER_S
_TWIST_KNOWN_NS: Final = 100 * NS_PER_MS
_GAP_NS: Final = 250 * NS_PER_MS
_FASTEST_MPS: Final = 30.0
_FASTEST_RADPS: Final = 40.0
"""Largest step that the world takes for motion by default.

A longer one that it accepted is a jump.
"""
_SLACK_M: Final = 0.05
_SLACK_RAD: Final = 0.1
_BELIEVED: Final = (TrackingState.TRACKED, TrackingState.COASTING)


class MavlinkPoseOutput(OutputBase):
    """One actor's pose to one autopilot, on a line that may vanish and come back.

    Attributes:
        status: counts ``sent``, and ``jumps`` of the pose.
    """

    def __init__(self, name: str, config: MavlinkPoseConfig) -> None:
        super().__init__(name)
        self._config = config
        self._poses = _Poses(config.actors[0], self.status)

    async def run(self, world: WorldView) -> None:
        """Send the pose until cancelled; a serial device is waited for.

        Raises:
            SinkError: UDP: the other side is unknown, no interface leads there, or the port is
                taken.
        """
        while True:
            try:
                opened = await open_transport(self._config, self.status)
            except OSError as exc:
                raise SinkError(exc.strerror or str(exc)) from exc
            with closing(opened) as transport:
                await _PoseSession(
                    self.name, self._config, transport, self._poses, world, self.status
                ).run()


class _PoseSession(AutopilotSession):
    """One opening of the transport."""

    def __init__(
        self,
        name: str,
        config: MavlinkPoseConfig,
        transport: Transport,
        poses: _Poses,
        world: WorldView,
        status: Status,
    ) -> None:
        super().__init__(name, transport, (config.system, config.component), config.rate_hz, status)
        self._config = config
        self._poses = poses
        self._world = world
        self._spread = Spread(
            config.position_std_m, math.radians(config.attitude_std_deg), config.velocity_std_mps
        )
        self._t_sent_ns = now_ns()
        self._autopilot: tuple[int, int] | None = None
        self._knows_origin = False

    def on_tick(self) -> None:
        """Send the newest pose, if it is new."""
        pose = self._poses.next(self._world)
        if pose is None:
            return
        frame_id = FRAME_IDS[self._config.frame]
        self.port.send(message_of(self._config.message, frame_id, pose, self._spread))
        self._t_sent_ns = now_ns()
        self.status.counters["sent"] += 1
        self.status.running()

    def on_heartbeat(self) -> None:
        """Send the origin to an autopilot that does not know it, and report silence."""
        t_ns = now_ns()
        if self._autopilot is not None and t_ns - self._autopilot[1] > _GONE_NS:
            self._autopilot = None
            self._knows_origin = False
            self.status.facts["autopilot"] = None
        origin = self._config.origin
        if origin is not None and self._autopilot is not None and not self._knows_origin:
            where = (
                round(origin.lat_deg * 1e7),
                round(origin.lon_deg * 1e7),
                round(origin.alt_m * 1e3),
            )
            self.port.send(mavlink.SetGpsGlobalOrigin(*where, self._autopilot[0], t_ns // 1000))
        if t_ns - self._t_sent_ns > _SILENT_NS:
            actor = self._config.actors[0]
            state = self._world.state_of(actor)
            self.status.waiting(f"{actor} is {state}: nothing is sent on {self.transport.place}")

    def on_message(self, message: framing.MavlinkMessage, t_arrival_ns: int) -> None:
        """Answer clock requests, and notice the autopilot and what it knows."""
        super().on_message(message, t_arrival_ns)
        body = message.body
        if isinstance(body, mavlink.Heartbeat):
            if body.autopilot != mavlink.AUTOPILOT_INVALID:
                self._autopilot = message.system, t_arrival_ns
                self.status.facts["autopilot"] = {"system": message.system, "type": body.autopilot}
        elif isinstance(body, mavlink.GpsGlobalOrigin):
            self._knows_origin = True


class _Poses:
    """Selector of what is sent of an actor: each measurement once, in the order of their times."""

    def __init__(self, actor: str, status: Status) -> None:
        self._actor = actor
        self._status = status
        self._sent: tuple[Transform, int, int] | None = None
        self._since_ns = 0
        self._was_reset = False
        self._resets = 0

    def next(self, world: WorldView) -> Measured | None:
        """Return the newest measurement, None when it was sent before."""
        newest = world.newest(self._actor)
        if newest is None or world.state_of(self._actor) not in _BELIEVED:
            self._was_reset |= newest is None and self._sent is not None
            return None
        T_world_body, t_ns, t_arrival_ns = newest
        sent = self._sent
        if sent is not None and t_arrival_ns == sent[2]:
            return None
        if sent is not None and t_ns // 1000 <= sent[1] // 1000:
            self._status.counters["out_of_order"] += 1
            return None
        jumped = sent is not None and (
            self._was_reset or _is_jump(sent[0], T_world_body, t_ns - sent[1])
        )
        if sent is None or jumped or t_ns - sent[1] > _GAP_NS:
            self._since_ns = t_ns
        self._resets += jumped
        self._status.counters["jumps"] += jumped
        self._was_reset = False
        self._sent = newest
        if t_ns - self._since_ns < _TWIST_KNOWN_NS:
            return Measured(t_ns, T_world_body, None, None, self._resets)
        motion = world.motion_at(self._actor, t_ns + 1)  # at the pose itself mocap alone is asked
        if motion.covariance is not None:  # which is that of the estimate, not of a single pose
            T_world_body = motion.T_world_body
        v_body_mps = q_rotate(q_conj(T_world_body.q_xyzw), motion.v_world_mps)
        return Measured(
            t_ns, T_world_body, v_body_mps, motion.w_body_radps, self._resets, motion.covariance
        )


def _is_jump(before: Transform, after: Transform, dt_ns: int) -> bool:
    dt_s = dt_ns / NS_PER_S
    moved_m = float(np.linalg.norm(after.p_m - before.p_m))
    turned_rad = float(np.linalg.norm(q_log(q_mul(q_conj(before.q_xyzw), after.q_xyzw))))
    return (
        moved_m > _SLACK_M + _FASTEST_MPS * dt_s or turned_rad > _SLACK_RAD + _FASTEST_RADPS * dt_s
    )
