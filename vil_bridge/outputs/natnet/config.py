"""Configuration of the NatNet output."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from vil_bridge.config.address import Multicast
from vil_bridge.config.base import Listening, custom
from vil_bridge.outputs.pose_server import PoseServerConfig


class NatNetOutputConfig(PoseServerConfig):
    """Serve the poses of actors as a NatNet server, as OptiTrack Motive does."""

    listens: ClassVar[tuple[Listening, ...]] = (
        Listening("command_port", "udp"),
        Listening("data_port", "udp"),
    )

    type: Literal["natnet"] = "natnet"
    command_port: int = Field(
        default=1510, ge=0, le=65535, description="UDP command port, 0 = any free one."
    )
    data_port: int = Field(
        default=1511, ge=0, le=65535, description="UDP data port, 0 = any free one."
    )
    transport: Literal["unicast", "multicast"] = Field(
        default="unicast",
        description="Frames to each client that connects, or to a multicast group.",
    )
    multicast_group: Multicast = Field(
        default="239.255.42.99", description="Group that frames go to in multicast."
    )
    version: Literal["3.1", "4.1"] = Field(
        default="4.1",
        description="NatNet version; of 4.1, unicast clients may choose an older one, down to 3.0.",
    )
    client_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Unicast frames go to this port of each client; 0 = the port that it "
        "registered from.",
    )
    registration_timeout_s: float = Field(
        default=10.0,
        gt=0.0,
        le=3600.0,
        description="A unicast client that is silent for longer is removed.",
    )

    @model_validator(mode="after")
    def _two_ports(self) -> Self:
        if self.command_port == self.data_port != 0:
            raise custom(
                f"command_port and data_port are both {self.data_port}. Give them different ports"
            )
        return self
