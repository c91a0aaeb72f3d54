"""Addresses that we serve, and the rule that what the network can reach is guarded or asked for."""

from __future__ import annotations

import ipaddress

from vil_bridge.config.address import check_host
from vil_bridge.config.base import custom

__all__ = ["is_loopback", "refuse_unguarded", "require_guard", "tcp_host"]


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
