"""Network interfaces of this computer, and the one that leads to a host."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from dataclasses import dataclass
from struct import Struct
from typing import Final

__all__ = ["Interface", "Route", "interfaces", "route_to"]

_SIOCGIFADDR: Final = 0x8915
_IFREQ: Final = Struct("16s24x")
_ADDRESS_AT: Final = 20


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface with its (first) IPv4 address."""

    index: int
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Route:
    """Route of datagrams to a host.

    Attributes:
        host_ip: its address, empty when the name is unknown. local_ip: own address of the route.
        interface: its name. problem: why there is none, empty when there is.
    """

    host_ip: str
    local_ip: str = ""
    interface: str = ""
    problem: str = ""


def interfaces() -> list[Interface]:
    """Return the interfaces that have an IPv4 address, loopback first."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for index, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(sock, _SIOCGIFADDR, _IFREQ.pack(name.encode()[:15]))
            except OSError:
                continue  # it has no address
            found.append(Interface(index, name, socket.inet_ntoa(answer[_ADDRESS_AT : _ADDRESS_AT + 4])))
    return found


def route_to(host: str, port: int = 9) -> Route:
    """Return the route to a host; nothing is sent."""
    try:
        info = socket.getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_DGRAM)
    except OSError as exc:
        return Route("", problem=f"the name {host!r} is unknown ({exc.strerror or exc})")
    host_ip = str(info[0][4][0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((host_ip, port))
        except OSError as exc:
            text = (
                "no route to it"
                if exc.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH)
                else os.strerror(exc.errno or 0)
            )
            return Route(host_ip, problem=text)
        local_ip = str(sock.getsockname()[0])
    name = next((i.name for i in interfaces() if i.address == local_ip), "")
    return Route(host_ip, local_ip, name or ("lo" if local_ip.startswith("127.") else "?"))
