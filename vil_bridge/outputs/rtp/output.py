"""Cameras as live video for any player: H.264 or HEVC over RTP."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Final

from vil_bridge.core.clock import NS_PER_S, WallClock, now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.interfaces.ports import CameraInfo, FrameSink, WorldView
from vil_bridge.outputs.base import OutputBase
from vil_bridge.outputs.rtp.config import RtpConfig
from vil_bridge.outputs.rtp.video import CameraVideo

_LOOK_S: Final = 0.5
_PATIENCE: Final = 3
"""Periods of the slowest camera without a picture after which the status says that none comes."""


class RtpOutput(OutputBase):
    """An :class:`~vil_bridge.interfaces.ports.Output`: a video stream for each of its cameras."""

    def __init__(self, name: str, config: RtpConfig) -> None:
        super().__init__(name)
        self._config = config
        self._clock = WallClock.of_run()
        self._videos: list[CameraVideo] = []
        self._sent = 0
        self._t_sent_ns = 0
        self._patience_ns = NS_PER_S

    def frame_sink(self, camera: CameraInfo) -> FrameSink:
        """Return a thread that encodes and sends this camera's pictures.

        Raises:
            SinkError: the camera has no pictures for people, their size is odd, or no encoder
                opens.
        """
        video = CameraVideo(camera, self._config, self.status, self._clock)
        self._videos.append(video)
        self._patience_ns = max(self._patience_ns, round(_PATIENCE * NS_PER_S / camera.rate_hz))
        return self._add_sink(camera, {video.kind}, video.send)

    # Pictures come with all that is sent.
    async def run(self, world: WorldView) -> None:  # noqa: ARG002
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
            while True:
                self._update_state()
                await asyncio.sleep(_LOOK_S)

    def close(self) -> None:
        """End the threads and release the sockets."""
        super().close()
        for video in self._videos:
            video.close()

    def _update_state(self) -> None:
        sent = self.status.counters["sent"]
        failed = self.status.counters["failed"]
        t_ns = now_ns()
        if sent > self._sent:
            self._sent = sent
            self._t_sent_ns = t_ns
            self.status.running()
        elif t_ns - self._t_sent_ns > self._patience_ns:
            why = f"; {failed} could not be sent, see the log" if failed else ""
            self.status.waiting(f"no picture from {', '.join(self._config.cameras)}{why}")

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
