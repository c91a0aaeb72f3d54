"""Bodies that simulated vehicles bounce off.

Tracked vehicles, and the vehicles of other simulated sources.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final

import numpy as np

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, FloatArray, TrackingState
from vil_bridge.daemon.near_vehicles import bodies_near
from vil_bridge.interfaces.ports import WorldView
from vil_bridge.interfaces.solid_world import MovingBody
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus

_PERIOD_S: Final = 0.01


class BodySender:
    """Sender that reports to each simulation of a bridge, a hundred times a second, where the
    bodies of others are.

    Args:
        config: of the bridge. world: where the actors are. bus: leads to the simulations.
    """

    def __init__(self, config: BridgeConfig, world: WorldView, bus: VehicleCommandBus) -> None:
        places = {name: room.T_world_room.transform() for name, room in config.rooms.items()}
        self._T_world_room: Final = {
            name: places.get(getattr(source, "room", ""), Transform.identity())
            for name, source in config.sources.items()
            if hasattr(source, "starts")  # it simulates vehicles
        }
        self._T_room_world: Final = {name: T.inverse() for name, T in self._T_world_room.items()}
        self._spheres: Final = {
            name: _spheres_of(actor.size_m)
            for name, actor in config.actors.items()
            if actor.kind is ActorKind.VEHICLE and actor.source not in self._T_world_room
        }
        self._world = world
        self._bus = bus
        self._sent: set[str] = set()

    @property
    def needed(self) -> bool:
        """True if simulated vehicles can meet tracked ones or those of another source."""
        return bool(self._T_world_room and self._spheres) or len(self._T_world_room) > 1

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            self.send(now_ns())
            await asyncio.sleep(_PERIOD_S)

    def send(self, t_ns: int) -> None:
        """Send where the bodies are at an instant, unless there are none, as before."""
        seen = [
            name for name in self._spheres if self._world.state_of(name) is TrackingState.TRACKED
        ]
        motions = {name: self._world.motion_at(name, t_ns) for name in seen}
        near: dict[str, list[MovingBody]] = {}
        if len(self._T_world_room) > 1:
            near = bodies_near(self._bus.bodies(), self._T_world_room)
        for source, T in self._T_room_world.items():
            bodies = near.get(source, [])
            for name, motion in motions.items():
                radius_m, offsets_m = self._spheres[name]
                middles = T.apply(motion.T_world_body.apply(offsets_m)).tolist()
                vx, vy, vz = (T.rotation() @ motion.v_world_mps).tolist()
                bodies.append(
                    MovingBody(
                        name, t_ns, radius_m, tuple((x, y, z) for x, y, z in middles), (vx, vy, vz)
                    )
                )
            if bodies or source in self._sent:
                self._bus.set_bodies(source, bodies)
                if bodies:
                    self._sent.add(source)
                else:
                    self._sent.discard(source)


def _spheres_of(size_m: tuple[float, float, float]) -> tuple[float, FloatArray]:
    """Return radius and middles (k, 3), body axes, of a row of spheres that is as long and wide
    as a box.
    """
    ahead_m, left_m, _ = size_m
    along = int(left_m > ahead_m)
    length_m = max(ahead_m, left_m)
    width_m = min(ahead_m, left_m)
    radius_m = 0.5 * width_m
    half_m = 0.5 * (length_m - width_m)
    middles = np.zeros((1 + math.ceil(2.0 * half_m / radius_m), 3))
    middles[:, along] = np.linspace(-half_m, half_m, len(middles)) if len(middles) > 1 else 0.0
    return radius_m, middles
