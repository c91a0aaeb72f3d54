"""Cameras as live video for any player: H.264 or HEVC over RTP."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Final

from vil_bridge.core.clock import WallClock
from vil_bridge.core.errors import SinkError
from vil_bridge.core.ports import CameraInfo, FrameSink, WorldView
from vil_bridge.core.sink_thread import SinkThread
from vil_bridge.core.supervisor import Status
from vil_bridge.stream.rtp.config import RtpConfig
from vil_bridge.stream.rtp.video import CameraVideo

__all__ = ["RtpOutput"]

_LOOK_S: Final = 0.5


class RtpOutput:
    """An :class:`~vil_bridge.core.ports.Output`: a video stream for each of its cameras."""

    def __init__(self, name: str, config: RtpConfig) -> None:
        self.name = name
        self.status = Status(name)
        self._config = config
        self._clock = WallClock.read()
        self._videos: list[CameraVideo] = []

    def frame_sink(self, camera: CameraInfo) -> FrameSink:
        """A thread that encodes and sends this camera's pictures.

        Raises:
            SinkError: the camera has no pictures for people, their size is odd, or no encoder opens.
        """
        video = CameraVideo(camera, self._config, self.status, self._clock)
        self._videos.append(video)
        return SinkThread(f"{self.name}-{video.camera}", {video.kind}, video.send, self.status)

    async def run(self, world: WorldView) -> None:  # noqa: ARG002 - pictures come with all that is sent
        """Write the descriptions, listen to receivers' reports, and say whether video flows.

        Raises:
            SinkError: a description cannot be written.
        """
        self._write_descriptions()
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            for video in self._videos:
                loop.add_reader(video.fileno(), video.read_reports)
                stack.callback(loop.remove_reader, video.fileno())
            sent = -1
            while True:
                before, sent = sent, self.status.counters["sent"]
                if sent > max(before, 0):
                    self.status.running()
                else:
                    self.status.waiting(f"no picture from {', '.join(self._config.cameras)}")
                await asyncio.sleep(_LOOK_S)

    def close(self) -> None:
        """Release the sockets."""
        for video in self._videos:
            video.close()

    def _write_descriptions(self) -> None:
        folder = self._config.sdp_folder
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for video in self._videos:
                (folder / f"{video.camera}.sdp").write_bytes(video.sdp.encode())
        except OSError as exc:
            raise SinkError(f"cannot write the description of a video: {exc}") from exc
