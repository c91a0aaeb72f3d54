"""Planned flights as ``nav_msgs/Path`` on latched topics, each sent when it is new."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.interfaces.planned_path import PlannedPath, PlannedPaths
from vil_bridge.outputs.ros.topics import RosFeed
from vil_bridge.protocols.ros_topics import Topic


class PathTopics:
    """Topics ``/NAMESPACE/ACTOR/planned_path`` of some actors; for one thread.

    An actor whose flight has ended, or was withdrawn, gets a path without poses.

    Args:
        feed: serialises and sends.
        actors: whose flights are sent.
    """

    def __init__(self, feed: RosFeed, actors: Sequence[str]) -> None:
        self._feed = feed
        self._actors = actors
        self._paths: PlannedPaths = dict
        self._sent: dict[str, bytes] = {}

    def accept_paths(self, paths: PlannedPaths) -> None:
        """Take what returns the flights now."""
        self._paths = paths

    def topics(self) -> list[Topic]:
        """Return the topics of all actors."""
        return [self._topic(actor) for actor in self._actors]

    def step(self) -> None:
        """Send the flights that are new, and the ends of others."""
        paths = self._paths()
        for actor in self._actors:
            path = paths.get(actor)
            known = b"" if path is None else b"%d %b" % (path.begins_ns, path.p_world_m.tobytes())
            if known != self._sent.get(actor, b""):
                self._sent[actor] = known
                self._send(actor, path)

    def restart(self) -> None:
        """Send all of them again: their readers are new."""
        self._sent.clear()

    def _send(self, actor: str, path: PlannedPath | None) -> None:
        feed = self._feed
        if path is None:
            path = PlannedPath(0, np.zeros(0), np.zeros((0, 3)), np.zeros(0))
        begins_ns = feed.wall_clock.utc_ns(path.begins_ns)
        half = 0.5 * path.yaw_rad
        q_xyzw = np.column_stack((np.zeros((len(half), 2)), np.sin(half), np.cos(half)))
        t_ns = [begins_ns + round(t_s * NS_PER_S) for t_s in path.t_s.tolist()]
        message = feed.messages.path(
            begins_ns, feed.config.world_frame, t_ns, path.p_world_m, q_xyzw
        )
        feed.emit(self._topic(actor), message)
        feed.status.counters["paths"] += 1

    def _topic(self, actor: str) -> Topic:
        return Topic(
            self._feed.name(actor, "planned_path"), "nav_msgs/msg/Path", latched=True, depth=1
        )
