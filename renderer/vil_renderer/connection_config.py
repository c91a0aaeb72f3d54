"""Configuration that every renderer connection has."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, ValidationInfo, field_validator

from vil_bridge.config.address import Ipv4
from vil_bridge.config.base import Listening, PluginConfig
from vil_bridge.config.bind_address import require_guard


class ConnectionConfig(PluginConfig):
    """Ports for renderers, and time-outs; each protocol bounds the last two keys itself."""

    listens: ClassVar[tuple[Listening, ...]] = (
        Listening("pose_port", "tcp"),
        Listening("image_port", "tcp"),
    )

    insecure: bool = Field(
        default=False,
        description="Allow an address that the network can reach: renderers know no guard.",
    )
    bind: Ipv4 = Field(
        default="127.0.0.1",
        description="Numeric local address that the renderer dials; 0.0.0.0 = every interface.",
    )
    pose_port: int = Field(
        default=10253, ge=0, le=65535, description="TCP port of the poses; 0 = any free one."
    )
    image_port: int = Field(
        default=10254, ge=0, le=65535, description="TCP port of the pictures; 0 = any free one."
    )
    answer_timeout_s: float = Field(
        default=1.0,
        gt=0.0,
        le=60.0,
        description="Silence in seconds after which unanswered poses are given up.",
    )
    keep_alive_s: float
    max_picture_mib: int

    @field_validator("bind")
    @classmethod
    def _guarded(cls, bind: str, info: ValidationInfo) -> str:
        require_guard(bind, guarded=bool(info.data.get("insecure")))
        return bind
