"""Addresses that we serve, and the rule that what the network can reach is guarded or asked for."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import ClassVar, Final, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from vil_bridge.config.address import check_host, check_port
from vil_bridge.config.base import Listening, StrictModel, custom

HOST_PATTERN: Final = r"(\*|[^\s:/\[\]*]+|\[[0-9A-Fa-f:.]+\])"


def tcp_host(endpoint: str) -> str:
    """Return the address part of ``tcp://ADDRESS:PORT``, without brackets."""
    return endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")


def is_loopback(host: str) -> bool:
    """Return True if an address or name is certainly of this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_guard(host: str, *, guarded: bool, advice: str = "") -> None:
    """Refuse what is not an address, and one that others can reach while nothing guards it.

    Args:
        host: address or name.
        guarded: keys are required, or the configuration says that none are needed.
        advice: another cure.

    Raises:
        PydanticCustomError: it is not an address, or it is not loopback and nothing guards it.
    """
    if host != "*":
        check_host(host)
    if not is_loopback(host):
        refuse_unguarded(host, guarded=guarded, cure=f"{advice}bind 127.0.0.1")


def refuse_unguarded(reach: str, *, guarded: bool, cure: str) -> None:
    """Refuse what others can reach while nothing guards it.

    Args:
        reach: description of what the network can reach, such as an address or a multicast group.
        guarded: keys are required, or the configuration says that none are needed.
        cure: change that keeps it on this machine.

    Raises:
        PydanticCustomError: nothing guards it.
    """
    if not guarded:
        raise custom(
            f"{reach} can be reached from the network and nothing guards it yet;"
            f" {cure}, or add `insecure: true` on a private link"
        )


class CurveServerConfig(StrictModel):
    """ZeroMQ server with CURVE keys: a local address, or clients with known keys."""

    listens: ClassVar[tuple[Listening, ...]] = (Listening("bind", "tcp"),)

    insecure: bool = Field(
        default=False, description="Allow an address that the network can reach without keys."
    )
    secret_key: Path | None = Field(
        default=None,
        description="File with this bridge's secret key (`vil-bridge keys new`); none = no "
        "encryption.",
    )
    allowed_keys: Path | None = Field(
        default=None,
        description="Folder with the public keys (*.key) of the clients that may connect.",
    )
    bind: str = Field(
        description="Address to listen on, tcp://ADDRESS:PORT; port 0 = any free one."
    )

    @property
    def host(self) -> str:
        """The address part of ``bind``, without brackets."""
        return tcp_host(self.bind)

    @field_validator("bind")
    @classmethod
    def _guarded(cls, bind: str, info: ValidationInfo) -> str:
        if not re.fullmatch(rf"tcp://{HOST_PATTERN}:\d{{1,5}}", bind):
            raise custom(f"must be written tcp://ADDRESS:PORT, got {bind[:80]!r}")
        guarded = bool(info.data.get("insecure") or info.data.get("secret_key"))
        require_guard(tcp_host(bind), guarded=guarded, advice="give secret_key and allowed_keys, ")
        check_port(bind)
        return bind

    @model_validator(mode="after")
    def _complete_keys(self) -> Self:
        if (self.secret_key is None) != (self.allowed_keys is None):
            raise custom(
                "secret_key and allowed_keys go together: one's own secret key, and the "
                "keys of the clients"
            )
        return self
