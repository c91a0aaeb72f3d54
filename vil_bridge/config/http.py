"""Configuration of the HTTP server: the status page, REST, metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator

from vil_bridge.config.base import Listening, NameOrFile, StrictModel, custom
from vil_bridge.config.bind_address import is_loopback, require_guard

_Host = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$", max_length=253)
]


class HttpConfig(StrictModel):
    """Server of the status page, REST and metrics."""

    listens: ClassVar[tuple[Listening, ...]] = (Listening("port", "tcp"),)

    insecure: bool = Field(
        default=False, description="Allow an address that the network can reach without tokens."
    )
    token_file: Path | None = Field(
        default=None,
        description="File with access tokens (`vil-bridge keys token`); none = every caller may do "
        "everything.",
    )
    tls_certificate: Path | None = Field(
        default=None,
        description="Certificate chain for https (PEM, `vil-bridge keys tls`); none = plain http.",
    )
    tls_key: Path | None = Field(
        default=None, description="The certificate's private key (PEM), its owner's alone."
    )
    hosts: tuple[_Host, ...] = Field(
        default=(),
        max_length=64,
        description="Names by which browsers may call this server, in addition to localhost and "
        "numeric addresses.",
    )
    scene: NameOrFile | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="Name or file of the scene that pages show; none = the shipped one that a "
        "renderer draws.",
    )
    bind: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="TCP port; 0 = any free one.")

    @property
    def is_open(self) -> bool:
        """True if others can reach it without any authentication."""
        return self.token_file is None and not is_loopback(self.bind)

    @field_validator("hosts")
    @classmethod
    def _guarded(cls, hosts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if hosts and not (info.data.get("token_file") or info.data.get("insecure")):
            raise custom(
                "hosts are for callers on other computers: give token_file as well "
                "(`vil-bridge keys token`)"
            )
        return tuple(host.lower() for host in hosts)

    @field_validator("bind")
    @classmethod
    def _reachable(cls, bind: str, info: ValidationInfo) -> str:
        guarded = bool(info.data.get("insecure") or info.data.get("token_file"))
        require_guard(bind, guarded=guarded, advice="give token_file (`vil-bridge keys token`), ")
        return bind

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise custom("tls_certificate and tls_key go together")
        return self
