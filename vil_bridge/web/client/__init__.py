"""A typed, synchronous client of a bridge's REST interface and live feed.

Every operation of ``docs/reference/openapi.json`` has a method of the same name (its
``operationId``)::

    from vil_bridge.web.client import BridgeApi

    bridge = BridgeApi("http://127.0.0.1:8080/")
    print(bridge.get_status().not_ready_because)
    with bridge.live(poses_hz=30) as feed:
        for message in feed:
            print(message)
"""

from vil_bridge.web.client.api import BridgeApi
from vil_bridge.web.client.errors import (
    BridgeUnreachable,
    NoSuchThing,
    NotAllowed,
    RequestRejected,
    RestError,
)
from vil_bridge.web.client.live import LiveReader
from vil_bridge.web.schemas.live import PreviewRequest

__all__ = [
    "BridgeApi",
    "BridgeUnreachable",
    "LiveReader",
    "NoSuchThing",
    "NotAllowed",
    "PreviewRequest",
    "RequestRejected",
    "RestError",
]
