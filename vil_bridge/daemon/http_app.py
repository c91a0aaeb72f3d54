"""The HTTP face of a bridge, put together: every route and feed, and what ends with it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import msgspec
from fastapi import FastAPI

from vil_bridge.core.clock import now_ns
from vil_bridge.core.pacing import CachedValue
from vil_bridge.core.vehicle_commands import VEHICLE_DESK
from vil_bridge.daemon.scene_geometry import SceneGeometryCache, scene_lamps, shipped_scene
from vil_bridge.daemon.scene_snapshot import scene_of
from vil_bridge.daemon.snapshots import ledger_of
from vil_bridge.monitoring.event_log import EventLog
from vil_bridge.monitoring.prometheus import metrics_registry
from vil_bridge.web.app import create_app
from vil_bridge.web.live.codec import encode_poses
from vil_bridge.web.live.feed import LiveFeed, live_router
from vil_bridge.web.live.plotjuggler import PlotFeed, plot_router
from vil_bridge.web.routes.controls import control_router
from vil_bridge.web.routes.events import Updates, events_router
from vil_bridge.web.routes.frames import ledger_router
from vil_bridge.web.routes.history import history_router
from vil_bridge.web.routes.recordings import recording_router
from vil_bridge.web.routes.scene import SceneRevisions, scene_router
from vil_bridge.web.routes.status import status_json
from vil_bridge.web.routes.vehicles import vehicles_router

if TYPE_CHECKING:
    from vil_bridge.daemon.bridge import Bridge

__all__ = ["HttpApp"]

_WORLD_HZ: Final = 30.0
_STATUS_HZ: Final = 2.0
"""How often the feeds look at the world and at the whole bridge, however many they are."""


class HttpApp:
    """The application of one bridge.

    Attributes:
        app: to be served. live, updates: its feeds. log: what happened lately.
    """

    def __init__(self, bridge: Bridge) -> None:
        self.log = EventLog()
        self.models = SceneGeometryCache(functools.partial(shipped_scene, bridge.renderers))
        self.scene = SceneRevisions(lambda: scene_of(bridge, self.models.newest()))
        world = CachedValue(lambda: (bridge.world.snapshot(now_ns(), quick=True), bridge.world.speeds_mps()), _WORLD_HZ)
        whole = CachedValue(bridge.snapshot, _STATUS_HZ)
        self.live = LiveFeed(
            lambda: encode_poses(*world.get(), self.scene.revision()),
            {name: path.tap for name, path in bridge.paths.items()},
            {name: path.camera.variants for name, path in bridge.paths.items()},
        )
        self.updates = Updates(
            lambda: status_json(whole.get()), lambda: msgspec.json.encode(bridge.records.recording()), self.log
        )
        self.plot = PlotFeed(world.get, whole.get, bridge.wall_clock.offset_ns)
        self.app = self._app(bridge)

    def _app(self, bridge: Bridge) -> FastAPI:
        app = create_app(
            bridge.snapshot,
            metrics_registry(bridge.snapshot),
            preview=bridge.preview,
            lit=bridge.world,
            lamps=functools.partial(scene_lamps, bridge.renderers),
            timed=bridge.time,
            access=bridge.access,
        )
        app.include_router(ledger_router(bridge.paths, functools.partial(ledger_of, bridge)))
        app.include_router(history_router(bridge.history.view))
        app.include_router(vehicles_router(VEHICLE_DESK))
        app.include_router(live_router(self.live))
        app.include_router(events_router(self.updates))
        app.include_router(scene_router(self.scene, self.models.glb))
        app.include_router(recording_router(bridge.records))
        app.include_router(plot_router(self.plot))
        app.include_router(control_router(bridge.controls, bridge.paths, bridge.sources))
        return app

    def pages(self) -> dict[str, int]:
        """Who looks on, and what was sent to them; any thread."""
        live, updates = self.live.counters, self.updates.counters
        return {
            "watching": self.live.clients,
            "reading": self.updates.readers,
            "sent": live["sent"],
            "skipped": live["skipped"] + updates["skipped"],
            "refused": live["refused"] + updates["refused"],
        }

    def open(self) -> None:
        """Begin to keep what happens."""
        self.log.open()

    def close(self) -> None:
        """Let the feeds end, so that the server need not wait for them."""
        self.updates.end()
        self.models.close()
        self.log.close()
