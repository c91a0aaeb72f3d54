"""The bridge's two sockets of a renderer connection, without a word of what travels over them."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping, Sequence

import zmq

from vil_bridge.core.errors import RendererError
from vil_bridge.core.wire.zmq_peers import PeerCounter
from vil_renderer.flightgoggles.sockets import bind, image_socket, pose_socket

__all__ = ["RendererSockets"]


class RendererSockets:
    """Poses go out, pictures come in; the bridge binds both ports and the renderer dials.

    ``receive`` and ``close`` may be called from any thread, everything else from one.

    Attributes:
        pose_port, image_port: the ports bound.
    """

    def __init__(
        self, address: str, pose_port: int, image_port: int, max_message_bytes: int, counters: MutableMapping[str, int]
    ) -> None:
        """Bind them; whoever sends a larger message is cut off.

        Raises:
            RendererError: a port is taken.
        """
        self._lock = threading.Lock()  # close() may come while receive() runs
        self.closed = False
        self._context = zmq.Context()
        self._poses = pose_socket(self._context)
        self._images = image_socket(self._context, max_message_bytes)
        self._peers = [PeerCounter(socket, counters) for socket in (self._poses, self._images)]
        try:
            self.pose_port = bind(self._poses, address, pose_port)
            self.image_port = bind(self._images, address, image_port)
        except RendererError:
            self.close()
            raise
        self._fd = self._images.getsockopt(zmq.FD)

    def fileno(self) -> int:
        """Descriptor of the image socket, edge-triggered."""
        return int(self._fd)

    def subscription(self) -> bytes | None:
        """The next thing that the pose socket was told (1 or 0, then a topic); None = nothing is waiting."""
        try:
            return self._poses.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def send(self, parts: Sequence[bytes]) -> None:
        """Send to whoever has subscribed; never blocks."""
        self._poses.send_multipart(parts)

    def receive(self) -> list[memoryview] | None:
        """The parts of the next message, None when nothing is waiting."""
        with self._lock:
            if self.closed:
                return None
            try:
                return [part.buffer for part in self._images.recv_multipart(zmq.NOBLOCK, copy=False)]
            except zmq.Again:
                return None

    def count_peers(self) -> None:
        """Account who came and went since the last call."""
        for peers in self._peers:
            peers.update()

    def close(self) -> None:
        """Release everything at once; may be called twice."""
        with self._lock:
            if not self.closed:
                self.closed = True
                for peers in self._peers:
                    peers.close()
                self._context.destroy(linger=0)
