"""A bad network between two programs, in user space.

What is sent to the link comes out at its target.

A link relays UDP datagrams or TCP connections, each way with its own loss, delay, rate and cuts. On
TCP no byte is ever lost: what the network lost comes one retransmission later, and a cut freezes
the stream.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import Final, Self

from vil_adapters.lab.link_spec import Address, LinkSpec
from vil_adapters.lab.relays import LinkDirection, TcpRelay, UdpRelay
from vil_bridge.core.clock import NS_PER_S, now_ns

__all__ = ["LinkEmulator", "LinkSpec"]

_LOOK_S: Final = 0.01


class LinkEmulator:
    """Emulator of a link; use it with ``async with`` or ``run()``.

    Attributes:
        address: where clients are to go, known after the start.
        up, down: the two directions and their counters.
    """

    def __init__(self, spec: LinkSpec) -> None:
        self.spec = spec
        self.address: Address = spec.listen
        self.up, self.down = LinkDirection(spec.up), LinkDirection(spec.down)
        self._relay: UdpRelay | TcpRelay | None = None
        self._resetting: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """Port of :attr:`address`."""
        return self.address[1]

    @property
    def counters(self) -> Counter[str]:
        """Return the counters of both directions, as ``up_lost`` and ``down_lost``."""
        ways = (("up", self.up), ("down", self.down))
        return Counter({f"{way}_{name}": n for way, d in ways for name, n in d.counters.items()})

    def cut(self, seconds: float = math.inf) -> None:
        """Let nothing pass for so long from now on, or until :meth:`restore`."""
        self.up.cut_until_ns = self.down.cut_until_ns = now_ns() + seconds * NS_PER_S

    def restore(self) -> None:
        """End a cut made by :meth:`cut`."""
        self.up.cut_until_ns = self.down.cut_until_ns = -math.inf

    def change(self, faults: str) -> None:
        """Change to another network without losing a connection; resets by time need a new link.

        Raises:
            ConfigError: the text says nothing.
        """
        self.spec = self.spec.with_faults(faults)
        self.up.change(self.spec.up)
        self.down.change(self.spec.down)

    def reset(self) -> None:
        """Kill all TCP connections, as a rebooting router with address translation does."""
        if self._relay is not None:
            self._relay.reset()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to relay.

        Raises:
            OSError: the port is taken.
        """
        relay = UdpRelay if self.spec.protocol == "udp" else TcpRelay
        self._relay = relay(self.up, self.down)
        self.address = await self._relay.open(self.address, self.spec.target)
        self.up.started_ns = self.down.started_ns = now_ns()
        if self.spec.up.faults.restart or self.spec.down.faults.restart:
            self._resetting = asyncio.create_task(self._reset_on_time())

    async def stop(self) -> None:
        """End all connections and release the port; may be called twice."""
        if self._resetting is not None:
            self._resetting.cancel()
            await asyncio.wait((self._resetting,))
            self._resetting = None
        if self._relay is not None:
            await self._relay.close()
            self._relay = None

    async def run(self) -> None:
        """Relay until cancelled; also starts and stops.

        Raises:
            OSError: the port is taken.
        """
        async with self:
            await asyncio.get_running_loop().create_future()

    async def _reset_on_time(self) -> None:
        """Reset all connections during the episodes of resets."""
        while True:
            if any(d.faults.down(d.elapsed_ns) for d in (self.up, self.down)):
                self.reset()
            await asyncio.sleep(_LOOK_S)
