"""The shared world of a configuration: its rooms, actors and cameras."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from vil_bridge.config.camera import CameraConfig
from vil_bridge.config.root import ActorConfig, BridgeConfig
from vil_bridge.core.geometry import T_FLU_OPTICAL
from vil_bridge.core.sensor_readings import SensorDescription
from vil_bridge.interfaces.ports import CameraInfo, offered_variants
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.world import World

__all__ = ["build_world", "camera_info", "sensors_of"]

_MS: Final = 1_000_000
_FROZEN_AFTER_MS: Final = 200.0
"""For systems whose poses carry noise."""


def build_world(config: BridgeConfig) -> World:
    """Make the shared world from its configuration."""
    rooms = {name: room.T_world_room.transform() for name, room in config.rooms.items()}
    room_of = {
        name: rooms[room]
        for name, s in config.sources.items()
        if (room := getattr(s, "room", None)) is not None
    }
    actors = [
        Actor(
            name=name,
            kind=a.kind,
            source=a.source,
            subject=a.subject,
            T_body_markers=a.T_body_markers.transform(),
            imu=a.imu,
            T_body_imu=a.T_body_imu.transform(),
            prefab=a.prefab,
            size_m=a.size_m,
            sensors=sensors_of(a, config),
            limits=TrackingLimits(
                round(a.tracking.coast_after_ms * _MS),
                round(a.tracking.stale_after_ms * _MS),
                round(a.tracking.lost_after_ms * _MS),
                max_speed_mps=a.tracking.max_speed_mps,
                max_rate_radps=math.radians(a.tracking.max_rate_dps),
                frozen_after_ns=_frozen_after_ns(a, config),
            ),
        )
        for name, a in config.actors.items()
    ]
    world = World(room_of, actors)
    world.lighting = config.lighting.lighting()
    return world


def sensors_of(actor: ActorConfig, bridge: BridgeConfig) -> Mapping[str, SensorDescription]:
    """Return the sensors that an actor's source gives it, by name."""
    sensors_of = getattr(bridge.sources[actor.source], "sensors_of", None)
    return {} if sensors_of is None else sensors_of(actor.subject)


def camera_info(name: str, config: CameraConfig) -> CameraInfo:
    """Return a camera's description for outputs and recordings, as configured."""
    T_body_camera = config.T_body_camera.transform()
    variants = offered_variants(config.latency_compensation)
    return CameraInfo(
        model=config.camera_model(name),
        actor=config.actor,
        T_body_camera=T_body_camera,
        T_body_optical=T_body_camera @ T_FLU_OPTICAL,
        rate_hz=config.rate_hz,
        offers={str(modality): variants for modality in config.modalities},
    )


def _frozen_after_ns(actor: ActorConfig, bridge: BridgeConfig) -> int | None:
    """Return for how long an actor's poses may repeat to the bit; None = for ever."""
    after_ms = actor.tracking.frozen_after_ms
    if after_ms == "auto":
        noisy = getattr(bridge.sources[actor.source], "poses_carry_noise", False)
        after_ms = _FROZEN_AFTER_MS if noisy else "never"
    return None if after_ms == "never" else round(after_ms * _MS)
