"""The bridge's scheduler and relays over a renderer whose pictures always come back after the
same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import RenderedFrame, RenderedImage, RenderRequest, View, WorldSnapshot
from vil_bridge.daemon.factories import bridge_camera
from vil_bridge.interfaces.ports import FrameSink
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.offline.playback import Timeline
from vil_bridge.pipeline.camera import BridgeCamera, RunningDelay
from vil_bridge.pipeline.camera_relay import CameraRelay
from vil_bridge.pipeline.frame_ledger import FrameLedger
from vil_bridge.pipeline.scheduler import Scheduler
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.world import World

Draw = Callable[[Sequence[View], WorldSnapshot], tuple[RenderedImage, ...]]

_DELIVERY_NS: Final = 3_000_000
"""Time from the warp to the use of the picture that a relay assumes without a reader's report."""


def chosen_cameras(
    config: BridgeConfig, names: Sequence[str] | None, rate_hz: float | None, delay_ns: int
) -> list[BridgeCamera]:
    """Return the cameras of a configuration whose pictures take a fixed time.

    Args:
        config: of the bridge.
        names: of those that are wanted, each pair by its left one; None = all.
        rate_hz: of pictures at most; None = as configured.
        delay_ns: from a request to the warp of its picture.

    Raises:
        ConfigError: there is no such camera.
    """
    known = config.every_camera()
    if unknown := sorted(set(names or ()) - known.keys()):
        raise ConfigError(
            f"no camera is named {', '.join(unknown)}; the recording has "
            f"{', '.join(known) or 'none'}"
        )
    made: dict[str, BridgeCamera] = {}
    for name, camera in known.items():
        left = config.left_of(name)
        if names is None or name in names or left in names:
            built = bridge_camera(name, camera, config)
            rate = built.rate_hz if rate_hz is None else min(rate_hz, built.rate_hz)
            partner = made.get(left)
            built = replace(built, rate_hz=rate, repeat_ns=0)
            if partner is None:
                made[name] = replace(built, delay=RunningDelay(delay_ns + _DELIVERY_NS))
            else:
                made[name] = replace(
                    built, delay=partner.delay, display_times=partner.display_times
                )
    return list(made.values())


class Rendering:
    """Cameras along a timeline.

    The tick requests, the picture comes a fixed time later, is warped and written.

    Args:
        draw: makes the pictures.
        delay_ns: from a request to its pictures, which are warped at once unless the camera has a
            delay of its own.
        sinks: where each camera's pictures go, by its name.
    """

    def __init__(
        self,
        world: World,
        cameras: Sequence[BridgeCamera],
        draw: Draw,
        delay_ns: int,
        sinks: Mapping[str, FrameSink],
        timeline: Timeline,
    ) -> None:
        self._timeline = timeline
        self._client = _Client(draw, delay_ns, self._deliver, timeline)
        self._relays = {
            camera.name: CameraRelay(camera, world, sinks[camera.name], FrameLedger(), Meter())
            for camera in cameras
        }
        self._scheduler = Scheduler(self._client, cameras, world, lambda _name: True, self._blank)
        self._period_ns = round(NS_PER_S / max(camera.rate_hz for camera in cameras))

    def start(self, t_ns: int) -> None:
        """Look for the first time one period after an instant."""
        self._timeline.every(
            self._period_ns, t_ns + self._period_ns, lambda due_ns: self._scheduler.tick(due_ns, 0)
        )

    def close(self) -> None:
        """Release what the relays hold."""
        for relay in self._relays.values():
            relay.close()

    def dropped(self) -> dict[str, dict[str, int]]:
        """Return the dropped pictures, by camera and reason."""
        lost = {name: Counter(relay.dropped) for name, relay in self._relays.items()}
        for (name, reason), times in self._scheduler.skipped.items():
            lost[name][reason] += times
        return {name: dict(sorted(reasons.items())) for name, reasons in lost.items()}

    def _deliver(self, frame: RenderedFrame) -> None:
        for relay in self._relays.values():
            relay.offer(frame)
            self._step(relay)

    def _step(self, relay: CameraRelay) -> None:
        """Warp what is due, and come again for what is not."""
        relay.step()
        if relay.due_ns is not None:
            self._timeline.at(relay.due_ns, lambda: self._step(relay))

    def _blank(self, camera: BridgeCamera, t_ns: int) -> None:
        relay = self._relays[camera.name]
        relay.offer_blank(t_ns)
        relay.step()


class _Client:
    """A :class:`~vil_bridge.interfaces.ports.RendererClient` without a connection."""

    name = "offline"
    in_flight = 0

    def __init__(
        self,
        draw: Draw,
        delay_ns: int,
        deliver: Callable[[RenderedFrame], None],
        timeline: Timeline,
    ) -> None:
        self.status = Status(self.name)
        self.status.running()
        self._draw = draw
        self._delay_ns = delay_ns
        self._deliver = deliver
        self._timeline = timeline

    def ready(self) -> bool:
        return True

    def request(self, request: RenderRequest) -> None:
        images = self._draw(request.views, request.snapshot)
        t_image_ns = request.t_request_ns + self._delay_ns
        self._timeline.at(
            t_image_ns, lambda: self._deliver(RenderedFrame(request, t_image_ns, images))
        )

    def keep_alive(self) -> None:
        return

    def fileno(self) -> int:
        return -1

    def receive(self) -> RenderedFrame | None:
        return None

    def close(self) -> None:
        return
