"""Configuration of the source that listens to another bridge, and of its emulator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from vil_bridge.config.base import SourceConfigBase, StrictModel, custom
from vil_bridge.config.bind_address import is_loopback

_ADDRESS: Final = re.compile(r"(tcp://|tcp/|tls/|quic/)([^\s/\[\]:]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_SITE: Final = r"^[a-z][a-z0-9_-]*$"


class RemoteConfig(SourceConfigBase):
    """Receive the actors that a bridge in another room publishes."""

    type: Literal["federation"] = "federation"
    site: str = Field(
        pattern=_SITE,
        max_length=64,
        description="Name of the other bridge's site, its `federation.site`.",
    )
    address: str = Field(
        max_length=300,
        description="Where it publishes: tcp://HOST:PORT is ZeroMQ; tcp/, tls/ or quic/HOST:PORT "
        "is zenoh.",
    )
    insecure: bool = Field(
        default=False, description="Allow an address beyond this machine without keys or TLS."
    )
    secret_key: Path | None = Field(
        default=None,
        description="ZeroMQ: file with this bridge's own secret key (`vil-bridge keys new`).",
    )
    server_key: Path | None = Field(
        default=None, description="ZeroMQ: file with the other bridge's public key."
    )
    login: Path | None = Field(
        default=None,
        description="Zenoh: file with one line USER:PASSWORD, readable by its owner only.",
    )
    ca_certificate: Path | None = Field(
        default=None,
        description="Zenoh: certificates that the other bridge's TLS certificate is checked with.",
    )

    @property
    def host(self) -> str:
        """Name or number of the other machine, without brackets."""
        return self.address[len(self._scheme) :].rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """Return the port of the other bridge."""
        return int(self.address.rpartition(":")[2])

    @property
    def zenoh(self) -> bool:
        """Return True for zenoh, False for ZeroMQ."""
        return self._scheme != "tcp://"

    @property
    def _scheme(self) -> str:
        return self.address[: self.address.index("/") + (2 if "://" in self.address else 1)]

    @field_validator("address")
    @classmethod
    def _written_well(cls, address: str) -> str:
        found = _ADDRESS.fullmatch(address)
        if found is None or not 0 < int(found[3]) <= 65535:
            raise custom(
                "must be written tcp://HOST:PORT (ZeroMQ) or tls/HOST:PORT (zenoh), got "
                f"{address[:80]!r}"
            )
        return address

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if (self.secret_key is None) != (self.server_key is None):
            raise custom(
                "secret_key and server_key go together. Give this bridge's secret key, "
                "the other's public key"
            )
        if self.zenoh and self.secret_key is not None:
            raise custom(
                "secret_key and server_key are for ZeroMQ; zenoh takes login and ca_certificate"
            )
        if not self.zenoh and (self.login is not None or self.ca_certificate is not None):
            raise custom(
                "login and ca_certificate are for zenoh; ZeroMQ takes secret_key and server_key"
            )
        encrypted = self.secret_key is not None or self._scheme in ("tls/", "quic/")
        if not (encrypted or self.insecure or is_loopback(self.host)):
            raise custom(
                f"{self.host} is another machine and nothing guards the way there. Give "
                "secret_key and server_key,"
                " use tls/, or add `insecure: true` on a private link"
            )
        return self


class RemoteEmulatorConfig(StrictModel):
    """A stand-in for a bridge in another room."""

    bind: str = Field(
        default="tcp://127.0.0.1:0", description="Where it publishes; port 0 = any free one."
    )
    site: str = Field(default="far", pattern=_SITE, description="Name of its site.")
    rate_hz: float = Field(default=120.0, gt=0.0, le=2000.0, description="Frames per second.")
    latency_ms: float = Field(
        default=6.0, ge=0.0, le=1000.0, description="From capture to publication."
    )
    clock_offset_s: float = Field(
        default=2000.0, description="Its clock minus the bridge's at the start."
    )
    clock_drift_ppm: float = Field(
        default=20.0, ge=-1000.0, le=1000.0, description="Its clock runs fast by this."
    )
