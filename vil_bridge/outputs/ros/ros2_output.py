"""The ``ros2`` output.

Pictures, poses and readings to ROS 2 nodes that run rmw_zenoh, and commands from them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import zenoh

from vil_bridge.core.clock import NS_PER_S, machine_ns, now_ns
from vil_bridge.core.errors import CommandFormatError, SinkError
from vil_bridge.interfaces.planned_path import PlannedPaths
from vil_bridge.interfaces.ports import CameraInfo, FrameSink, WorldView
from vil_bridge.interfaces.setpoints import FlyActor
from vil_bridge.interfaces.voxels import VoxelMap
from vil_bridge.outputs.base import OutputBase
from vil_bridge.outputs.pilot_commands import PilotCommands
from vil_bridge.outputs.ros.config import Ros2Config
from vil_bridge.outputs.ros.map_topics import MAPS_HZ, MapTopics
from vil_bridge.outputs.ros.path_topics import PathTopics
from vil_bridge.outputs.ros.topics import RosFeed
from vil_bridge.outputs.ros.zenoh_node import RosNode, type_hash
from vil_bridge.protocols.ros_commands import CommandReader, register_commands
from vil_bridge.protocols.ros_topics import Topic
from vil_bridge.runtime.pacing import call_periodically

_PATHS_HZ: Final = 5.0
_LOOK_NS: Final = NS_PER_S // 2
_MAX_RECEIVED_BYTES: Final = 1 << 16
"""Of a message that comes in.

Commands are small, and zenoh else allocates a gibibyte for a peer.
"""


class Ros2Output(OutputBase):
    """A ROS 2 node without ROS.

    Implements ``Output``, ``CommandedOutput``, ``MappedOutput`` and ``PathOutput``.

    The session stays when the router goes, and connects again when it comes back. A picture that no
    node reads is neither encoded nor sent.
    """

    def __init__(self, name: str, config: Ros2Config) -> None:
        super().__init__(name)
        self._config = config
        self._feed = RosFeed(config, config.distro, self._emit, self.status)
        self._maps = MapTopics(self._feed, config.maps)
        self._paths = PathTopics(self._feed, config.actors)
        self._node: RosNode | None = None
        self._pilots: PilotCommands | None = None
        self._bug: Exception | None = None

    def accept_commands(self, fly: FlyActor) -> None:
        """Pass commands on to vehicles, if the configuration says so."""
        if self._config.commands:
            register_commands(self._feed.messages.store)
            self._pilots = PilotCommands(self._config.actors, fly, self.status)

    def accept_maps(self, maps: Mapping[str, VoxelMap]) -> None:
        """Send the maps that the configuration names."""
        self._maps.accept_maps(maps)

    def accept_paths(self, paths: PlannedPaths) -> None:
        """Send the planned flights of the configuration's actors."""
        self._paths.accept_paths(paths)

    def frame_sink(self, camera: CameraInfo) -> FrameSink | None:
        """Return a thread of its own for each camera."""
        feed = self._feed.add_camera(camera)
        return self._add_sink(
            camera, feed.topics, feed.send, lambda kind: self._read(feed.topics[kind])
        )

    async def run(self, world: WorldView) -> None:
        """Be a node until cancelled.

        Raises:
            SinkError: an address to listen at cannot be had.
        """
        step = self._feed.watch(world)
        self._bug = None
        session = await asyncio.to_thread(_open, self._config)
        try:
            config = self._config
            store = self._feed.messages.store
            self._node = node = RosNode(
                session,
                config.domain,
                config.node,
                [*self._feed.topics(), *self._maps.topics(), *self._paths.topics()],
                lambda message: type_hash(store, message, config.distro),
                self._subscribed(),
            )
            self._feed.emit_static(now_ns(), world)
            self._maps.restart()
            self._paths.restart()
            await _together(
                call_periodically(self.name, self._feed.pacing.looks_hz, self._watched(node, step)),
                call_periodically(f"{self.name}-maps", MAPS_HZ, self._maps.step),
                call_periodically(f"{self.name}-paths", _PATHS_HZ, self._paths.step),
            )
        finally:
            self._node = None
            await asyncio.to_thread(session.close)

    def close(self) -> None:
        """End the threads; the session ended with :meth:`run`."""
        super().close()

    def _watched(self, node: RosNode, step: Callable[[], None]) -> Callable[[], None]:
        """``step``, looking twice a second whether anybody is there."""
        looked_ns = 0
        places = " or ".join(self._config.connect) or "no peer: it only listens"

        def watched() -> None:
            nonlocal looked_ns
            if machine_ns() - looked_ns >= _LOOK_NS:
                looked_ns = machine_ns()
                peers = self.status.facts["connected"] = node.peers
                if peers:
                    self.status.running()
                else:
                    self.status.waiting(
                        f"no zenoh router or peer yet; tried {places} (`ros2 run "
                        "rmw_zenoh_cpp rmw_zenohd`)"
                    )
            if self._bug is not None:
                raise self._bug
            step()

        return watched

    def _subscribed(self) -> dict[Topic, Callable[[bytes, bytes], None]]:
        """Return the topics of commands, each with what takes a message and its publisher's gid."""
        pilots = self._pilots
        if pilots is None:
            return {}

        def taker(actor: str, read: CommandReader) -> Callable[[bytes, bytes], None]:
            def take(message: bytes, gid: bytes) -> None:
                try:
                    pilots.command(actor, gid, read(message, self._config.world_frame))
                except CommandFormatError as exc:
                    pilots.refuse(str(exc))
                except Exception as exc:  # raised where the output runs: this is zenoh's thread
                    self._bug = exc

            return take

        return {topic: taker(actor, read) for topic, (actor, read) in self._feed.commands().items()}

    def _emit(self, topic: Topic, message: memoryview) -> None:
        node = self._node
        if node is not None:
            try:
                node.publish(topic, message)
            except zenoh.ZError as exc:
                raise SinkError(f"{topic.name}: {exc}") from exc

    def _read(self, topics: Sequence[Topic]) -> bool:
        node = self._node
        return node is not None and node.read(topics)


async def _together(*works: Coroutine[Any, Any, None]) -> None:
    """Run until one of them fails, which is raised, or until cancelled.

    All of them have ended then.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _open(config: Ros2Config) -> zenoh.Session:
    """Open a session that goes on connecting in the background; takes half a second.

    Raises:
        SinkError: an address to listen at cannot be had.
    """
    settings: dict[str, Any] = {
        "mode": "peer",
        "connect/endpoints": list(config.connect),
        "listen/endpoints": list(config.listen),
        "scouting/multicast/enabled": config.multicast,
        "timestamping/enabled": True,  # what a latched topic keeps is ordered by time
        "transport/link/rx/max_message_size": _MAX_RECEIVED_BYTES,
    }
    zenoh_config = zenoh.Config()
    for key, value in settings.items():
        zenoh_config.insert_json5(key, json.dumps(value))
    try:
        return zenoh.open(zenoh_config)
    except zenoh.ZError as exc:
        raise SinkError(f"zenoh: {str(exc).partition(' at /')[0]}") from exc
