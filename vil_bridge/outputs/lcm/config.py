"""Configuration of the LCM output."""

from __future__ import annotations

import re
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from vil_bridge.config.base import custom
from vil_bridge.config.bind_address import refuse_unguarded, require_guard
from vil_bridge.outputs.base import RobotSenderConfig

CHANNEL_CHARACTERS: Final = 63
"""Of a channel's name, at most (LCM)."""


class LcmConfig(RobotSenderConfig):
    """Publish over LCM."""

    type: Literal["lcm"] = "lcm"
    url: str = Field(
        default="udpm://239.255.76.67:7667?ttl=0",
        pattern=r"^(udpm|mpudpm|tcpq|memq)://\S*$",
        max_length=300,
        description="LCM's address; ttl=0 keeps multicast on this machine, ttl=1 on this network.",
    )
    prefix: str = Field(
        default="vil",
        pattern=r"^[A-Za-z0-9_]+$",
        max_length=32,
        description="First part of channels.",
    )
    insecure: bool = Field(
        default=False, description="Allow a url that reaches the network: LCM guards nothing."
    )
    commands: bool = Field(
        default=False,
        description="Take commands to the actors that are simulated vehicles. LCM knows no keys.",
    )
    images: Literal["jpeg", "raw"] = Field(default="jpeg", description="Form of the pictures.")

    @model_validator(mode="after")
    def _short_channels(self) -> Self:
        for name in (*self.cameras, *self.actors):
            if len(f"{self.prefix}/{name}/image") > CHANNEL_CHARACTERS:
                raise custom(
                    f"LCM's channels have at most {CHANNEL_CHARACTERS} characters: "
                    f"{self.prefix}/{name}/image"
                )
        return self

    @model_validator(mode="after")
    def _private(self) -> Self:
        scheme, rest = self.url.split("://")
        if "udpm" in scheme:
            hops = re.search(r"[?&]ttl=(\d+)", rest)
            if hops is not None and int(hops[1]) > 0:
                refuse_unguarded(
                    f"ttl={hops[1]}",
                    guarded=self.insecure,
                    cure="write ttl=0 to stay on this machine",
                )
        elif scheme == "tcpq":
            host = re.split("[:?]", rest)[0] or "127.0.0.1"  # LCM's default; it knows no IPv6
            require_guard(host, guarded=self.insecure)
        return self
