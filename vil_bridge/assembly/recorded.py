"""Convert between a bridge configuration and recording metadata."""

from __future__ import annotations

import logging
from typing import Any

import yaml
from pydantic import ValidationError

from vil_bridge import __version__
from vil_bridge.assembly.world import camera_info, sensors_of
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import RecordingError
from vil_bridge.core.types import ActorKind
from vil_bridge.recording.metadata import RecordedActor, RecordingFacts
from vil_bridge.recording.reader import Recording
from vil_bridge.registry import resolve

logger = logging.getLogger(__name__)

_NOT_AGAIN = (
    "outputs",
    "federation",
    "http",
    "stream",
    "record",
    "debug",
    "realtime",
    "simulation",
)
"""Sections that a replay does not take over.

It neither listens nor sends where the recorded bridge did.
"""


def recording_metadata(
    config: BridgeConfig, utc_offset_ns: int, version: str = __version__
) -> RecordingFacts:
    """Return the metadata of a recording of a bridge.

    Args:
        config: the effective one.
        utc_offset_ns: Unix time minus bridge time.
        version: of the bridge.
    """
    infos = [camera_info(name, camera) for name, camera in config.every_camera().items()]
    return RecordingFacts(
        bridge=config.name,
        version=version,
        config_text=config_text(config),
        utc_offset_ns=utc_offset_ns,
        sources=tuple(config.sources),
        actors=_actors(config),
        cameras=tuple(infos),
    )


def config_text(config: BridgeConfig) -> str:
    """Return a configuration as YAML."""
    text: str = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return text


def _actors(config: BridgeConfig) -> tuple[RecordedActor, ...]:
    found = []
    for name, actor in config.actors.items():
        room = getattr(config.sources[actor.source], "room", None)
        if room is None:
            continue
        found.append(
            RecordedActor(
                name,
                actor.source,
                actor.subject,
                actor.kind is ActorKind.HUMAN,
                config.rooms[room].T_world_room.transform(),
                actor.T_body_markers.transform(),
                actor.imu or "",
                None if actor.imu is None else actor.T_body_imu.transform(),
                sensors_of(actor, config),
            )
        )
    return tuple(found)


def recorded_config(recording: Recording) -> BridgeConfig:
    """Return the configuration of the bridge that recorded.

    Raises:
        RecordingError: this version cannot read it, or lacks one of its plug-ins.
    """
    return _read(recording, _data_of(recording), f"install VIL Bridge {recording.version}")


def replay_config(
    recording: Recording, *, rate: float, loop: bool, data: dict[str, Any] | None = None
) -> BridgeConfig:
    """Return the same world with the recording in place of its sources.

    It sends nothing to the recorded addresses.

    Args:
        recording: what to replay.
        rate: recorded seconds per second.
        loop: begin again after the end.
        data: another configuration to replay into, as plain data; None = the recorded one.

    Raises:
        RecordingError: as for :func:`recorded_config`.
    """
    cure = "change that configuration"
    if data is None:
        data = {k: v for k, v in _data_of(recording).items() if k not in _NOT_AGAIN}
        cure = "give another with --config"
    sources = dict(data.get("sources") or {})
    for name in recording.sources:
        live = sources.get(name)
        room = live.get("room") if isinstance(live, dict) else None
        sources[name] = {
            "type": "replay",
            "path": str(recording.path),
            "room": room,
            "rate": rate,
            "loop": loop,
        }
    return _read(recording, {**data, "sources": sources}, cure)


def _data_of(recording: Recording) -> dict[str, Any]:
    if recording.changes:
        after_s = (recording.changes[0][0] - recording.started_utc_ns) / NS_PER_S
        logger.warning(
            "%s: the configuration was changed %d times while it recorded, first after "
            "%.1f s; it is played as at the "
            "start (the others are the metadata vil.configuration/1, ...)",
            recording.path,
            len(recording.changes),
            after_s,
        )
    try:
        data = yaml.safe_load(recording.config_text)
    except yaml.YAMLError as exc:
        raise RecordingError(
            f"{recording.path}: its configuration is not YAML ({exc}); get a fresh copy"
        ) from exc
    if not isinstance(data, dict):
        raise RecordingError(f"{recording.path}: its configuration is empty; get a fresh copy")
    return data


def _read(recording: Recording, data: dict[str, Any], cure: str) -> BridgeConfig:
    try:
        return BridgeConfig.model_validate(data, context={"resolve": resolve})
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RecordingError(
            f"{recording.path}, recorded by VIL Bridge {recording.version}: this version "
            "cannot run its sources with "
            f"that configuration: {place}: {first['msg']}; {cure}"
        ) from exc
