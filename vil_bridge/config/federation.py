"""Configuration of what bridges in other rooms receive."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from pydantic import Field, ValidationInfo, field_validator

from vil_bridge.config.address import check_port
from vil_bridge.config.base import Listening, StrictModel, custom
from vil_bridge.config.bind_address import HOST_PATTERN, CurveServerConfig, require_guard

_SITE: Final = r"^[a-z][a-z0-9_-]*$"


class FederationZmqConfig(CurveServerConfig):
    """Publish over ZeroMQ: a LAN, CURVE keys."""

    bind: str = Field(
        default="tcp://127.0.0.1:5570",
        description="Address to listen on, tcp://ADDRESS:PORT; port 0 = any free one.",
    )


class FederationZenohConfig(StrictModel):
    """Publish over zenoh (extra `federation`): several sites, TLS, users with passwords."""

    listens: ClassVar[tuple[Listening, ...]] = (Listening("listen", "tcp"),)

    users: Path | None = Field(
        default=None,
        description="File of lines USER:PASSWORD, readable by its owner only; none = anybody.",
    )
    certificate: Path | None = Field(
        default=None, description="This bridge's TLS certificate (PEM)."
    )
    private_key: Path | None = Field(
        default=None, description="The certificate's private key (PEM)."
    )
    insecure: bool = Field(
        default=False,
        description="Allow an address that the network can reach without TLS and users.",
    )
    listen: str = Field(
        default="tcp/127.0.0.1:7447",
        pattern=rf"^(tcp|tls|quic)/{HOST_PATTERN}:\d{{1,5}}$",
        description="Endpoint to listen on: tcp/ADDRESS:PORT, tls/ADDRESS:PORT or "
        "quic/ADDRESS:PORT.",
    )

    @field_validator("listen")
    @classmethod
    def _guarded(cls, listen: str, info: ValidationInfo) -> str:
        scheme, _, address = listen.partition("/")
        check_port(address)
        if scheme != "tcp" and not (info.data.get("certificate") and info.data.get("private_key")):
            raise custom(f"{listen} needs certificate and private_key")
        guarded = bool(info.data.get("insecure") or (scheme != "tcp" and info.data.get("users")))
        advice = "use tls/ with certificate, private_key and users, "
        require_guard(address.rpartition(":")[0].strip("[]"), guarded=guarded, advice=advice)
        return listen


class FederationConfig(StrictModel):
    """Actors that bridges in other rooms receive, and over which links."""

    site: str = Field(
        default="lab",
        pattern=_SITE,
        max_length=64,
        description="Name of this site among the others.",
    )
    actors: tuple[str, ...] = Field(
        default=(),
        description="Actors to publish; none named = all whose source is not another bridge.",
    )
    zmq: FederationZmqConfig | None = Field(
        default=None, description="Publish over ZeroMQ; none = do not."
    )
    zenoh: FederationZenohConfig | None = Field(
        default=None, description="Publish over zenoh; none = do not."
    )
