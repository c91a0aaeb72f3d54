"""The ``ros-bag`` output: a session as a ROS 1 bag, or as a ROS 2 bag in MCAP.

A thread of its own writes; what waits for it is bounded in bytes, and what does not fit is counted.
Messages carry the time at which they were handed over as their time of recording, and in their
headers the time of capture. A file of a gigabyte is finished and a new one begun, since the writers
keep their index in memory.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rosbags.interfaces import Connection
from rosbags.rosbag1 import Writer as Ros1Writer
from rosbags.rosbag1 import WriterError as Ros1Error
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Ros2Writer
from rosbags.rosbag2 import WriterError as Ros2Error
from rosbags.typesys.store import Typestore

from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.threads import ContextThread
from vil_bridge.interfaces.ports import CameraInfo, FrameSink, WorldView
from vil_bridge.outputs.base import OutputBase
from vil_bridge.outputs.ros.config import RosBagConfig
from vil_bridge.outputs.ros.topics import RosFeed
from vil_bridge.protocols.ros_topics import Topic, qos_of
from vil_bridge.runtime.bounded_queue import BoundedQueue
from vil_bridge.runtime.pacing import call_periodically
from vil_bridge.runtime.supervisor import Status

_WAITING_BYTES: Final = 64 << 20
_FILE_BYTES: Final = 1 << 30
_CLOSE_S: Final = 1.5


class RosBagOutput(OutputBase):
    """Records a bag for as long as the bridge runs (implements ``Output``)."""

    def __init__(self, name: str, config: RosBagConfig) -> None:
        super().__init__(name)
        self._config = config
        self._feed = RosFeed(
            config, "noetic" if config.path.suffix else "jazzy", self._emit, self.status
        )
        self._bag: BagThread | None = None

    def frame_sink(self, camera: CameraInfo) -> FrameSink | None:
        """Return a thread for a camera, which encodes its pictures."""
        feed = self._feed.add_camera(camera)
        return self._add_sink(camera, feed.topics, feed.send, lambda _kind: self._bag is not None)

    async def run(self, world: WorldView) -> None:
        """Record until cancelled; the file is finished by :meth:`close`, or when it is run again.

        Raises:
            SinkError: the file cannot be created or written (the disk is full).
        """
        step = self._feed.watch(world)
        self._finish()
        path = self._config.path
        feed = self._feed
        self._bag = bag = BagThread(
            path, feed.topics(), feed.messages.store, feed.wall_clock, self.status
        )
        self.status.running()
        self._feed.emit_static(now_ns(), world)

        def watched() -> None:
            if isinstance(bag.failed, (OSError, Ros1Error, Ros2Error)):
                raise SinkError(f"{path}: {bag.failed}")
            if bag.failed is not None:
                raise RuntimeError(f"writing {path} failed") from bag.failed
            step()

        await call_periodically(self.name, feed.pacing.looks_hz, watched)

    def close(self) -> None:
        """End the threads and finish the file."""
        super().close()
        self._finish()

    def _finish(self) -> None:
        bag = self._bag
        self._bag = None
        if bag is not None:
            bag.close()

    def _emit(self, topic: Topic, message: memoryview) -> None:
        bag = self._bag
        if bag is not None:
            bag.enqueue(topic, message)


class BagThread:
    """Thread that writes a bag, and one more for each gigabyte.

    Args:
        path: ``NAME.bag`` for ROS 1, else the folder of a ROS 2 bag; if it exists, a sibling is
            written.
        status: counts ``messages`` written and ``lost`` (those for which the disk was too slow);
            its fact ``path`` is the file that is being written.
        file_bytes: size from which a new file is begun.

    Attributes:
        failed: why nothing is written any more.

    Raises:
        SinkError: the file cannot be created.
    """

    def __init__(
        self,
        path: Path,
        topics: Sequence[Topic],
        store: Typestore,
        wall_clock: WallClock,
        status: Status,
        file_bytes: int = _FILE_BYTES,
    ) -> None:
        self.failed: Exception | None = None
        self._path = path
        self._topics = topics
        self._store = store
        self._wall_clock = wall_clock
        self._status = status
        self._file_bytes = file_bytes
        self._queue: BoundedQueue[_Message] = BoundedQueue(
            _WAITING_BYTES, lambda message: len(message.data), self._lose, keep_oldest=True
        )
        try:
            self._begin_file()
        except (OSError, Ros1Error, Ros2Error) as exc:
            raise SinkError(f"cannot create {path}: {exc}") from exc
        self._thread = ContextThread(target=self._run, name=path.name, daemon=True)
        self._thread.start()

    def enqueue(self, topic: Topic, data: memoryview) -> None:
        """Let a message be written; any thread, never waits for the disk."""
        self._queue.enqueue(_Message(topic, self._wall_clock.utc_ns(now_ns()), data))

    def close(self) -> None:
        """Write what waits and the index, within a second and a half."""
        self._queue.close()
        self._thread.join(_CLOSE_S)

    def _lose(self, _message: _Message) -> None:
        self._status.counters["lost"] += 1

    def _run(self) -> None:
        latched: dict[str, _Message] = {}
        try:
            while (message := self._queue.pop_wait()) is not None:
                if self._written >= self._file_bytes:
                    self._writer.close()
                    self._begin_file()
                    for earlier in latched.values():
                        self._write(earlier)
                if message.topic.latched:
                    latched[message.topic.name] = message
                self._write(message)
                self._status.counters["messages"] += 1
            self._writer.close()
        except Exception as exc:
            self.failed = exc
            self._queue.close()
            with contextlib.suppress(OSError):  # what is in its buffer does not fit either
                self._writer.abort()

    def _begin_file(self) -> None:
        path = free_path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer, self._connections = _create(path, self._topics, self._store)
        self._written = 0
        self._status.facts["path"] = str(path)

    def _write(self, message: _Message) -> None:
        self._writer.write(self._connections[message.topic.name], message.t_utc_ns, message.data)
        self._written += len(message.data)


class _Message(NamedTuple):
    topic: Topic
    t_utc_ns: int
    data: memoryview


class _Ros1File(Ros1Writer):
    """ROS 1 file with ROS's padding behind the header, so that ``rosbag reindex`` can repair a bag
    without an end.

    ROS pads the header without its length to 4096 bytes, rosbags all of the record: eight bytes
    less.
    """

    _HEADER_AT: Final = 13
    _PADDED: Final = 4096
    _U32: Final = struct.Struct("<I")

    def open(self) -> None:
        super().open()
        assert self.bio is not None
        self.bio.write(b" " * 8)
        self.bio.flush()
        self._state_padding()

    def close(self) -> None:
        super().close()  # writes the header again
        self._state_padding()

    def _state_padding(self) -> None:
        with self.path.open("r+b") as file:
            file.seek(self._HEADER_AT)
            (length,) = self._U32.unpack(file.read(4))
            file.seek(length, os.SEEK_CUR)
            file.write(self._U32.pack(self._PADDED - length))


def free_path(path: Path) -> Path:
    """Return ``path``, or the first of its siblings ``-2``, ``-3``... that does not exist."""
    found = path
    number = 1
    while found.exists():
        number += 1
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return found


def _create(
    path: Path, topics: Sequence[Topic], store: Typestore
) -> tuple[Ros1Writer | Ros2Writer, dict[str, Connection]]:
    if path.suffix:
        ros1 = _Ros1File(path)
        ros1.open()
        return ros1, {
            t.name: ros1.add_connection(t.name, t.type, typestore=store, latching=int(t.latched))
            for t in topics
        }
    ros2 = Ros2Writer(path, version=9, storage_plugin=StoragePlugin.MCAP)
    ros2.open()
    return ros2, {
        t.name: ros2.add_connection(
            t.name, t.type, typestore=store, offered_qos_profiles=[qos_of(t)]
        )
        for t in topics
    }
