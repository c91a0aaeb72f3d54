"""Configuration of the Foxglove output."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from vil_bridge.config.base import Listening
from vil_bridge.config.bind_address import require_guard
from vil_bridge.outputs.base import SenderConfig


class FoxgloveConfig(SenderConfig):
    """Serve Foxglove's WebSocket protocol."""

    listens: ClassVar[tuple[Listening, ...]] = (Listening("port", "tcp"),)

    type: Literal["foxglove"] = "foxglove"
    bind: str = Field(
        default="127.0.0.1", description="Address to listen on; web pages opened there can read it."
    )
    port: int = Field(default=8765, ge=0, le=65535, description="TCP port, 0 = any free one.")
    insecure: bool = Field(
        default=False,
        description="Allow an address that the network can reach: the protocol knows no tokens.",
    )
    rate_hz: float = Field(default=60.0, gt=0, le=1000.0, description="Poses per second at most.")

    @model_validator(mode="after")
    def _private(self) -> Self:
        require_guard(self.bind, guarded=self.insecure)
        return self
