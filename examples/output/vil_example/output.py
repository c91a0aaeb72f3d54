"""The output: sends the poses of actors and the pictures of cameras."""

from __future__ import annotations

from vil_bridge.core.clock import WallClock
from vil_bridge.core.errors import SinkError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray
from vil_bridge.interfaces.ports import CameraInfo, FrameSink, WorldView
from vil_bridge.outputs.base import OutputBase, kind_of
from vil_bridge.outputs.new_samples import PosePacing, WorldNews
from vil_bridge.protocols.image_codecs import encode_jpeg
from vil_bridge.protocols.sockets import udp_socket
from vil_bridge.runtime.pacing import call_periodically
from vil_example.codec import encode_picture, encode_pose
from vil_example.config import ExampleConfig

__all__ = ["ExampleOutput"]


class ExampleOutput(OutputBase):
    """Datagrams to one address (implements ``Output``).

    Attributes:
        status: counts ``poses`` and the pictures ``sent``.
    """

    def __init__(self, name: str, config: ExampleConfig) -> None:
        super().__init__(name)
        self._config = config
        self._wall_clock = WallClock.of_run()
        # TODO: what the system needs open while the bridge runs.
        self._sock = udp_socket()

    def frame_sink(self, camera: CameraInfo) -> FrameSink | None:
        """Return a thread of its own for each camera.

        Raises:
            SinkError: the camera has no pictures to look at.
        """
        # TODO: remove this and _send_picture where the system takes poses only.
        return self._add_sink(camera, {kind_of(camera, self._config.variant)}, self._send_picture)

    async def run(self, world: WorldView) -> None:
        """Send each measured pose once, until cancelled.

        Raises:
            SinkError: nothing leads to the address.
        """
        news = WorldNews(world, self._config.actors)
        pacing = PosePacing(self._config.rate_hz)

        def step() -> None:
            # TODO: news.skeletons(), news.inertial() and news.readings() have more of the actors.
            if pacing.due():
                for actor, motion in news.motions():
                    t_utc_ns = self._wall_clock.utc_ns(motion.t_ns)
                    self._send(encode_pose(actor, t_utc_ns, motion.T_world_body))
                    self.status.counters["poses"] += 1

        self.status.running()
        await call_periodically(self.name, pacing.looks_hz, step)

    def close(self) -> None:
        """End the cameras' threads and release the socket; called last."""
        super().close()
        self._sock.close()

    def _send_picture(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Encode and send a picture, in its camera's thread; what it raises is counted."""
        jpeg, _ = encode_jpeg(pixels, self._config.color, self._config.quality)
        # TODO: a transport for pictures of more than 65 kB, which no datagram holds.
        self._send(encode_picture(header, self._wall_clock.utc_ns(header.t_display_ns), jpeg))

    def _send(self, datagram: bytes) -> None:
        """Send a datagram; any thread. Raises SinkError: it cannot be sent."""
        peer = (self._config.host, self._config.port)
        try:
            self._sock.sendto(datagram, peer)
        except BlockingIOError:  # the buffer is full: it is lost as on the network
            self.status.counters["lost"] += 1
        except OSError as exc:
            raise SinkError(f"cannot send {len(datagram)} bytes to {peer}: {exc.strerror}") from exc
