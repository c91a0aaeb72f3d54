"""A ROS 2 node on zenoh, in the form in which rmw_zenoh's nodes speak to each other.

Samples: key ``DOMAIN/TOPIC/PACKAGE::msg::dds_::TYPE_/HASH``, payload CDR, attachment sequence
number, source time and the publisher's gid. Presence: one liveliness token for the node and one for
each publisher and subscriber,
``@ros2_lv/DOMAIN/ZID/NODE/ENTITY/KIND/ENCLAVE/NAMESPACE/NODE[/TOPIC/TYPE/HASH/QOS]``, where ``%``
stands for ``/`` inside a field and for an empty one.
"""

from __future__ import annotations

import itertools
import secrets
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import zenoh
import zenoh.ext
from rosbags.typesys.store import Typestore

from vil_bridge.protocols.ros_topics import Topic

_ATTACHMENT: Final = struct.Struct("<qqB16s")
_GID_BYTES: Final = 16
_NO_HASH: Final = "TypeHashNotSupported"
"""Text on the wire of ROS 2 Humble, whose types have no hashes."""
_ROOT: Final = "/"
"""Enclave and namespace of the node."""


def type_name(message: str) -> str:
    """``sensor_msgs/msg/Imu`` as DDS and zenoh have it."""
    package, _, name = message.split("/")
    return f"{package}::msg::dds_::{name}_"


def type_hash(store: Typestore, message: str, distro: str) -> str:
    """Return the hash that readers of a distribution expect."""
    return _NO_HASH if distro == "humble" else store.hash_rihs01(message)


def data_key(domain: int, topic: Topic, hash_: str) -> str:
    """Return the key on which a topic's samples are published."""
    return f"{domain}/{topic.name.lstrip('/')}/{type_name(topic.type)}/{hash_}"


def qos_field(topic: Topic) -> str:
    """Reliable, keep last; durability 1 = transient local.

    What equals rmw_zenoh's default is left empty.
    """
    return f":{1 if topic.latched else ''}:,{topic.depth}:,:,:,,"


def attachment(sequence: int, t_utc_ns: int, gid: bytes) -> bytes:
    """Return the attachment of a sample."""
    return _ATTACHMENT.pack(sequence, t_utc_ns, len(gid), gid)


class _Publisher:
    """One topic's publisher; one thread publishes."""

    def __init__(self, session: zenoh.Session, key: str, latched: bool) -> None:
        # The package's stubs know neither matching_status nor undeclare().
        self._publisher: Any
        if latched:
            self._publisher = zenoh.ext.declare_advanced_publisher(
                session, key, cache=zenoh.ext.CacheConfig(max_samples=1), publisher_detection=True
            )
        else:
            # Not express: each message would take one of the few places of the line, and a burst of
            # samples is lost.
            self._publisher = session.declare_publisher(
                key, congestion_control=zenoh.CongestionControl.DROP
            )
        self._gid = secrets.token_bytes(_GID_BYTES)
        self._sequence = itertools.count(1)

    def publish(self, message: memoryview) -> None:
        note = attachment(next(self._sequence), time.time_ns(), self._gid)
        # zenoh takes no memoryview; the bytearray under it saves a copy.
        self._publisher.put(message.obj, attachment=note)

    @property
    def read(self) -> bool:
        return bool(self._publisher.matching_status.matching)


class RosNode:
    """A node, its publishers and subscribers, for as long as the session is open.

    Args:
        topics: all that it will publish on.
        subscribed: topics that it reads, each with what takes a message and its publisher's gid, in
            zenoh's threads.
        hash_of: the hash of a message type.
    """

    def __init__(
        self,
        session: zenoh.Session,
        domain: int,
        node: str,
        topics: Sequence[Topic],
        hash_of: Callable[[str], str],
        subscribed: Mapping[Topic, Callable[[bytes, bytes], None]],
    ) -> None:
        self._session = session
        zid = str(session.zid())

        def token(entity: int, kind: str, *more: str) -> zenoh.LivelinessToken:
            fields = (field.replace("/", "%") for field in (_ROOT, _ROOT, node, *more))
            return session.liveliness().declare_token(
                "/".join(("@ros2_lv", str(domain), zid, "0", str(entity), kind, *fields))
            )

        self._tokens = [token(0, "NN")]
        self._publishers: dict[str, _Publisher] = {}
        for entity, topic in enumerate(topics, start=1):
            hash_ = hash_of(topic.type)
            self._publishers[topic.name] = _Publisher(
                session, data_key(domain, topic, hash_), topic.latched
            )
            self._tokens.append(
                token(entity, "MP", topic.name, type_name(topic.type), hash_, qos_field(topic))
            )
        self._subscribers = []
        for entity, (topic, take) in enumerate(subscribed.items(), start=1 + len(topics)):
            hash_ = hash_of(topic.type)
            self._subscribers.append(
                session.declare_subscriber(data_key(domain, topic, hash_), _taker(take))
            )
            self._tokens.append(
                token(entity, "MS", topic.name, type_name(topic.type), hash_, qos_field(topic))
            )

    def publish(self, topic: Topic, message: memoryview) -> None:
        """Put one message; zenoh drops what a line cannot take."""
        self._publishers[topic.name].publish(message)

    def read(self, topics: Sequence[Topic]) -> bool:
        """Return True when one of these has a reader."""
        return any(self._publishers[topic.name].read for topic in topics)

    @property
    def peers(self) -> int:
        """Routers and other sessions that it is connected to."""
        info = self._session.info
        return len(info.routers_zid()) + len(info.peers_zid())


def _taker(take: Callable[[bytes, bytes], None]) -> Callable[[zenoh.Sample], None]:
    """Return what reads a sample.

    The message, and the gid of its publisher, empty where it names none.
    """

    def read(sample: zenoh.Sample) -> None:
        note = b"" if sample.attachment is None else sample.attachment.to_bytes()
        gid = note[-_GID_BYTES:] if len(note) == _ATTACHMENT.size else b""
        take(sample.payload.to_bytes(), gid)

    return read
