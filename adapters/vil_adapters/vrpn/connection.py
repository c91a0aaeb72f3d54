"""Connections to a VRPN server: directly, or by asking it to connect to us."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Final

from vil_bridge.protocols.vrpn.codec import encode_connect_request
from vil_bridge.protocols.vrpn.connection import OnData, OnMade, VrpnConnection


async def connect(
    ip: str, port: int, on_data: OnData, on_made: OnMade, timeout_s: float
) -> VrpnConnection:
    """Connect directly.

    Raises:
        OSError: refused, no route, or no answer in time (``TimeoutError``).
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        _, link = await loop.create_connection(lambda: VrpnConnection(on_data, on_made), ip, port)
    return link


async def call_back(
    ip: str, port: int, on_data: OnData, on_made: OnMade, timeout_s: float
) -> tuple[VrpnConnection, int]:
    """Ask by UDP to be connected to; also return how many other peers were rejected before.

    Raises:
        OSError: refused, no route, or no connection in time (``TimeoutError``).
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[VrpnConnection] = loop.create_future()
    rejected = 0

    def admit(link: VrpnConnection) -> None:
        nonlocal rejected
        if arrived.done() or link.peer[0] != ip:
            rejected += 1
            link.abort()
        else:
            on_made(link)
            arrived.set_result(link)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        asking.connect((ip, port))
        local_ip = asking.getsockname()[0]
        server = await loop.create_server(lambda: VrpnConnection(on_data, admit), local_ip, 0)
        try:
            asking.send(encode_connect_request(local_ip, server.sockets[0].getsockname()[1]))
            async with asyncio.timeout(timeout_s):
                return await arrived, rejected
        except TimeoutError:
            refusal = asking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if refusal:
                raise OSError(refusal, os.strerror(refusal)) from None
            raise
        except asyncio.CancelledError:
            if arrived.done() and not arrived.cancelled():
                arrived.result().abort()
            raise
        finally:
            server.close()


_CURES: Final = {
    errno.ECONNREFUSED: "refuses: that computer is up, but nothing listens there; is VRPN "
    "streaming enabled?",
    errno.ENETUNREACH: "is out of reach, no route: is this computer on the server's network?",
    errno.EHOSTUNREACH: "is not on this network: is it on, and is its address right?",
    errno.ECONNRESET: "ends each connection at once",
}


def explain(error: OSError) -> str:
    """Return what the network reported, and what to check; continues "the server..."."""
    if isinstance(error, TimeoutError):
        return "does not answer: is that computer on, and does its firewall let VRPN in?"
    return _CURES.get(error.errno or 0, f"cannot be reached: {error.strerror or error}")
