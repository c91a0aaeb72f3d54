"""Configuration of what is published to bridges in other rooms."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from vil_bridge.config.base import StrictModel

__all__ = ["PublishConfig", "PublishZenohConfig", "PublishZmqConfig"]

_SITE: Final = r"^[a-z][a-z0-9_-]*$"
_HOST: Final = r"(\*|[^\s:/\[\]*]+|\[[0-9A-Fa-f:.]+\])"


def _wrong(text: str) -> PydanticCustomError:
    return PydanticCustomError("publish", "{text}", {"text": text})


def _loopback(address: str) -> bool:
    """Whether only this machine reaches ``SCHEME HOST:PORT``."""
    host = re.sub(r"^\w+:?/+", "", address).rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class PublishZmqConfig(StrictModel):
    """Publish over ZeroMQ: a LAN, CURVE keys."""

    bind: str = Field(
        default="tcp://127.0.0.1:5570",
        pattern=rf"^tcp://{_HOST}:\d{{1,5}}$",
        description="Address to listen on, tcp://ADDRESS:PORT; port 0 = any free one.",
    )
    secret_key: Path | None = Field(
        default=None, description="File with this bridge's secret key (`vil-bridge keys new`); none = no encryption."
    )
    allowed_keys: Path | None = Field(
        default=None, description="Folder with the public keys (*.key) of the bridges that may listen."
    )
    insecure: bool = Field(default=False, description="Allow an address that the network can reach without keys.")

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if (self.secret_key is None) != (self.allowed_keys is None):
            raise _wrong("secret_key and allowed_keys go together: one's own secret key, and who may come in")
        if self.secret_key is None and not self.insecure and not _loopback(self.bind):
            raise _wrong(
                f"{self.bind} can be reached from the network and nothing guards it; give secret_key and"
                " allowed_keys, bind 127.0.0.1, or add `insecure: true` on a private link"
            )
        return self


class PublishZenohConfig(StrictModel):
    """Publish over zenoh (extra `federation`): several sites, TLS, users with passwords."""

    listen: str = Field(
        default="tcp/127.0.0.1:7447",
        pattern=rf"^(tcp|tls|quic)/{_HOST}:\d{{1,5}}$",
        description="Endpoint to listen on: tcp/ADDRESS:PORT, tls/ADDRESS:PORT or quic/ADDRESS:PORT.",
    )
    users: Path | None = Field(
        default=None, description="File of lines USER:PASSWORD, readable by its owner only; none = anybody."
    )
    certificate: Path | None = Field(default=None, description="This bridge's TLS certificate (PEM).")
    private_key: Path | None = Field(default=None, description="The certificate's private key (PEM).")
    insecure: bool = Field(
        default=False, description="Allow an address that the network can reach without TLS and users."
    )

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        encrypted = not self.listen.startswith("tcp/")
        if encrypted and (self.certificate is None or self.private_key is None):
            raise _wrong(f"{self.listen} needs certificate and private_key")
        if not self.insecure and not _loopback(self.listen) and (not encrypted or self.users is None):
            raise _wrong(
                f"{self.listen} can be reached from the network; use tls/ with certificate, private_key and users,"
                " listen on 127.0.0.1, or add `insecure: true` on a private link"
            )
        return self


class PublishConfig(StrictModel):
    """What bridges in other rooms may hear."""

    site: str = Field(default="lab", pattern=_SITE, max_length=64, description="Name of this site among the others.")
    actors: tuple[str, ...] = Field(
        default=(), description="Actors to publish; none named = all whose source is no other bridge."
    )
    zmq: PublishZmqConfig | None = Field(default=None, description="Over ZeroMQ; none = not.")
    zenoh: PublishZenohConfig | None = Field(default=None, description="Over zenoh; none = not.")
