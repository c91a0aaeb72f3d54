"""Configuration of a renderer connection that speaks the FlightGoggles protocol."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vil_renderer.connection_config import ConnectionConfig
from vil_renderer.flightgoggles.messages import MAX_IMAGE_BYTES


class FlightGogglesConfig(ConnectionConfig):
    """FlightGoggles (v1 to v3) or the embedded renderer, which connect to the bridge."""

    type: Literal["flightgoggles"] = "flightgoggles"
    scene: str = Field(
        default="Abandoned_Factory_Morning",
        max_length=200,
        description="Unity scene to load; the embedded renderer has its own setting.",
    )
    max_in_flight: int = Field(
        default=2, ge=1, le=4, description="Requests that may be unanswered at a time."
    )
    keep_alive_s: float = Field(
        default=0.5,
        gt=0.0,
        lt=2.0,
        description="Seconds without a request after which the last one is repeated (renderers "
        "reset after 2 s).",
    )
    max_picture_mib: int = Field(
        default=8,
        ge=1,
        le=MAX_IMAGE_BYTES >> 20,
        description="Largest picture in MiB (3 bytes per pixel, optical flow 9); a peer that sends "
        "more is cut "
        "off before it takes memory.",
    )
    vehicle_prefab: str = Field(
        default="Blackeagle",
        description="Model of vehicles that name none; empty = they are not sent as objects.",
    )
    bone_prefab: str = Field(
        default="",
        description="Model of every bone of humans that name none; empty = they are not sent as "
        "objects, "
        "since an unknown prefab stops the original renderer.",
    )
    prop_prefab: str = Field(
        default="", description="Model of props that name none; empty = not sent as objects."
    )
