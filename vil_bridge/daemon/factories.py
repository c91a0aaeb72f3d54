"""Parts of a bridge made from its configuration: cameras, guard of the stream, publisher."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from vil_bridge.config.camera import CameraConfig
from vil_bridge.config.federation import FederationConfig, FederationZenohConfig
from vil_bridge.config.root import BridgeConfig
from vil_bridge.config.stream import StreamConfig
from vil_bridge.core.bridge_time import BridgeTime
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import RenderedFrame
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.outputs.federation.publisher import PublishedActor, Publisher
from vil_bridge.outputs.stream.curve_guard import CurveAuthenticator
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.protocols.federation.messages import ActorInfo
from vil_bridge.protocols.federation.zmq_link import Answer, PublisherLink, ZmqPublisherLink
from vil_bridge.protocols.zmq.curve import read_public_keys, read_secret_key
from vil_bridge.registry import explain_missing
from vil_bridge.world.world import World

_MS: Final = 1_000_000


def bridge_camera(name: str, config: CameraConfig, bridge: BridgeConfig) -> BridgeCamera:
    """Make a camera of the pipeline from its configuration."""
    reach_m = _reach_of(config, bridge)
    actor = bridge.actors.get(config.actor)
    repeat_ns = 0
    if not bridge.simulation.wait_for_cameras:  # else none is late
        repeat_ns = round(config.repeat_ms * _MS)
    on_loss = "hold"
    if actor is not None:
        on_loss = actor.tracking.on_loss
    return BridgeCamera(
        model=config.camera_model(name),
        actor=config.actor,
        T_body_camera=config.T_body_camera.transform(),
        rate_hz=config.rate_hz,
        modalities=config.modalities,
        predict=config.predict,
        compensate="reproject"
        if config.latency_compensation == "depth"
        else config.latency_compensation,
        plane_depth_m=None if config.plane_depth_m == "auto" else config.plane_depth_m,
        moving_actors=config.moving_actors,
        margin_rad=math.radians(config.margin()),
        rolling_shutter_ns=round(config.rolling_shutter_ms * _MS),
        extra_delay_ns=round(config.artificial_delay_ms * _MS),
        extra_jitter_ns=round(config.artificial_jitter_ms * _MS),
        max_age_ns=round(config.max_age_ms * _MS),
        repeat_ns=repeat_ns,
        on_loss=on_loss,
        collision=config.collision,
        layer=config.layer,
        reach_m=reach_m or 0.0,
        image_sensor=config.image_sensor(),
        depth_sensor=config.depth_sensor(),
    )


def _reach_of(config: CameraConfig, bridge: BridgeConfig) -> float | None:
    """Return the distance from which surfaces act on a camera's carrier.

    0 = on contact, None = never.
    """
    actor = bridge.actors.get(config.actor)
    if actor is None:
        return None
    reach_of = getattr(bridge.sources[actor.source], "reach_of", None)
    if reach_of is None or not config.collision:
        return None
    reach_m: float | None = reach_of(actor.subject)
    return reach_m


def contact_reporter(
    name: str, config: CameraConfig, bridge: BridgeConfig, vehicles: VehicleCommandBus
) -> Callable[[RenderedFrame], None] | None:
    """Return what reports collisions from a camera's renderer to its simulated carrier.

    None where it needs none.
    """
    if _reach_of(config, bridge) is None:
        return None
    actor = bridge.actors[config.actor]
    room = bridge.rooms[getattr(bridge.sources[actor.source], "room", "")]
    T_room_world = room.T_world_room.transform().inverse()
    turn = T_room_world.rotation()

    def report_contact(frame: RenderedFrame) -> None:
        near = [
            replace(
                s, p_world_m=T_room_world.apply(s.p_world_m), normal_world=turn @ s.normal_world
            )
            for s in frame.near or ()
            if s.camera == name
        ]
        t_pose_ns = next(
            image.view.t_pose_ns for image in frame.images if image.view.camera.name == name
        )
        surfaces = None if frame.near is None else near
        vehicles.on_contact(actor.source, actor.subject, t_pose_ns, surfaces, hit=frame.collision)

    return report_contact


def make_guard(stream: StreamConfig) -> CurveAuthenticator | None:
    """Make the authenticator of the stream's readers; None when the configuration names no keys.

    Raises:
        ConfigError: a key cannot be read.
    """
    if stream.secret_key is None or stream.allowed_keys is None:
        return None
    return CurveAuthenticator(
        read_secret_key(stream.secret_key), read_public_keys(stream.allowed_keys)
    )


def make_publisher(config: BridgeConfig, world: World, clock: BridgeTime) -> Publisher | None:
    """Make the publisher that a configuration asks for, not started; None when it asks for none.

    Raises:
        ConfigError: a key cannot be read, or zenoh is not installed.
    """
    federation = config.federation
    if federation.zmq is None and federation.zenoh is None:
        return None
    names = federation.actors or [
        n for n, a in config.actors.items() if config.sources[a.source].type != "federation"
    ]
    actors = []
    for name in names:
        actor = config.actors[name]
        info = ActorInfo(name, actor.kind, actor.prefab, actor.size_m)
        actors.append(PublishedActor(info, actor.source))
    publisher = Publisher(federation.site, actors, world, clock.now_ns)
    publisher.links += _links(federation, publisher.answer)
    return publisher


def _links(config: FederationConfig, answer: Answer) -> list[PublisherLink]:
    links: list[PublisherLink] = []
    if config.zmq is not None:
        secret = config.zmq.secret_key
        allowed = config.zmq.allowed_keys
        keys = None if secret is None else read_secret_key(secret)
        readers = {} if allowed is None else read_public_keys(allowed)
        links.append(ZmqPublisherLink(config.zmq.bind, answer, keys, readers))
    if config.zenoh is not None:
        links.append(_zenoh_link(config.zenoh, config.site, answer))
    return links


def _zenoh_link(config: FederationZenohConfig, site: str, answer: Answer) -> PublisherLink:
    try:
        from vil_bridge.protocols.federation.zenoh_link import ZenohPublisherLink
    except ModuleNotFoundError as exc:
        raise ConfigError(f"federation.zenoh: {explain_missing(exc)}") from exc
    return ZenohPublisherLink(
        config.listen, site, answer, config.users, config.certificate, config.private_key
    )
