"""Search for QTM servers: by broadcast on the discovery port, or by asking given ones directly."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from qtm_rt import QRTCommandException

from vil_adapters.qualisys.codec import (
    DISCOVERY_PORT,
    DataFrame,
    decode_discovery_reply,
    encode_discovery_request,
)
from vil_adapters.qualisys.connection import connect
from vil_adapters.qualisys.convert import QualisysConverter, up_axis
from vil_adapters.qualisys.parameters import Parameters
from vil_bridge.core.errors import ProtocolError
from vil_bridge.interfaces.ports import FoundSource
from vil_bridge.runtime.network import host_and_port

_DEFAULT_PORT: Final = 22223
_LOOPBACK: Final = "127.0.0.1"
_LISTEN_SHARE: Final = 0.4
_MEASURE_SHARE: Final = 0.8
_MOST_SERVERS: Final = 32


async def discover(targets: Sequence[str], timeout_s: float) -> list[FoundSource]:
    """Find QTM servers with their bodies and skeletons, and the rate at which frames come.

    Args:
        targets: ``host`` or ``host:port`` (the little-endian TCP port) to ask directly; empty =
            broadcast and this machine.
        timeout_s: for the whole search.

    Raises:
        ConfigError: a target is neither.
    """
    if targets:
        places = [host_and_port(target, _DEFAULT_PORT) for target in targets]
        left_s = timeout_s
    else:
        places = list(await ask_around(_LISTEN_SHARE * timeout_s))
        left_s = (1.0 - _LISTEN_SHARE) * timeout_s
    found = await asyncio.gather(*(_examine(host, port, left_s) for host, port in places))
    return [source for source in found if source is not None]


class _Replies(asyncio.DatagramProtocol):
    """Servers that answered.

    A server on this machine answers from several addresses; loopback is preferred.
    """

    def __init__(self) -> None:
        self.hosts: dict[tuple[str, int], str] = {}

    def datagram_received(self, data: bytes, addr: tuple[Any, int]) -> None:
        """Store an answer (called by the loop)."""
        with contextlib.suppress(ProtocolError):
            server = decode_discovery_reply(data)
            if len(self.hosts) < _MOST_SERVERS and self.hosts.get(server) != _LOOPBACK:
                self.hosts[server] = addr[0]


async def ask_around(timeout_s: float, port: int = DISCOVERY_PORT) -> dict[tuple[str, int], str]:
    """Return addresses and little-endian ports of the servers that answer a broadcast, with
    their titles.
    """
    loop = asyncio.get_running_loop()
    everywhere = ("0.0.0.0", 0)  # noqa: S104 - answers come from any interface
    transport, replies = await loop.create_datagram_endpoint(
        _Replies, everywhere, allow_broadcast=True
    )
    try:
        request = encode_discovery_request(transport.get_extra_info("sockname")[1])
        for address in ("255.255.255.255", _LOOPBACK):
            transport.sendto(request, (address, port))
        await asyncio.sleep(timeout_s)
    finally:
        transport.close()
    return {(host, base_port + 1): info for (info, base_port), host in replies.hosts.items()}


async def _examine(host: str, port: int, timeout_s: float) -> FoundSource | None:
    """Return one server with its subjects; None when it does not answer as QTM does."""
    frames: list[DataFrame] = []
    end_s = asyncio.get_running_loop().time() + timeout_s
    try:
        async with asyncio.timeout_at(end_s):
            link = await connect(host, port, lambda data, _: frames.append(data), Counter())
            try:
                title = await link.agree()
                parameters = await link.describe()
                link.stream(skeletons=bool(parameters.skeletons))
                await asyncio.wait(
                    (link.closed,),
                    timeout=_MEASURE_SHARE * (end_s - asyncio.get_running_loop().time()),
                )
            finally:
                link.close()
    except (OSError, TimeoutError, ProtocolError, QRTCommandException):
        return None
    return _found(host, port, title, parameters, frames)


def _found(
    host: str, port: int, title: str, parameters: Parameters, frames: list[DataFrame]
) -> FoundSource:
    converter = QualisysConverter("discovery", parameters, up_axis(parameters, "auto"))
    seen = [frame for data in frames if (frame := converter.frame(data, 0)) is not None]
    span_s = (frames[-1].t_us - frames[0].t_us) / 1e6 if frames else 0.0

    def rate_hz(tracked: int) -> float | None:
        """Return the frames per second in which it was tracked."""
        if span_s <= 0.0 or len(seen) <= 1:
            return None
        return tracked / len(seen) * (len(seen) - 1) / span_s

    bodies = []
    for i, name in enumerate(converter.subjects):
        shown = sum(bool(frame.tracked[i]) for frame in seen)
        bodies.append((name, rate_hz(shown)))
    skeletons = []
    for i, name in enumerate(converter.skeletons):
        shown = sum(bool(frame.skeletons[i].tracked.any()) for frame in seen)
        skeletons.append((name, rate_hz(shown)))
    return FoundSource(
        type="qualisys",
        config={"server": host, "port": port},
        title=title,
        bodies=tuple(bodies),
        skeletons=tuple(skeletons),
    )
