"""ROS 2 topics and their quality of service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rosbags.interfaces import (
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its type.

    Attributes:
        name: absolute. type: as ``sensor_msgs/msg/Imu``.
        latched: late subscribers get the newest message.
        depth: messages that a reader's queue should hold.
    """

    name: str
    type: str
    latched: bool = False
    depth: int = 10


_FOR_EVER: Final = QosTime(0x7FFFFFFF, 0xFFFFFFFF)


def qos_of(topic: Topic) -> Qos:
    """Return the quality of service of a topic, for players of a bag."""
    return Qos(
        QosHistory.KEEP_LAST,
        topic.depth,
        QosReliability.RELIABLE,
        QosDurability.TRANSIENT_LOCAL if topic.latched else QosDurability.VOLATILE,
        _FOR_EVER,
        _FOR_EVER,
        QosLiveliness.AUTOMATIC,
        _FOR_EVER,
        False,
    )
