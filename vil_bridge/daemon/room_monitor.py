"""What joins a running bridge with others: its keys and tokens, the publisher to other rooms, the watch over walls."""

from __future__ import annotations

import logging
import ssl
import sys
from collections import Counter
from typing import Final

from vil_bridge.config.http import HttpConfig
from vil_bridge.config.publish import PublishConfig, PublishZenohConfig
from vil_bridge.config.root import BridgeConfig
from vil_bridge.config.stream import StreamConfig
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.protocols.zmq.curve import read_public_keys, read_secret_key
from vil_bridge.protocols.federation.messages import ActorInfo
from vil_bridge.protocols.federation.zmq_link import Answer, PublisherLink, ZmqPublisherLink
from vil_bridge.web.auth.access import Access
from vil_bridge.web.auth.login import login_path
from vil_bridge.web.tls import tls_context
from vil_bridge.web.auth.tokens import Role, read_tokens
from vil_bridge.outputs.federation.publisher import PublishedActor, Publisher
from vil_bridge.registry import explain_missing
from vil_bridge.outputs.stream.curve_guard import StreamGuard
from vil_bridge.world.geofence import Room, RoomWarning, Walls, room_warnings
from vil_bridge.world.world import World

__all__ = [
    "RoomWatch",
    "make_access",
    "make_guard",
    "make_publisher",
    "make_tls",
    "make_watch",
    "show_login_link",
    "warning_text",
]

logger = logging.getLogger(__name__)

_VELOCITY_NS: Final = 50 * NS_PER_MS
_EPISODE_END_NS: Final = NS_PER_S


def make_access(http: HttpConfig) -> Access:
    """Decides who may do what over HTTP.

    Raises:
        ConfigError: the token file cannot be read, or others may read it.
    """
    tokens = None if http.token_file is None else read_tokens(http.token_file)
    return Access(tokens, frozenset((*http.hosts, http.bind.lower())), http.asks_nobody)


def show_login_link(access: Access, url: str) -> None:
    """Write a link for one browser to the terminal, where there is one: a log is no place for it."""
    if access.tokens is not None and sys.stdout.isatty():
        sys.stdout.write(f"log in, once and within ten minutes: {url}{login_path(access, Role.CONTROL)}\n")
        sys.stdout.flush()


def make_tls(http: HttpConfig) -> ssl.SSLContext | None:
    """For https; None when the configuration names no certificate.

    Raises:
        ConfigError: certificate or key cannot be used.
    """
    if http.tls_certificate is None or http.tls_key is None:
        return None
    return tls_context(http.tls_certificate, http.tls_key)


def make_guard(stream: StreamConfig) -> StreamGuard | None:
    """Asks readers of the stream for their keys; None when the configuration names none.

    Raises:
        ConfigError: a key cannot be read.
    """
    if stream.secret_key is None or stream.allowed_keys is None:
        return None
    return StreamGuard(read_secret_key(stream.secret_key), read_public_keys(stream.allowed_keys))


def make_publisher(config: BridgeConfig, world: World) -> Publisher | None:
    """The publisher that a configuration asks for, not started; None when it asks for none.

    Raises:
        ConfigError: a key cannot be read, or zenoh is not installed.
    """
    publish = config.publish
    if publish.zmq is None and publish.zenoh is None:
        return None
    names = publish.actors or [n for n, a in config.actors.items() if config.sources[a.source].type != "remote"]
    actors = [
        PublishedActor(ActorInfo(n, a.kind, a.prefab, a.size_m), a.source)
        for n, a in ((name, config.actors[name]) for name in names)
    ]
    publisher = Publisher(publish.site, actors, world)
    publisher.links += _links(publish, publisher.answer)
    return publisher


def _links(publish: PublishConfig, answer: Answer) -> list[PublisherLink]:
    links: list[PublisherLink] = []
    if publish.zmq is not None:
        secret, allowed = publish.zmq.secret_key, publish.zmq.allowed_keys
        keys = None if secret is None else read_secret_key(secret)
        readers = {} if allowed is None else read_public_keys(allowed)
        links.append(ZmqPublisherLink(publish.zmq.bind, answer, keys, readers))
    if publish.zenoh is not None:
        links.append(_zenoh_link(publish.zenoh, publish.site, answer))
    return links


def _zenoh_link(config: PublishZenohConfig, site: str, answer: Answer) -> PublisherLink:
    try:
        from vil_bridge.protocols.federation.zenoh_link import ZenohPublisherLink
    except ModuleNotFoundError as exc:
        raise ConfigError(f"publish.zenoh: {explain_missing(exc)}") from exc
    return ZenohPublisherLink(config.listen, site, answer, config.users, config.certificate, config.private_key)


def make_watch(config: BridgeConfig, world: World) -> RoomWatch:
    """The watch over all rooms of a configuration."""
    rooms = tuple(
        Room(
            name,
            room.T_world_room.transform(),
            None if room.walls is None else Walls(room.walls.min_m, room.walls.max_m),
            room.margin_m,
        )
        for name, room in config.rooms.items()
    )
    room_of = {name: getattr(config.sources[actor.source], "room", None) for name, actor in config.actors.items()}
    return RoomWatch(world, rooms, {name: room for name, room in room_of.items() if room is not None})


class RoomWatch:
    """Looks ahead when asked; warns in the log once per episode.

    Attributes:
        warnings: those of the last look.
        episodes: how many began so far, by kind.
    """

    def __init__(self, world: World, rooms: tuple[Room, ...], room_of: dict[str, str]) -> None:
        self.warnings: tuple[RoomWarning, ...] = ()
        self.episodes: Counter[str] = Counter()
        self._world = world
        self._rooms = rooms
        self._room_of = room_of
        self._needed = len(set(room_of.values())) > 1 or any(room.walls is not None for room in rooms)
        self._last_ns: dict[tuple[str, tuple[str, ...]], int] = {}

    def look(self) -> None:
        """Find the warnings of now. Any thread, one at a time."""
        if not self._needed:
            return
        t_ns = now_ns()
        now, later = self._world.snapshot(t_ns), self._world.snapshot(t_ns + _VELOCITY_NS)
        self.warnings = room_warnings(now, later, self._rooms, self._room_of)
        for warning in self.warnings:
            key = (warning.kind, warning.actors)
            if t_ns - self._last_ns.get(key, -_EPISODE_END_NS) >= _EPISODE_END_NS:
                self.episodes[warning.kind] += 1
                logger.warning("%s", warning_text(warning))
            self._last_ns[key] = t_ns


def warning_text(warning: RoomWarning) -> str:
    """A warning in words."""
    if warning.kind == "leaving":
        return f"{warning.actors[0]} is about to leave room {warning.rooms[0]} (in {warning.in_s:.1f} s)"
    (one, other), (room, other_room) = warning.actors, warning.rooms
    return (
        f"{one} (room {room}) and {other} (room {other_room}) come within {warning.distance_m:.2f} m"
        f" of each other in the virtual world (in {warning.in_s:.1f} s)"
    )
