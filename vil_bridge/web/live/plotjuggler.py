"""Feed for PlotJuggler: flat JSON objects over a WebSocket, ``timestamp`` in Unix seconds."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
from fastapi import APIRouter, WebSocket

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import FloatArray, WorldSnapshot
from vil_bridge.monitoring.snapshot import BridgeSnapshot
from vil_bridge.runtime.pacing import CachedValue, PeriodicTask
from vil_bridge.web.live.frames import framed, poster, until_left

_RATE_HZ = 20.0
_STATUS_HZ = 2.0
_AXES = "xyz"
_Q_AXES = ("qx", "qy", "qz", "qw")


class PlotFeed:
    """Feed of poses at 20 Hz, with rates and latencies that are renewed at 2 Hz.

    Args:
        world: the actors now and their speeds (n,), NaN unknown.
        snapshot: the whole bridge.
        utc_offset_ns: Unix time minus bridge time.
    """

    def __init__(
        self,
        world: Callable[[], tuple[WorldSnapshot, FloatArray]],
        snapshot: Callable[[], BridgeSnapshot],
        utc_offset_ns: int,
    ) -> None:
        self._world = world
        self._utc_offset_ns = utc_offset_ns
        self._numbers = CachedValue(lambda: _numbers(snapshot()), _STATUS_HZ)
        self._readers: set[Callable[[bytes], bool]] = set()
        self._task = PeriodicTask(self._turn, _RATE_HZ)

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one reader until it leaves; a slow one gets fewer messages."""
        await websocket.accept()
        post = poster(websocket)
        self._readers.add(post)
        self._task.start()
        try:
            await until_left(websocket)
        finally:
            self._readers.discard(post)

    def _turn(self) -> bool:
        if self._readers:
            frame = framed(self._make())
            for post in self._readers:
                post(frame)
        return bool(self._readers)

    def _make(self) -> str:
        world, speeds_mps = self._world()
        values: dict[str, float] = {"timestamp": (world.t_ns + self._utc_offset_ns) / NS_PER_S}
        for actor, speed_mps in zip(world.actors, speeds_mps.tolist(), strict=True):
            if actor.age_ns is None:
                continue
            place = f"actors/{actor.name}"
            pose = actor.T_world_body
            values |= {
                f"{place}/{axis}": v for axis, v in zip(_AXES, pose.p_m.tolist(), strict=True)
            }
            values |= {
                f"{place}/{axis}": v for axis, v in zip(_Q_AXES, pose.q_xyzw.tolist(), strict=True)
            }
            values[f"{place}/age_s"] = actor.age_ns / NS_PER_S
            if math.isfinite(speed_mps):
                values[f"{place}/speed_mps"] = speed_mps
        return msgspec.json.encode(values | self._numbers.get()).decode()


def _numbers(now: BridgeSnapshot) -> dict[str, float]:
    """Return known rates, ages, drops and latencies."""
    values: dict[str, float | None] = {"loop_lag_s": now.loop_lag_s}
    for name, source in now.sources.items():
        values |= {f"sources/{name}/rate_hz": source.rate_hz, f"sources/{name}/age_s": source.age_s}
    for name, camera in now.cameras.items():
        place = f"cameras/{name}"
        values |= {f"{place}/measured_hz": camera.measured_hz, f"{place}/age_s": camera.age_s}
        values |= {f"{place}/dropped": sum(camera.dropped.values())}
        values |= {
            f"{place}/p50_ms/{stage}": view.last_10_s.p50_ms
            for stage, view in camera.latency.items()
        }
    return {name: value for name, value in values.items() if value is not None}


def plot_router(feed: PlotFeed) -> APIRouter:
    """Return the route ``/api/v1/plotjuggler``."""
    router = APIRouter(prefix="/api/v1")

    @router.websocket("/plotjuggler")
    async def plotjuggler(websocket: WebSocket) -> None:
        await feed.serve(websocket)

    return router
