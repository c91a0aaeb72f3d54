"""Search for DataStream servers: there is no announcement to hear, so hosts are asked one by one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from vil_adapters.vicon.config import ViconConfig
from vil_adapters.vicon.source import ViconSource
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.network import host_and_port
from vil_bridge.core.ports import FoundSource, SourceContext
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import SourceEvent, SourceFrame

__all__ = ["discover"]

_DEFAULT_PORT: Final = 801
_LOOPBACK: Final = ("127.0.0.1",)


async def discover(targets: Sequence[str], timeout_s: float) -> list[FoundSource]:
    """DataStream servers among ``targets``, or on this computer when there are none.

    Args:
        targets: ``host`` or ``host:port``.
        timeout_s: how long to listen to each of them, all at once.

    Raises:
        ConfigError: a target is neither.
    """
    places = [host_and_port(target, _DEFAULT_PORT) for target in targets or _LOOPBACK]
    found = await asyncio.gather(*(_ask(host, port, timeout_s) for host, port in places))
    return [source for source in found if source is not None]


async def _ask(host: str, port: int, timeout_s: float) -> FoundSource | None:
    """Listen to one server; None when no frame came."""
    config = ViconConfig(server=host, port=port)
    status = Status("discover")
    heard = _Heard()
    with suppress(SourceUnavailable, TimeoutError):
        async with asyncio.timeout(timeout_s):
            await ViconSource("discover", config).run(heard, status, SourceContext())
    if not heard.frames:
        return None
    return FoundSource(
        type="vicon",
        config={"server": config.server, "port": config.port},
        title=f"Vicon DataStream at {status.facts['address']}, {heard.rate_hz or 0.0:.0f} Hz",
        bodies=tuple((name, heard.rate_of(name)) for name in heard.bodies),
        skeletons=tuple((name, heard.rate_of(name)) for name in heard.skeletons),
    )


class _Heard:
    """Which subjects were tracked, and how often; takes the source's events."""

    def __init__(self) -> None:
        self.frames = 0
        self.bodies: tuple[str, ...] = ()
        self.skeletons: tuple[str, ...] = ()
        self._seen: Counter[str] = Counter()
        self._span_ns: tuple[int, int] = (0, 0)

    def __call__(self, event: SourceEvent) -> None:
        if not isinstance(event, SourceFrame):
            return
        self._span_ns = self._span_ns[0] or event.t_arrival_ns, event.t_arrival_ns
        self.frames += 1
        self.bodies = event.subjects
        self.skeletons = tuple(skeleton.model.name for skeleton in event.skeletons)
        self._seen.update(name for name, tracked in zip(event.subjects, event.tracked, strict=True) if tracked)
        self._seen.update(s.model.name for s in event.skeletons if s.tracked.any())

    @property
    def rate_hz(self) -> float | None:
        """Frames per second; None = not enough of them."""
        elapsed_ns = self._span_ns[1] - self._span_ns[0]
        return (self.frames - 1) * NS_PER_S / elapsed_ns if elapsed_ns else None

    def rate_of(self, name: str) -> float | None:
        """How often a subject was tracked."""
        return None if self.rate_hz is None else self.rate_hz * self._seen[name] / self.frames
