"""Configuration of the video output."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from vil_bridge.config.base import OutputConfigBase, custom


class RtpConfig(OutputConfigBase):
    """Cameras as H.264 or HEVC video over RTP (extra `video`)."""

    type: Literal["rtp"] = "rtp"
    host: str = Field(
        default="127.0.0.1",
        description="Numeric address of the receiver, a multicast group included.",
    )
    port: int = Field(
        default=5600,
        ge=2,
        le=65534,
        multiple_of=2,
        description="UDP port of the first camera's video, even; its reports go to the next one. "
        "Each further camera "
        "goes two ports higher.",
    )
    codec: Literal["h264", "hevc"] = Field(
        default="h264", description="How pictures are compressed."
    )
    hardware: bool = Field(
        default=True, description="Let an NVIDIA card encode where one can; status says which does."
    )
    preset: Literal["ultrafast", "superfast"] = Field(
        default="ultrafast",
        description="Of the encoder in software: superfast is finer and takes half as long again.",
    )
    bitrate_mbps: float = Field(
        default=6.0, gt=0, le=500, description="Of each camera's video, Mbit/s."
    )
    width_px: int | None = Field(
        default=None,
        ge=16,
        le=8192,
        multiple_of=2,
        description="Scale to this width, pixels; none = the camera's.",
    )
    height_px: int | None = Field(
        default=None,
        ge=16,
        le=8192,
        multiple_of=2,
        description="Scale to this height, pixels; none = the camera's.",
    )
    variant: Literal["compensated", "raw"] | None = Field(
        default=None,
        description="Which pictures; none = compensated ones where the camera has them.",
    )
    packet_bytes: int = Field(
        default=1400, ge=256, le=65000, description="Largest UDP payload, bytes."
    )
    pacing: float = Field(
        default=0.5,
        ge=0,
        le=0.9,
        description="Part of the time to the next picture over which this one's packets are "
        "spread, what encoding took "
        "off; 0 = at once.",
    )
    sdp_folder: Path | None = Field(
        default=None,
        description="Folder for one CAMERA.sdp each, for players; none = they are in the status "
        "only.",
    )
    insecure: bool = Field(
        default=False, description="Allow a receiver on the network: the video is not encrypted."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            raise custom(f"host: {self.host!r} is not a numeric address") from None
        if not self.insecure and not address.is_loopback:
            raise custom(
                f"{self.host} is on the network and the video is not encrypted;"
                " send to 127.0.0.1, or add `insecure: true` on a private link"
            )
        if not self.cameras:
            raise custom("cameras: name the cameras whose video is sent")
        if self.port + 2 * len(self.cameras) > 65536:
            raise custom(
                f"port: {len(self.cameras)} cameras from {self.port} on need ports above 65535"
            )
        if (self.width_px is None) != (self.height_px is None):
            raise custom("width_px and height_px go together")
        return self

    def port_of(self, camera: str) -> int:
        """UDP port of a camera's video."""
        return self.port + 2 * self.cameras.index(camera)
