"""Configuration of the output."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from vil_bridge.config.address import Ipv4
from vil_bridge.config.bind_address import is_loopback, refuse_unguarded
from vil_bridge.outputs.base import SenderConfig

__all__ = ["ExampleConfig"]


class ExampleConfig(SenderConfig):
    """Send poses and pictures as datagrams."""  # TODO: name the system.

    # TODO: one key for each thing that a user chooses; cameras, actors and more are inherited.
    type: Literal["example"] = "example"
    host: Ipv4 = Field(default="127.0.0.1", description="IPv4 address that the datagrams go to.")
    port: int = Field(default=50200, ge=1, le=65535, description="UDP port there.")
    insecure: bool = Field(
        default=False, description="Allow an address on the network: nothing is encrypted."
    )

    @model_validator(mode="after")
    def _private(self) -> Self:
        if not is_loopback(self.host):
            refuse_unguarded(self.host, guarded=self.insecure, cure="send to 127.0.0.1")
        return self
