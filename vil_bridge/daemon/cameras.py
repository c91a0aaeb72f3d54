"""Cameras of the running bridge, each with its way from the renderer to those that read its
pictures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from vil_bridge.config.camera import CameraConfig
from vil_bridge.config.references import RIGHT
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import RenderedFrame
from vil_bridge.daemon.factories import bridge_camera, contact_reporter
from vil_bridge.daemon.output_manager import OutputManager
from vil_bridge.interfaces.ports import SourceContext
from vil_bridge.monitoring.rate_meter import Meter
from vil_bridge.outputs.stream.curve_guard import CurveAuthenticator
from vil_bridge.outputs.stream.zmq_sink import ZmqStreamSink
from vil_bridge.pipeline.assignment import RendererPreference
from vil_bridge.pipeline.camera_relay import CameraRelay, FanOut
from vil_bridge.pipeline.frame_ledger import FrameLedger, LedgerSink
from vil_bridge.web.live.previews import SHOWN, PreviewTap, shown_jpeg
from vil_bridge.world.world import World

_PREVIEW_LIMIT_NS: Final = 3 * NS_PER_S


class CameraRunner:
    """A camera with everything behind it: ledger, sinks, relay.

    Attributes:
        fan: hands its pictures to all that take them. tap: to the pages that watch.
        details: geometry of the camera and of the IMU on its carrier, for readers that register;
            JSON types.
    """

    def __init__(
        self,
        name: str,
        config: CameraConfig,
        bridge: BridgeConfig,
        world: World,
        for_sources: SourceContext,
        data_port: int,
        guard: CurveAuthenticator | None,
        outputs: OutputManager,
        left: CameraRunner | None = None,
    ) -> None:
        self.config = config
        self.camera = bridge_camera(name, config, bridge)
        if left is not None:
            self.camera = replace(
                self.camera, delay=left.camera.delay, display_times=left.camera.display_times
            )
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
            on_sent=self.ledger.record_send,
            lens=self.camera.model.distortion,
        )
        self.fan = FanOut((self.sink,))
        outputs.connect(self.camera.info, self.fan)
        # What only pages see is not a row of the ledger.
        self.sinks = FanOut((LedgerSink(self.fan, self.ledger),))
        shown = next((str(m) for m in config.modalities if m in SHOWN), None)
        self.tap = PreviewTap(shown, self.sinks.add, self.sinks.remove)
        report_contact = contact_reporter(name, config, bridge, for_sources.vehicles)

        def on_first(frame: RenderedFrame) -> None:
            for_sources.first_picture.release()
            self.relay.on_rendered = report_contact
            if report_contact is not None:
                report_contact(frame)

        self.relay = CameraRelay(self.camera, world, self.sinks, self.ledger, self.meter, on_first)
        self.details = self._details(bridge)

    def retune(self, config: CameraConfig, bridge: BridgeConfig) -> None:
        """Adopt what of a configuration can change while the camera runs; any thread."""
        moved = config.T_body_camera != self.config.T_body_camera
        self.config = config
        self.camera.retune(bridge_camera(self.camera.name, config, bridge))
        self.sink.max_age_ns = self.camera.max_age_ns
        if moved:
            place = config.T_body_camera.model_dump()
            self.details["T_body_camera"] = place
            self.relay.headers.T_body_camera = place

    def preview_jpeg(self) -> bytes | None:
        """Return the newest picture as JPEG; None without one that is fresh and not blank.

        Any thread.
        """
        newest = self.relay.newest
        if newest is None or newest[0].blank or now_ns() - newest[2] > _PREVIEW_LIMIT_NS:
            return None
        return shown_jpeg(newest[1])

    def preference(self, bridge: BridgeConfig) -> RendererPreference:
        """Return which renderers may draw it."""
        model = self.camera.model
        return RendererPreference(
            self.config.candidates(bridge.renderers),
            self.config.by_load,
            self.camera.rate_hz,
            model.width_px * model.height_px * len(self.camera.drawn),
            stereo_left=bridge.left_of(self.camera.name),
        )

    def _details(self, bridge: BridgeConfig) -> dict[str, Any]:
        model = self.camera.model
        actor = bridge.actors.get(self.config.actor)
        left = bridge.left_of(model.name) or model.name
        distortion: dict[str, Any] | None = None
        if model.distortion is not None:
            distortion = {
                "model": str(model.distortion.model),
                "coefficients": list(model.distortion.coefficients),
            }
        stereo: dict[str, Any] | None = None
        if self.config.stereo_baseline_m is not None:
            stereo = {
                "left": left,
                "right": left + RIGHT,
                "baseline_m": self.config.stereo_baseline_m,
            }
        imu_place: dict[str, Any] | None = None
        if actor is not None and actor.imu is not None:
            imu_place = actor.T_body_imu.model_dump()
        return {
            "width": model.width_px,
            "height": model.height_px,
            **dict(zip(("fx", "fy", "cx", "cy"), model.intrinsics_px, strict=True)),
            "distortion": distortion,
            "modalities": {
                modality: list(variants) for modality, variants in self.sink.offers.items()
            },
            "rate_hz": self.camera.rate_hz,
            "actor": self.config.actor,
            "T_body_camera": self.config.T_body_camera.model_dump(),
            "stereo": stereo,
            "T_body_imu": imu_place,
        }
