"""Rate limits by peer: one token bucket for each, in a table of bounded size."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

_MOST_PEERS: Final = 1024
_IPV6_SITE: Final = 64
"""Bits of an IPv6 address that one subscriber cannot choose."""


def peer_of(address: str) -> str:
    """Return the peer of an address.

    The address itself, or its network where one host has many addresses.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if ip.version == 4 or ip.is_loopback:
        return str(ip)
    return str(ip.ipv4_mapped or ipaddress.ip_network((ip, _IPV6_SITE), strict=False))


class RecentSet:
    """Set of the newest thousand different things. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: OrderedDict[Hashable, None] = OrderedDict()

    def is_new(self, thing: Hashable) -> bool:
        """Return True for a new thing, and add it."""
        with self._lock:
            new = thing not in self._seen
            self._seen[thing] = None
            self._seen.move_to_end(thing)
            if len(self._seen) > _MOST_PEERS:
                self._seen.popitem(last=False)
        return new


class RateLimiter:
    """At most ``burst`` at once and ``per_s`` for ever, for each peer; any thread.

    The peer unseen longest is forgotten.

    Args:
        clock: seconds that never run backwards.
    """

    def __init__(
        self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._clock = clock
        self._lock = threading.Lock()
        self._full_at_s: OrderedDict[Hashable, float] = OrderedDict()

    def take(self, peer: Hashable, cost: float = 1.0) -> None:
        """Count one more, or something that costs as much as several."""
        now_s = self._clock()
        with self._lock:
            self._full_at_s[peer] = (
                max(self._full_at_s.get(peer, now_s), now_s) + cost / self._per_s
            )
            self._full_at_s.move_to_end(peer)
            if len(self._full_at_s) > _MOST_PEERS:
                self._full_at_s.popitem(last=False)

    def wait_s(self, peer: Hashable) -> float:
        """Return the seconds until the next one is allowed; 0 = now."""
        empty_s = self._full_at_s.get(peer, 0.0) - self._clock()
        return max(0.0, empty_s - (self._burst - 1.0) / self._per_s)
