"""The ``lcm`` output, and commands to simulated vehicles.

Channels: ``PREFIX/ACTOR/pose``, ``.../imu``, ``.../sensors/NAME``, of a human ``.../skeleton``;
``PREFIX/CAMERA/image``, ``.../depth``; inwards ``PREFIX/ACTOR/cmd_velocity``, ``.../cmd_position``,
``.../cmd_rates``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import lcm

from vil_bridge.core.clock import WallClock
from vil_bridge.core.errors import CommandFormatError, SinkError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.sensor_readings import SensorDescription
from vil_bridge.core.types import ImageArray
from vil_bridge.interfaces.ports import CameraInfo, FrameSink, WorldView
from vil_bridge.interfaces.setpoints import FlyActor
from vil_bridge.outputs.base import OutputBase, depth_m, kinds_of, upright
from vil_bridge.outputs.lcm.commands import COMMANDS, CommandReader
from vil_bridge.outputs.lcm.config import CHANNEL_CHARACTERS, LcmConfig
from vil_bridge.outputs.lcm.messages import encode_image, encode_imu, encode_pose
from vil_bridge.outputs.lcm.sensor_messages import encode_reading, encode_skeleton
from vil_bridge.outputs.new_samples import PosePacing, WorldNews
from vil_bridge.outputs.pilot_commands import PilotCommands
from vil_bridge.protocols.image_codecs import encode_jpeg
from vil_bridge.runtime.pacing import call_periodically

_UNKNOWN: Final = SensorDescription("imu")
"""Stands for a sensor that no configuration describes: at the body's origin, with its axes."""


_LOOK_MS: Final = 50
_LOOKS_HZ: Final = 10_000.0
"""Each look takes one message, and waits for it."""


class LcmOutput(OutputBase):
    """Publishes over LCM, and takes commands (implements ``Output`` and ``CommandedOutput``).

    Attributes:
        status: counts ``poses``, ``skeletons``, ``inertial``, ``readings`` and the pictures
            ``sent``.
    """

    def __init__(self, name: str, config: LcmConfig) -> None:
        super().__init__(name)
        self._config = config
        self._wall_clock = WallClock.of_run()
        self._lcm: lcm.LCM | None = None
        self._pilots: PilotCommands | None = None

    def accept_commands(self, fly: FlyActor) -> None:
        """Pass commands on to vehicles, if the configuration says so."""
        if self._config.commands:
            self._pilots = PilotCommands(self._config.actors, fly, self.status)

    def frame_sink(self, camera: CameraInfo) -> FrameSink | None:
        """Return a thread of its own for each camera."""
        shown, depth = kinds_of(camera, self._config)

        def send(header: FrameHeader, pixels: ImageArray) -> None:
            if header.kind == depth:
                self._send_image(
                    camera, header, "depth", "32FC1", depth_m(pixels).astype("<f4").data.cast("B")
                )
            else:
                self._send_picture(camera, header, pixels)

        kinds = {kind for kind in (shown, depth) if kind is not None}
        return self._add_sink(camera, kinds, send, lambda _kind: self._lcm is not None)

    async def run(self, world: WorldView) -> None:
        """Publish until cancelled.

        Raises:
            SinkError: the address cannot be had, or nothing leads there.
        """
        news = WorldNews(world, self._config.actors)
        try:
            self._lcm = lcm.LCM(self._config.url)
        except RuntimeError as exc:
            reason = (
                "malformed, or no route: multicast needs an interface that has it (ip route "
                "add 224.0.0.0/4 dev lo)"
            )
            raise SinkError(f"LCM cannot open {self._config.url}: {reason}") from exc
        self.status.running()
        try:
            pacing = PosePacing(self._config.rate_hz)

            def step() -> None:
                if pacing.due():
                    self._publish_poses(news)
                self._publish_samples(news, world)

            sending = call_periodically(self.name, pacing.looks_hz, step)
            tasks = [asyncio.create_task(sending, name=self.name)]
            if self._pilots is not None:
                receiving = self._receive(self._pilots, news.rigid)
                tasks.append(asyncio.create_task(receiving, name=f"{self.name}-commands"))
            await _until_one_fails(tasks)
        finally:
            self._lcm = None

    async def _receive(self, pilots: PilotCommands, actors: Sequence[str]) -> None:
        """Take commands in a thread of its own, until cancelled."""
        receiver = lcm.LCM(self._config.url)

        def subscribe(actor: str, leaf: str, read: CommandReader) -> None:
            def take(_channel: str, message: bytes) -> None:
                try:
                    pilots.command(actor, *read(message))
                except CommandFormatError as exc:
                    pilots.refuse(str(exc))

            receiver.subscribe(f"{self._config.prefix}/{actor}/{leaf}", take)

        for actor in actors:
            for leaf, read in COMMANDS.items():
                subscribe(actor, leaf, read)

        def look() -> None:
            receiver.handle_timeout(_LOOK_MS)

        await call_periodically(f"{self.name}-commands", _LOOKS_HZ, look)

    def _publish_poses(self, news: WorldNews) -> None:
        utc_ns = self._wall_clock.utc_ns
        for actor, motion in news.motions():
            self._publish(actor, "pose", encode_pose(utc_ns(motion.t_ns), actor, motion))
            self.status.counters["poses"] += 1
        for actor, t_ns, skeleton in news.skeletons():
            self._publish(actor, "skeleton", encode_skeleton(utc_ns(t_ns), actor, skeleton))
            self.status.counters["skeletons"] += 1

    def _publish_samples(self, news: WorldNews, world: WorldView) -> None:
        utc_ns = self._wall_clock.utc_ns
        for actor, window in news.inertial():
            for t_ns, w_radps, f_mps2 in zip(
                window.t_ns.tolist(), window.w_radps, window.f_mps2, strict=True
            ):
                self._publish(actor, "imu", encode_imu(utc_ns(t_ns), actor, w_radps, f_mps2))
            self.status.counters["inertial"] += len(window.t_ns)
        for one in news.readings():
            sensor = world.sensors.descriptions(one.actor).get(one.sensor, _UNKNOWN)
            message = encode_reading(utc_ns(one.reading.t_ns), one, sensor)
            self._publish(one.actor, f"sensors/{one.sensor}", message)
            self.status.counters["readings"] += 1

    def _send_picture(self, camera: CameraInfo, header: FrameHeader, pixels: ImageArray) -> None:
        config = self._config
        payload: bytes | memoryview
        if config.images == "jpeg":
            form, (payload, _) = "jpeg", encode_jpeg(pixels, config.color, config.quality)
        else:
            stored = upright(pixels, config.color)
            form = "rgb8" if stored.ndim == 3 else "mono8"
            payload = stored.data.cast("B")
        self._send_image(camera, header, "image", form, payload)

    def _send_image(
        self,
        camera: CameraInfo,
        header: FrameHeader,
        leaf: str,
        form: str,
        payload: bytes | memoryview,
    ) -> None:
        t_utc_ns = self._wall_clock.utc_ns(header.t_display_ns)
        self._publish(
            camera.model.name, leaf, encode_image(t_utc_ns, header, camera.model, form, payload)
        )

    def _publish(self, name: str, leaf: str, message: bytes) -> None:
        """Send a message. Raises SinkError: it could not be sent."""
        opened = self._lcm
        if opened is None:  # it ended in the meantime
            return
        channel = f"{self._config.prefix}/{name}/{leaf}"
        if len(channel) > CHANNEL_CHARACTERS:
            raise SinkError(
                f"LCM's channels have at most {CHANNEL_CHARACTERS} characters: {channel}. "
                "Shorten a name"
            )
        try:
            opened.publish(channel, message)
        except OSError as exc:
            raise SinkError(f"LCM cannot send to {self._config.url}: {exc}") from exc


async def _until_one_fails(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until cancelled, or raise what a task raised; all have ended then."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
