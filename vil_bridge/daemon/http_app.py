"""The HTTP application of a bridge: every route and feed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import msgspec
from fastapi import FastAPI

from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.daemon.context import BridgeContext
from vil_bridge.daemon.controls import BridgeControls
from vil_bridge.daemon.scene_geometry import SceneGeometryCache, scene_lamps, shipped_scene
from vil_bridge.daemon.scene_snapshot import scene_of
from vil_bridge.daemon.snapshots import PAGE_COUNTS, StatusReporter, ledger_of
from vil_bridge.monitoring.event_log import EventLog
from vil_bridge.monitoring.prometheus import metrics_registry
from vil_bridge.runtime.pacing import CachedValue
from vil_bridge.web.app import create_app
from vil_bridge.web.live.codec import encode_poses
from vil_bridge.web.live.feed import LiveFeed, live_router
from vil_bridge.web.live.plotjuggler import PlotFeed, plot_router
from vil_bridge.web.routes.controls import control_router
from vil_bridge.web.routes.events import Updates, events_router
from vil_bridge.web.routes.scene import SceneRevisions, scene_router
from vil_bridge.web.routes.status import history_router, ledger_router, status_json
from vil_bridge.web.routes.vehicles import vehicles_router

_WORLD_HZ: Final = 30.0
_STATUS_HZ: Final = 2.0
"""Rates at which all feeds together read the world and the whole bridge, Hz."""


class HttpApp:
    """The application of one bridge.

    Attributes:
        app: to be served. live, updates: its feeds. log: recent events, which the bridge collects.
    """

    def __init__(
        self,
        context: BridgeContext,
        controls: BridgeControls,
        reporter: StatusReporter,
        log: EventLog,
    ) -> None:
        self.log = log
        shipped = functools.partial(shipped_scene, context.pool.renderers)
        self.models = SceneGeometryCache(shipped, context.config.http.scene)
        self.scene = SceneRevisions(
            lambda: scene_of(context, controls.props(), self.models.newest())
        )
        poses = context.world
        world = CachedValue(
            lambda: (poses.snapshot(now_ns(), quick=True), poses.speeds_mps()), _WORLD_HZ
        )
        status = CachedValue(reporter.snapshot, _STATUS_HZ)
        self.live = LiveFeed(
            lambda: encode_poses(*world.get(), self.scene.revision()),
            {name: runner.tap for name, runner in context.cameras.items()},
            {name: runner.camera.variants for name, runner in context.cameras.items()},
        )
        self.updates = Updates(
            lambda: status_json(status.get()),
            _states(context),
            self.log,
        )
        self.plot = PlotFeed(world.get, status.get, WallClock.of_run().offset_ns)
        self.app = self._app(context, controls, reporter)

    def _app(
        self, context: BridgeContext, controls: BridgeControls, reporter: StatusReporter
    ) -> FastAPI:
        cameras = context.cameras
        app = create_app(
            reporter.snapshot,
            metrics_registry(reporter.snapshot),
            preview=lambda camera: cameras[camera].preview_jpeg() if camera in cameras else None,
            light=context.world,
            lamps=functools.partial(scene_lamps, context.pool.renderers),
            clock=context.simulation,
            access=context.access,
        )
        app.include_router(ledger_router(cameras, functools.partial(ledger_of, context)))
        app.include_router(history_router(context.health.history.view))
        app.include_router(vehicles_router(context.for_sources.vehicles))
        app.include_router(live_router(self.live))
        app.include_router(events_router(self.updates))
        app.include_router(scene_router(self.scene, self.models.glb))
        app.include_router(plot_router(self.plot))
        app.include_router(control_router(controls, cameras, context.sources))
        for service in context.services.values():
            for router in service.routes():
                app.include_router(router)
        return app

    def pages(self) -> dict[str, int]:
        """Return how many pages watch, and what was sent to them; any thread."""
        live = self.live.counters
        updates = self.updates.counters
        skipped, refused = (live[what] + updates[what] for what in ("skipped", "refused"))
        return dict(
            zip(
                PAGE_COUNTS,
                (self.live.clients, self.updates.readers, live["sent"], skipped, refused),
                strict=True,
            )
        )

    def close(self) -> None:
        """End the feeds, so that the server need not wait for them."""
        self.updates.end()
        self.models.close()


def _states(context: BridgeContext) -> dict[str, Callable[[], bytes]]:
    """Return the states of services that pages get when they change, as JSON, by event.

    A state is empty while its service has failed.
    """
    return {
        event: functools.partial(_encoded, state)
        for service in context.services.values()
        for event, state in service.updates().items()
    }


def _encoded(state: Callable[[], Any]) -> bytes:
    found = state()
    if found is None:
        return b""
    return msgspec.json.encode(found)
