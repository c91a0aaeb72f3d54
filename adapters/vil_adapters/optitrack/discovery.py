"""Search for NatNet servers, their bodies and skeletons and the rates of these."""

from __future__ import annotations

import array
import asyncio
import contextlib
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from vil_adapters.optitrack.config import OptitrackConfig
from vil_adapters.optitrack.diagnostics import dotted
from vil_adapters.optitrack.source import OptitrackSource
from vil_adapters.sessions.discovery import LOOPBACK, SubjectRates
from vil_bridge.core.errors import ProtocolError, SourceUnavailable
from vil_bridge.interfaces.ports import FoundSource, SourceContext
from vil_bridge.protocols.natnet.codec import (
    Connect,
    MessageId,
    ServerInfo,
    decode_server_info,
    encode_connect,
    message_id,
)
from vil_bridge.runtime.network import host_and_port, resolve
from vil_bridge.runtime.supervisor import Status

_PORT: Final[int] = OptitrackConfig.model_fields["command_port"].default
_ANSWER_SHARE: Final = 0.3
_REPEAT_S: Final = 0.1
_MAX_SERVERS: Final = 64
_DATAGRAM_BYTES: Final = 65536
_DISCOVERY: Final = encode_connect(Connect("VIL Bridge"), MessageId.DISCOVERY)
_SIOCGIFBRDADDR: Final = 0x8919
_INTERFACE_NAME: Final = struct.Struct("16s16x")

_Place = tuple[str, int]


async def discover(targets: Sequence[str], timeout_s: float) -> list[FoundSource]:
    """Ask each target (``host`` or ``host:port``; none = this computer and every network it is in).

    A third of the time is for answers, the rest for counting what each server streams.

    Raises:
        ConfigError: a target is neither.
    """
    asked = [host_and_port(target, _PORT) for target in targets]
    if asked:
        places = await _resolved(asked)
    else:
        places = [(LOOPBACK, _PORT), *((ip, _PORT) for ip in _broadcasts())]
    servers = await _answers(places, _ANSWER_SHARE * timeout_s)
    left_s = (1.0 - _ANSWER_SHARE) * timeout_s
    return list(
        await asyncio.gather(*(_watch(place, info, left_s) for place, info in servers.items()))
    )


async def _resolved(places: Sequence[_Place]) -> list[_Place]:
    """Return the places by address; unknown names are left out."""
    found: list[_Place] = []
    for host, port in places:
        with contextlib.suppress(OSError):
            found.append((await resolve(host, port), port))
    return found


def _broadcasts() -> Iterator[str]:
    """Yield the broadcast address of each interface that has one."""
    if sys.platform != "linux":
        yield "255.255.255.255"
        return
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = array.array("B", _INTERFACE_NAME.pack(name.encode()[:15]))
            with contextlib.suppress(OSError):
                fcntl.ioctl(sock, _SIOCGIFBRDADDR, request)
                address = socket.inet_ntoa(request.tobytes()[20:24])
                if address != "0.0.0.0":  # noqa: S104 - "none", not a place to bind to
                    yield address


async def _answers(places: Sequence[_Place], timeout_s: float) -> dict[_Place, ServerInfo]:
    """Return the servers by the address that answered."""
    loop = asyncio.get_running_loop()
    servers: dict[_Place, ServerInfo] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        loop.add_reader(sock, _collect, sock, servers)
        try:
            until = loop.time() + timeout_s
            while loop.time() < until:
                for place in places:
                    with contextlib.suppress(OSError):
                        await loop.sock_sendto(sock, _DISCOVERY, place)
                await asyncio.sleep(min(_REPEAT_S, max(0.0, until - loop.time())))
        finally:
            loop.remove_reader(sock)
    return servers


def _collect(sock: socket.socket, servers: dict[_Place, ServerInfo]) -> None:
    """Read one answer.

    A server that is found twice (loopback and broadcast) stays twice, by its addresses.
    """
    with contextlib.suppress(OSError, ProtocolError):
        datagram, place = sock.recvfrom(_DATAGRAM_BYTES)
        if message_id(datagram) == MessageId.SERVERINFO and len(servers) < _MAX_SERVERS:
            servers[place] = decode_server_info(datagram)


async def _watch(place: _Place, info: ServerInfo, timeout_s: float) -> FoundSource:
    """Receive as the bridge does, and count."""
    ip, port = place
    keys: dict[str, str | int] = {"server": ip}
    if port != _PORT:
        keys["command_port"] = port
    config = OptitrackConfig.model_validate(keys)
    status = Status("discover")
    rates = SubjectRates()
    with contextlib.suppress(SourceUnavailable, TimeoutError):
        async with asyncio.timeout(timeout_s):
            await OptitrackSource("discover", config).run(rates.count, status, SourceContext())
    version = dotted(info.natnet_version)
    mode = "multicast" if info.multicast else "unicast"
    return FoundSource(
        type="optitrack",
        config=keys,
        title=f"{info.name} {dotted(info.app_version)}, NatNet {version}, {mode}",
        bodies=rates.rates(status.facts.get("subjects", ())),
        skeletons=rates.rates(status.facts.get("skeletons", ())),
    )
