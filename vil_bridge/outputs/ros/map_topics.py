"""Occupancy maps as ``octomap_msgs/Octomap`` on latched topics, each sent when it changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from vil_bridge.interfaces.voxels import VoxelMap
from vil_bridge.outputs.ros.topics import RosFeed
from vil_bridge.protocols.ros_topics import Topic

MAPS_HZ: Final = 1.0
"""Maps per second at most: each is sent whole."""


class MapTopics:
    """Topics ``/NAMESPACE/MAP/octomap`` of some maps.

    For one thread, since a large map takes a second to write.

    Args:
        feed: serialises and sends.
        names: of the maps that are sent.
    """

    def __init__(self, feed: RosFeed, names: Sequence[str]) -> None:
        self._feed = feed
        self._names = names
        self._maps: Mapping[str, VoxelMap] = {}
        self._sent: dict[str, int] = {}

    def accept_maps(self, maps: Mapping[str, VoxelMap]) -> None:
        """Take the bridge's maps by name."""
        self._maps = {name: maps[name] for name in self._names if name in maps}

    def topics(self) -> list[Topic]:
        """Return the topics of all maps."""
        return [self._topic(name) for name in self._names]

    def step(self) -> None:
        """Send the maps that changed since the last call."""
        for name, found in self._maps.items():
            if found.number not in (0, self._sent.get(name)):
                snapshot = found.snapshot()
                self._sent[name] = snapshot.number
                stamp_ns = self._feed.wall_clock.utc_ns(snapshot.t_ns)
                message = self._feed.messages.octomap(
                    stamp_ns, self._feed.config.world_frame, snapshot.tree
                )
                self._feed.emit(self._topic(name), message)
                self._feed.status.counters["maps"] += 1

    def restart(self) -> None:
        """Send all of them again: their readers are new."""
        self._sent.clear()

    def _topic(self, name: str) -> Topic:
        return Topic(
            self._feed.name(name, "octomap"), "octomap_msgs/msg/Octomap", latched=True, depth=1
        )
