"""Configuration of the stream to the onboard computers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from vil_bridge.config.base import StrictModel, custom
from vil_bridge.config.bind_address import require_guard, tcp_host

__all__ = ["StreamConfig"]


class StreamConfig(StrictModel):
    """Server of pictures for onboard clients (ZeroMQ, and UDP on request)."""

    insecure: bool = Field(default=False, description="Allow an address that the network can reach without keys.")
    secret_key: Path | None = Field(
        default=None, description="File with this bridge's secret key (`vil-bridge keys new`); none = no encryption."
    )
    allowed_keys: Path | None = Field(
        default=None, description="Folder with the public keys (*.key) of the readers that may come in."
    )
    bind: str = Field(
        default="tcp://127.0.0.1:5560",
        description="Address of the control channel, tcp://ADDRESS:PORT; port 0 = any free one.",
    )
    data_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="First TCP port for pictures; each further stream takes the next one. 0 = any free ports.",
    )
    udp_port: int = Field(
        default=0, ge=0, le=65535, description="UDP port, opened when a reader asks for UDP; 0 = any free one."
    )
    udp_rate_mbps: float = Field(
        default=100.0,
        ge=0.5,
        le=10_000,
        description="One UDP reader gets this at most, Mbit/s; less where packets get lost.",
    )

    @property
    def host(self) -> str:
        """The address part of ``bind``, without brackets."""
        return tcp_host(self.bind)

    @field_validator("bind")
    @classmethod
    def _reachable(cls, bind: str, info: ValidationInfo) -> str:
        if not re.fullmatch(r"tcp://(\*|[^\s:/\[\]*]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}", bind):
            raise custom(f"must be written tcp://ADDRESS:PORT, got {bind[:80]!r}")
        guarded = bool(info.data.get("insecure") or info.data.get("secret_key"))
        require_guard(tcp_host(bind), guarded=guarded, advice="give secret_key and allowed_keys, ")
        return bind

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.secret_key is None) != (self.allowed_keys is None):
            raise custom("secret_key and allowed_keys go together: one's own secret key, and who may come in")
        return self
