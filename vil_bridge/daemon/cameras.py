"""The two ends of a bridge's pipeline as it keeps them: a source's line into the world, a camera's path out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vil_bridge.config.camera import CameraConfig
from vil_bridge.config.references import RIGHT
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.ports import CameraInfo
from vil_bridge.daemon.factories import bridge_camera, camera_info, feeler
from vil_bridge.daemon.output_manager import OutputManager
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.outputs.stream.curve_guard import CurveAuthenticator
from vil_bridge.outputs.stream.zmq_sink import ZmqStreamSink
from vil_bridge.pipeline.assignment import RendererPreference
from vil_bridge.pipeline.camera_relay import CameraRelay
from vil_bridge.pipeline.fan_out import FanOut
from vil_bridge.pipeline.frame_ledger import FrameLedger, LedgerSink
from vil_bridge.web.live.previews import SHOWN, PreviewTap
from vil_bridge.world.world import World

__all__ = ["CameraRunner"]


class CameraRunner:
    """A camera with everything behind it: ledger, sinks, relay.

    Attributes:
        fan: hands its pictures to all that take them. tap: to the pages that watch.
        told: what a reader is told once; JSON types.
    """

    def __init__(
        self,
        name: str,
        config: CameraConfig,
        bridge: BridgeConfig,
        world: World,
        data_port: int,
        guard: CurveAuthenticator | None,
        ways_out: OutputManager,
        left: CameraRunner | None = None,
    ) -> None:
        self.config = config
        self.camera = bridge_camera(name, config, bridge)
        if left is not None:
            self.camera = replace(self.camera, delay=left.camera.delay, instants=left.camera.instants)
        self.ledger = FrameLedger()
        self.meter = Meter()
        offers = {str(m): self.camera.variants for m in config.modalities}
        self.sink = ZmqStreamSink(
            name,
            offers,
            host=bridge.stream.host,
            port=data_port,
            guard=guard,
            max_age_ns=self.camera.max_age_ns,
            on_sent=self.ledger.sent,
        )
        self.fan = FanOut((self.sink,))
        ways_out.connect(lambda: camera_info(self.camera), self.fan)
        self.tap = PreviewTap(next((str(m) for m in config.modalities if m in SHOWN), None))
        # Pages look on: what only they see is no row of the ledger.
        self.sinks = FanOut((LedgerSink(self.fan, self.ledger), self.tap))
        feel = feeler(name, config, bridge)
        self.relay = CameraRelay(self.camera, world, self.sinks, self.ledger, self.meter, feel)
        self.told = self._told(bridge)

    def info(self, config: CameraConfig, bridge: BridgeConfig) -> CameraInfo:
        """What outputs are told of it as another configuration has it."""
        return camera_info(bridge_camera(self.camera.name, config, bridge))

    def retune(self, config: CameraConfig, bridge: BridgeConfig) -> None:
        """Take over what of a configuration can change in flight (:data:`IN_FLIGHT`); any thread."""
        moved = config.T_body_camera != self.config.T_body_camera
        self.config = config
        self.camera.retune(bridge_camera(self.camera.name, config, bridge))
        self.sink.max_age_ns = self.camera.max_age_ns
        if moved:
            place = config.T_body_camera.model_dump()
            self.told["T_body_camera"] = place
            self.relay.headers.T_body_camera = place

    def wish(self, bridge: BridgeConfig) -> RendererPreference:
        """Which renderers may draw it."""
        model = self.camera.model
        return RendererPreference(
            self.config.candidates(bridge.renderers),
            self.config.by_load,
            self.camera.rate_hz,
            model.width_px * model.height_px * len(self.camera.modalities),
            beside=bridge.left_of(self.camera.name),
        )

    def _told(self, bridge: BridgeConfig) -> dict[str, Any]:
        """What a reader is told once: geometry of the camera and of the IMU on its carrier."""
        model = self.camera.model
        actor = bridge.actors.get(self.config.actor)
        left, baseline_m = bridge.left_of(model.name) or model.name, self.config.stereo_baseline_m
        return {
            "width": model.width_px,
            "height": model.height_px,
            **dict(zip(("fx", "fy", "cx", "cy"), model.intrinsics_px, strict=True)),
            "distortion": None
            if model.distortion is None
            else {"model": str(model.distortion.model), "coefficients": list(model.distortion.coefficients)},
            "modalities": {modality: list(variants) for modality, variants in self.sink.offers.items()},
            "rate_hz": self.camera.rate_hz,
            "actor": self.config.actor,
            "T_body_camera": self.config.T_body_camera.model_dump(),
            "stereo": None if baseline_m is None else {"left": left, "right": left + RIGHT, "baseline_m": baseline_m},
            "T_body_imu": actor.T_body_imu.model_dump() if actor is not None and actor.imu is not None else None,
        }
