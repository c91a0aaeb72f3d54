"""Configuration of a renderer connection that speaks the Flightmare protocol."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vil_renderer.connection_config import ConnectionConfig
from vil_renderer.flightmare.messages import MAX_IMAGE_BYTES, NO_OBJECTS


class FlightmareConfig(ConnectionConfig):
    """Flightmare's Unity program, or our own renderer speaking its protocol.

    Either dials in to the bridge.
    """

    type: Literal["flightmare"] = "flightmare"
    dialect: Literal["master", "2022", "agile_autonomy"] = Field(
        default="master",
        description="Which program listens: master (flightmare), 2022 (agile_flight), or "
        "agile_autonomy; "
        "the messages do not contain it.",
    )
    scene_id: int = Field(
        default=1, ge=0, le=99, description="Scene to load, by the program's own numbers."
    )
    object_csv: str = Field(
        default=NO_OBJECTS,
        min_length=1,
        max_length=4096,
        description="Dialect 2022: list of objects that the program opens before it is ready; a "
        "path on the "
        "renderer's host, which must exist. The default holds none.",
    )
    max_in_flight: int = Field(
        default=2,
        ge=1,
        le=2,
        description="Poses that may be unanswered at a time; the renderer keeps the newest.",
    )
    silence_s: float = Field(
        default=5.0,
        gt=0.0,
        le=120.0,
        description="Silence in seconds after which the renderer starts over, and so do we: 5 for "
        "master, 10 for 2022.",
    )
    keep_alive_s: float = Field(
        default=0.5,
        gt=0.0,
        le=1.0,
        description="Seconds without a pose after which the last one is repeated.",
    )
    max_picture_mib: int = Field(
        default=8,
        ge=1,
        le=MAX_IMAGE_BYTES >> 20,
        description="Largest picture in MiB (4 bytes per pixel of depth); a peer that sends more "
        "is disconnected.",
    )
    bone_prefab: str = Field(
        default="",
        description="Model of every bone of humans that name none; empty = they are not sent. "
        "The program of master shows a race gate whatever the name.",
    )
    prop_prefab: str = Field(
        default="", description="Model of props that name none; empty = they are not sent."
    )
