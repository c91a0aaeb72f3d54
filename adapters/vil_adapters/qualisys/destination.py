"""Address to which a client of the emulator has its frames sent as datagrams."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Final

from vil_bridge.core.errors import ProtocolError

__all__ = ["Destination", "read_destination"]

Destination = tuple[str, int]
"""IPv4 address and UDP port."""

_PORTS: Final = range(1023, 65536)
"""Ports that QTM takes."""


def read_destination(argument: str, client: IPv4Address, server: IPv4Address) -> Destination:
    """Read ``udp[:address]:port`` of a StreamFrames command; without an address it is the client's.

    Datagrams go to the client's own address, or to loopback for a client on this machine, never to a third party.

    Args:
        argument: in lower case.
        client: address of the peer of the TCP connection that the command came by.
        server: our address of that connection.

    Raises:
        ProtocolError: the argument cannot be read, or its address is refused; the text is the reply.
    """
    try:
        word, *addresses, port = argument.split(":")
        (address,) = map(IPv4Address, addresses or [str(client)])
        if word != "udp" or not port.isdecimal() or int(port) not in _PORTS:
            raise ValueError(argument)
    except ValueError:
        raise ProtocolError("Parse error") from None
    on_this_machine = client.is_loopback or client == server
    if address != client and not (address.is_loopback and on_this_machine):
        raise ProtocolError(f"UDP address {address} is not the client's. Leave the address out: UDP:{port}")
    return str(address), int(port)
