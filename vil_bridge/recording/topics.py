"""Topics and metadata of our recordings, as writer and reader agree on them."""

from __future__ import annotations

from typing import Final

FORMAT: Final = "1"
"""Version of the layout."""

RECORDING_META: Final = "vil.recording"
"""Metadata: format, bridge, version, started_utc_ns, utc_offset_ns (Unix time minus bridge
time), sources.
"""
CONFIG_META: Final = "vil.configuration"
"""Metadata: ``yaml``, the effective configuration.

With /1, /2, ...: as it was changed, and ``changed_utc_ns``.
"""

EVENTS: Final = "/vil/events/"
"""And the source's name: every event exactly, msgpack."""
HEADERS: Final = "/vil/headers/"
"""And camera/variant: the metadata of each picture, JSON."""
LEDGER: Final = "/vil/ledger/"
"""And the camera: the frames' stamps, JSON lines as of ``GET /api/v1/ledger``."""
LOG: Final = "/log"
"""Log of the bridge."""
LOST: Final = "/vil/lost"
"""Messages that were not written since the start, by topic, JSON; one at each change."""
PICTURES: Final = "/cameras/"


def header_topic(camera: str, variant: str) -> str:
    """Return the topic of the metadata of a camera's pictures."""
    return f"{HEADERS}{camera}/{variant}"


def picture_topic(camera: str, variant: str) -> str:
    """Return the topic of a camera's pictures."""
    return f"{PICTURES}{camera}/{variant}"
