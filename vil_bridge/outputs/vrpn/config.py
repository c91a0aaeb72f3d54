"""Configuration of the VRPN output."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from vil_bridge.config.base import Listening
from vil_bridge.outputs.pose_server import PoseServerConfig


class VrpnOutputConfig(PoseServerConfig):
    """Serve the poses of actors as a VRPN server."""

    listens: ClassVar[tuple[Listening, ...]] = (Listening("port", "tcp udp"),)

    type: Literal["vrpn"] = "vrpn"
    port: int = Field(
        default=3883, ge=0, le=65535, description="TCP and UDP port, 0 = any free one."
    )
