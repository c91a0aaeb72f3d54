"""Addresses as configurations write them.

Numeric ones of this machine, and hosts by number or name.
"""

from __future__ import annotations

import re
import socket
from ipaddress import IPv4Address, ip_address
from typing import Annotated, Final

from pydantic import AfterValidator

from vil_bridge.config.base import custom

_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_DIGITS_AND_DOTS: Final = re.compile(r"[0-9.]+")
MAX_PORT: Final = 65535
_INTERFACE: Final = re.compile(r"(eth|wlan)\d+|(en|wl)(o\d+|s\d+\w*|p\d+\w*|x[0-9a-f]{12})")
"""Names that Linux gives: of the kernel and of systemd's predictable scheme."""


def check_host(host: str) -> str:
    """Return a host that may exist: an address, or a name that a name server may know.

    Raises:
        PydanticCustomError: it cannot be either; says what to write.
    """
    try:
        return str(ip_address(host)) if ":" in host else str(IPv4Address(host))
    except ValueError:
        pass
    name, colon, port = host.partition(":")
    if colon and port.isdecimal():
        raise custom(
            f"{host!r} has a port. Write the address alone: {name!r}; the port has a key of its own"
        )
    _refuse_interface(host)
    if _DIGITS_AND_DOTS.fullmatch(host):
        raise custom(
            f"{host!r} is not an address. Write four numbers from 0 to 255, such as 192.168.1.10"
        )
    if not _NAME.fullmatch(host):
        raise custom(
            f"{host!r} is not an address or a host name. Write one such as 192.168.1.10 or mocap-pc"
        )
    return host


def check_port(endpoint: str) -> int:
    """Return the port that an endpoint ``...:PORT`` ends with.

    Raises:
        PydanticCustomError: there is no such port.
    """
    port = int(endpoint.rpartition(":")[2])
    if port > MAX_PORT:
        raise custom(f"there is no port {port}. Write one up to {MAX_PORT}, or 0 for any free one")
    return port


def check_ipv4(address: str) -> str:
    """Return a numeric IPv4 address.

    Raises:
        PydanticCustomError: it is not one; says what to write.
    """
    try:
        return str(IPv4Address(address))
    except ValueError:
        _refuse_interface(address)
        raise custom(
            f"{address[:80]!r} is not an IPv4 address. Write four numbers such as 192.168.1.10"
        ) from None


def _refuse_interface(host: str) -> None:
    """Name the cure for the name of a network interface where an address is wanted."""
    if host in {name for _, name in socket.if_nameindex()} or _INTERFACE.fullmatch(host):
        cure = f"Write its address: `ip -4 addr show {host}` and `vil-bridge doctor` show it"
        raise custom(f"{host!r} is a network interface. {cure}")


def _or_auto(address: str) -> str:
    return address if address == "auto" else check_ipv4(address)


def _multicast(address: str) -> str:
    if not IPv4Address(check_ipv4(address)).is_multicast:
        raise custom(
            f"{address!r} is not a multicast address. Write one from 224.0.0.0 to 239.255.255.255"
        )
    return address


Host = Annotated[str, AfterValidator(check_host)]
Ipv4 = Annotated[str, AfterValidator(check_ipv4)]
Ipv4OrAuto = Annotated[str, AfterValidator(_or_auto)]
Multicast = Annotated[str, AfterValidator(_multicast)]
